"""Tasks that the store has kept from being driven go on once it answers again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from replan.core.words import one_line
from replan.errors import ReplanError, StoreBusy, StoreError, StoreFull, StoreUnusable

_FIRST_PAUSE, _MOST_PAUSE = 1.0, 30.0
_STEADY_SECS = 60.0
"""What has gone well for so long is a new trouble, the next time."""
_PASSES = (StoreBusy, StoreFull, StoreUnusable)
"""Of the database as a whole. What is wrong with one log would be so again, and its calls would be made for nothing."""
log = logging.getLogger("replan")


class KeepingUp:
    """`go_on`: has a task driven; `take_up`: has all of them driven that an earlier process has left; `take_over`: those that
    another process leaves meanwhile, which is looked for `every` so many seconds."""

    def __init__(
        self,
        go_on: Callable[[str], Awaitable[None]],
        take_up: Callable[[], Awaitable[int]],
        take_over: Callable[[], Awaitable[int]],
        every: float,
    ) -> None:
        self._take_over, self._every = take_over, every
        self._go_on = go_on
        self._take_up = take_up
        self._tasks: dict[str, None] = {}
        self._some = asyncio.Event()

    def lost(self, task_id: str, error: BaseException) -> None:
        """Nobody drives the task any more, or nobody could begin to, because of that."""
        if isinstance(error, _PASSES):
            self._tasks[task_id] = None
            self._some.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        now = asyncio.get_running_loop().time
        taken, pause, looked = False, _FIRST_PAUSE, float("-inf")
        while True:
            taken = taken or await self._all_taken_up(self._take_up)
            for task_id in list(self._tasks):
                del self._tasks[task_id]
                await self._again(task_id)
            if taken and not self._tasks:
                self._some.clear()
                await self._until_some()
            pause = min(2 * pause, _MOST_PAUSE) if now() - looked < _STEADY_SECS + pause else _FIRST_PAUSE
            await asyncio.sleep(pause)
            looked = now()

    async def _until_some(self) -> None:
        while not self._some.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._some.wait()
                    return
            await self._all_taken_up(self._take_over)

    async def _all_taken_up(self, take: Callable[[], Awaitable[int]]) -> bool:
        try:
            found = await take()
        except StoreError as error:
            log.warning("unfinished tasks cannot be taken up yet: %s", one_line(str(error)))
            return False
        except ReplanError as error:
            log.error("unfinished tasks cannot be taken up: %s", one_line(str(error)))
            return True
        if found:
            log.info("%d unfinished %s taken up", found, "task" if found == 1 else "tasks")
        return True

    async def _again(self, task_id: str) -> None:
        try:
            await self._go_on(task_id)
        except StoreError as error:
            self.lost(task_id, error)
        except ReplanError as error:
            log.warning("task %s does not go on here: %s", task_id, one_line(str(error)))
        else:
            log.info("task %s goes on: the database answers again", task_id)
