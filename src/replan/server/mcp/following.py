"""A task waited for, with its progress told, and what waits for a person asked where the client can ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from pydantic_core import from_json, to_json

from replan.core.events import Record
from replan.core.state.task import ENDED
from replan.core.types import JsonObject
from replan.run.access.callers import Caller
from replan.run.access.shown import Showing, shown
from replan.run.access.views import WaitingTask
from replan.server.mcp.messages import Outcome
from replan.server.mcp.outcomes import outcome_of
from replan.server.mcp.story import Story
from replan.server.shared import Shared
from replan.server.streams.hub import Watcher
from replan.server.told import BY_ITSELF, MAY_STAND

_OFTEN = frozenset({"step_progress", "progress_update"})
"""What a tool may report many times a second."""
_QUIET_SECS = 0.1


class Asker(Protocol):
    """Puts what waits to the person behind the client."""

    def wants(self, waiting: list[WaitingTask]) -> list[WaitingTask]:
        """Those that can be asked, and were not asked in vain before."""
        ...

    async def ask(self, waiting: list[WaitingTask], gone: Awaitable[None]) -> None:
        """Ask the first of them or all, and hand on what is said. `gone`: done when the first was answered elsewhere."""
        ...


class AskedLater(Exception):
    """The client is told what to ask, and calls again with the answers."""

    def __init__(self, waiting: list[WaitingTask]) -> None:
        super().__init__()
        self.waiting = waiting


@dataclass(frozen=True)
class _Light:
    how: Showing

    def __call__(self, record: Record) -> bytes:
        return to_json(shown(record, self.how), inf_nan_mode="null")


class Following:
    """One call that waits for a task."""

    def __init__(
        self,
        here: Shared,
        caller: Caller,
        task_id: str,
        tell: Callable[[float, float | None, str], Awaitable[None]],
        asker: Asker | None,
    ) -> None:
        self._here = here
        self._caller = caller
        self._task_id = task_id
        self._tell = tell
        self._asker = asker
        self._story = Story()
        self._quiet_until = 0.0
        self._heard = self._stood = 0
        """The last events that were told, and that are known to be."""

    async def outcome(self, wait_secs: float, *, from_the_start: bool) -> Outcome:
        """What it has come to, or how it stands after so many seconds. The time that a person takes to answer does not count."""
        uses, loop = self._here.use_cases, asyncio.get_running_loop()
        row = await uses.may_watch(self._caller, self._task_id)
        how = Showing(mode="user", light=True)
        left = wait_secs
        self._heard = 0 if from_the_start else row.last_seq
        with self._here.hub.watch(row, self._heard, _Light(how)) as watcher:
            while True:
                still = await self._stands_still()
                await self._tell_what_came(watcher)
                if still:
                    return await self._now()
                if self._heard > self._stood:  # it may stand still since: nothing more would come of that
                    continue
                if self._asker is not None and (waiting := self._asker.wants(await self._waits())):
                    await self._ask(waiting, watcher)
                    continue
                began = loop.time()
                try:
                    async with asyncio.timeout(left):
                        on = await self._until_it_may_wait(watcher)
                except TimeoutError:
                    return await self._now()
                left = max(0.0, left - (loop.time() - began))
                if not on:
                    return await self._now()

    async def _now(self) -> Outcome:
        return await outcome_of(self._here, self._caller, self._task_id)

    async def _waits(self) -> list[WaitingTask]:
        return await self._here.use_cases.waits(self._caller, self._task_id)

    async def _stands_still(self) -> bool:
        """It has ended, or goes on only once somebody does something that cannot be asked here."""
        task = await self._here.use_cases.task(self._caller, self._task_id)
        self._stood = task.last_seq
        self._story.stands(task.done_steps, task.total_steps, task.last_seq)
        if task.status in ENDED:
            return True
        if task.status != "waiting":
            return False
        asked = self._asker.wants(await self._waits()) if self._asker is not None else []
        return not asked and not {one.kind for one in task.waiting_for} <= BY_ITSELF

    async def _tell_what_came(self, watcher: Watcher) -> None:
        """Tell the events up to how it was seen to stand."""
        while self._heard < self._stood and await self._news(watcher) is not None:
            pass

    async def _until_it_may_wait(self, watcher: Watcher) -> bool:
        """Tell its progress until it may have come to stand still. False: the process is about to end."""
        while (events := await self._news(watcher)) is not None:
            if any(event["type"] in MAY_STAND for event in events):
                return True
        return not self._here.hub.stopped

    async def _news(self, watcher: Watcher) -> list[JsonObject] | None:
        """The next events, told by now; None: that was all."""
        if (frames := await watcher.next()) is None:
            return None
        events: list[JsonObject] = [from_json(frame) for frame in frames]
        for event in events:
            self._heard = max(self._heard, event["seq"])
            if event["type"] in _OFTEN and self._now_secs() < self._quiet_until:
                continue
            if (told := self._story.after(event)) is not None:
                await self._tell(*told)
                self._quiet_until = self._now_secs() + _QUIET_SECS
        return events

    def _now_secs(self) -> float:
        return asyncio.get_running_loop().time()

    async def _ask(self, waiting: list[WaitingTask], watcher: Watcher) -> None:
        assert self._asker is not None
        first = waiting[0].waiting_for.id

        async def answered_elsewhere() -> None:
            while await self._until_it_may_wait(watcher):
                if first not in {one.waiting_for.id for one in await self._waits()}:
                    return

        loop = asyncio.get_running_loop()
        gone, beating = loop.create_task(answered_elsewhere()), loop.create_task(self._beat())
        try:
            await self._asker.ask(waiting, gone)
        finally:
            gone.cancel()
            beating.cancel()
            await asyncio.wait({gone, beating})

    async def _beat(self) -> None:
        """Tell whoever called, while a person has a form before them, that they are still waited for: many clients give up on a call
        of which they hear nothing for a minute."""
        while True:
            await asyncio.sleep(self._here.pace.beat_secs)
            await self._tell(*self._story.still("waiting for a person"))
