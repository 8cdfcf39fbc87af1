"""Tells a program's callback every event of the tasks that are driven here."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

from replan.core.events import TERMINAL, Record
from replan.core.state.task import State
from replan.run.service.tasks import Service

OnEvent: TypeAlias = Callable[[Record], object]
"""An async one is awaited before the next event is told."""
LAST_SECS = 5.0
"""How long an ended task, or closing, waits for a callback that is at one event."""
log = logging.getLogger("replan")


class Announcer:
    """One follower a task: a slow callback is late, and slows no task."""

    def __init__(self, tell: OnEvent) -> None:
        self._tell = tell
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._said = 0
        """How often the callback has come back, so that one that is slow is told from one that hangs."""
        self._told: dict[str, int] = {}
        """Up to where, of tasks that have not ended: people may write to one while nobody drives it."""

    def follow(self, service: Service, task_id: str, after: int, driving: asyncio.Future[State]) -> None:
        """Tell every event after `after`, until the task is driven no more."""
        known = self._followers.get(task_id)
        follower = asyncio.get_running_loop().create_task(
            self._follow(service, task_id, after, driving, known)
        )
        self._followers[task_id] = follower
        follower.add_done_callback(lambda done: self._forget(task_id, done))

    async def told(self, task_id: str) -> None:
        """Return once the callback has been told all there is, or hangs: how a task ends does not depend on who watches it."""
        follower = self._followers.get(task_id)
        if follower is None or follower is asyncio.current_task():  # it asks for the result itself
            return
        while not follower.done():
            said = self._said
            await asyncio.wait({follower}, timeout=LAST_SECS)
            if said == self._said and not follower.done():
                log.warning(
                    "task %s has ended, and on_event has not come back for %g seconds: it is told the rest when it does",
                    task_id,
                    LAST_SECS,
                )
                return

    async def aclose(self) -> None:
        followers = set(self._followers.values())
        if followers:
            _, late = await asyncio.wait(followers, timeout=LAST_SECS)
            for follower in late:
                follower.cancel()
            if late:
                await asyncio.wait(late, timeout=LAST_SECS)

    async def _follow(
        self,
        service: Service,
        task_id: str,
        after: int,
        driving: asyncio.Future[State],
        earlier: asyncio.Task[None] | None,
    ) -> None:
        if earlier is not None:
            await asyncio.wait({earlier})
        after = self._told.get(task_id, after)
        records = service.parts.store.follow(task_id, after)
        loop = asyncio.get_running_loop()
        while not driving.done():
            coming = loop.create_task(_next(records))
            try:
                both: set[asyncio.Future[Any]] = {coming, driving}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not coming.done():
                    coming.cancel()
                    await asyncio.wait({coming})
            record = None if coming.cancelled() else coming.result()
            if record is None:
                break
            after = await self._say(record)
        if (close := getattr(records, "aclose", None)) is not None:
            await close()
        for record in await service.parts.store.read(task_id, after):
            await self._say(record)

    async def _say(self, record: Record) -> int:
        """Tell one; its place in the log."""
        self._told[record.task_id] = record.seq
        if isinstance(record.event, TERMINAL):
            del self._told[record.task_id]
        try:
            said = self._tell(record)
            if inspect.isawaitable(said):
                await said
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            # whatever a program's callback raises is its own: told in the log, and the task goes on
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            log.exception(
                "on_event failed at event %d (%s) of task %s", record.seq, record.type, record.task_id
            )
        self._said += 1
        return record.seq

    def _forget(self, task_id: str, follower: asyncio.Task[None]) -> None:
        if self._followers.get(task_id) is follower:
            del self._followers[task_id]
        if not follower.cancelled() and (error := follower.exception()) is not None:
            log.error("on_event is told no more of task %s", task_id, exc_info=error)


async def _next(records: AsyncIterator[Record]) -> Record | None:
    return await anext(records, None)
