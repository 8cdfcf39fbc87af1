"""The logs of a task's family, as far as they have been read: each is gone on with where it was left."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from replan.core.again.in_family import Family
from replan.core.calls.site import Place
from replan.core.data.pieces import MANY
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.core.types import CallKey, ToolSpec
from replan.errors import TaskNotFound
from replan.run.session.context import Run
from replan.run.session.pages import folded, pages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class FamilyLogs:
    """What the other tasks of a family have done, for one drive."""

    __slots__ = ("_family", "_looks", "_read", "_reads", "_run", "claims", "spoken_for")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._read: dict[str, tuple[float, State]] = {}
        """With when the task was created: its name may come again."""
        self._reads: dict[tuple[str, float], _OneAtATime] = {}
        self._looks = _OneAtATime()
        self._family: Family | None = None
        self.claims: dict[CallKey, CallKey] = {}
        """By effects of others: the call here that each is to stand for, until the log says so."""
        self.spoken_for: dict[CallKey, tuple[int, Place]] = {}
        """By effects of others: the plan that marks several such calls with `repeat`, and the one of them that was not made for it."""

    async def state(self, task_id: str, created: float) -> State:
        """What the task has come to by now."""
        reads = self._reads.setdefault((task_id, created), _OneAtATime())
        await reads.do(lambda: self._read_on(task_id, created))
        return self._read[task_id][1]

    async def _read_on(self, task_id: str, created: float) -> None:
        """Go on with its log: in the event loop, where it is looked at meanwhile."""
        store, known = self._run.parts.store, self._read.get(task_id)
        if known is None or known[0] != created:
            self._read[task_id] = created, await folded(store, task_id)
            return
        state = known[1]
        async for records in pages(store, task_id, state.last_seq):
            for start in range(0, len(records), MANY):
                fold(records[start : start + MANY], state)
                if start + MANY < len(records):
                    await asyncio.sleep(0)

    async def all(self, resolve: Callable[[str], ToolSpec | None]) -> Family:
        """The task with all others of its family."""
        family = self._family = self._family or Family(self._run.state, {}, resolve)
        await self._looks.do(lambda: self._look(family))
        return family

    async def _look(self, family: Family) -> None:
        others: dict[str, State] = {}
        for one in await self._run.parts.store.family(self._run.task_id):
            if one.task_id == self._run.task_id:
                continue
            known = self._read.get(one.task_id)
            if known is not None and known[0] == one.created and known[1].last_seq >= one.last_seq:
                others[one.task_id] = known[1]  # nothing has been written to it: most have ended
                continue
            try:
                others[one.task_id] = await self.state(one.task_id, one.created)
            except TaskNotFound:
                continue  # deleted meanwhile
        for _ in family.read_on(others):
            await asyncio.sleep(0)


class _OneAtATime:
    """Something that one does at a time; what was begun after somebody had asked for it is done for them, too."""

    __slots__ = ("_count", "_done", "_lock")

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._count = itertools.count(1)
        self._done = 0

    async def do(self, work: Callable[[], Awaitable[None]]) -> None:
        asked = next(self._count)
        async with self._lock:
            if self._done < asked:
                began = next(self._count)
                await work()
                self._done = began


def logs_of(run: Run) -> FamilyLogs:
    """Those of this drive."""
    if run.family is None:
        run.family = FamilyLogs(run)
    found: FamilyLogs = run.family
    return found
