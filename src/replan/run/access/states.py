"""The states of the tasks that somebody looks at, kept and brought up to date: what a look costs depends on what is new in the log, not on its length."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from replan.beside import beside
from replan.core.data.pieces import MANY, weight
from replan.core.events import PlanGenerated, PlanUpdated, Record, StepReflected
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.core.types import StepId
from replan.ports import Store, TaskSummary
from replan.run.session.pages import pages

MOST_SIZE = 64_000_000
"""Roughly the characters in all states that are kept."""
IDLE_SECS = 60.0
"""What nobody has looked at for so long is forgotten."""
_EACH = 1_000
"""What an event comes to in a state, beside the values in it."""
_LARGEST = 10_000_000


class _Version(NamedTuple):
    """Which history a state was made of: an id may come again, and events are written anew where there was a secret in them."""

    created: float
    rewritten: int


class Places:
    """Where in a log that stands which a state no longer has: whoever is shown it reads that and nothing else."""

    __slots__ = ("plans", "reflections")

    def __init__(self) -> None:
        self.plans: list[int] = []
        """The events that have brought a plan, the first one first."""
        self.reflections: dict[StepId, list[int]] = {}
        """Those that say what was thought of a step's failures."""

    def note(self, records: Iterable[Record]) -> None:
        for record in records:
            event = record.event
            if isinstance(event, PlanGenerated | PlanUpdated):
                self.plans.append(record.seq)
            elif isinstance(event, StepReflected):
                self.reflections.setdefault(event.step_id, []).append(record.seq)


class _Kept:
    __slots__ = ("counted", "places", "size", "state", "used", "version")

    def __init__(self, version: _Version) -> None:
        self.version = version
        self.state = State()
        self.places = Places()
        self.size = 0
        self.counted = 0
        """So much of it is in the sum of all that are kept."""
        self.used = 0.0


class States:
    """Of one process. A state goes on as its task does: what is read of it before and after an `await` may be of two moments."""

    def __init__(self, store: Store, *, most_size: int = MOST_SIZE, idle_secs: float = IDLE_SECS) -> None:
        self._store = store
        self._most_size = most_size
        self._idle_secs = idle_secs
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._forgetting: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._kept)

    async def state(self, task_id: str, summary: TaskSummary | None = None) -> State:
        """What the log of the task comes to. `summary`: its row as it was just now, where that is at hand."""
        return (await self._looked_at(task_id, summary)).state

    async def places(self, task_id: str) -> Places:
        """Where in the log of the task something stands."""
        return (await self._looked_at(task_id, None)).places

    async def _looked_at(self, task_id: str, summary: TaskSummary | None) -> _Kept:
        if summary is None:
            summary = await self._store.summary(task_id)
        version = _Version(summary.created, summary.rewritten)
        if (kept := self._known(task_id, version)) is not None and kept.state.last_seq >= summary.last_seq:
            return self._used(task_id, kept)
        turn = self._turns.setdefault(task_id, asyncio.Lock())
        async with turn:  # who comes meanwhile finds what is read now
            kept = self._known(task_id, version)
            if kept is None or kept.state.last_seq < summary.last_seq:
                kept = await self._brought_up(task_id, kept) or await self._made(task_id, version)
            return self._used(task_id, kept)

    def close(self) -> None:
        """Forget all of them."""
        self._kept.clear()
        self._size = 0
        if self._forgetting is not None:
            self._forgetting.cancel()
            self._forgetting = None

    def _known(self, task_id: str, version: _Version) -> _Kept | None:
        kept = self._kept.get(task_id)
        return kept if kept is not None and kept.version == version else None

    async def _brought_up(self, task_id: str, kept: _Kept | None) -> _Kept | None:
        """With what has come since; None where that is so much that it is not folded in one go: others read the state meanwhile."""
        if kept is None:
            return None
        records = await self._store.read(task_id, kept.state.last_seq, MANY + 1)
        if len(records) > MANY:
            return None
        fold(records, kept.state)
        kept.places.note(records)
        kept.size += _size(records)
        return kept

    async def _made(self, task_id: str, version: _Version) -> _Kept:
        made = _Kept(version)
        async for records in pages(self._store, task_id):
            made.places.note(records)
            if len(records) > MANY:
                await beside(fold, records, made.state)
                made.size += await beside(_size, records)
            else:
                fold(records, made.state)
                made.size += _size(records)
        return made

    def _used(self, task_id: str, kept: _Kept) -> _Kept:
        """Keep it as the one that was looked at last, and no more than there is room for."""
        loop = asyncio.get_running_loop()
        if (before := self._kept.get(task_id)) is not None:
            self._size -= before.counted
        self._kept[task_id] = kept
        self._kept.move_to_end(task_id)
        self._size += kept.size
        kept.counted, kept.used = kept.size, loop.time()
        while self._size > self._most_size and len(self._kept) > 1:
            self._drop_oldest()
        if self._forgetting is None:
            self._forgetting = loop.call_later(self._idle_secs, self._forget)
        return kept

    def _drop_oldest(self) -> None:
        _, dropped = self._kept.popitem(last=False)
        self._size -= dropped.counted

    def _forget(self) -> None:
        loop = asyncio.get_running_loop()
        self._forgetting = None
        while self._kept and next(iter(self._kept.values())).used <= loop.time() - self._idle_secs:
            self._drop_oldest()
        if self._kept:
            oldest = next(iter(self._kept.values())).used
            self._forgetting = loop.call_at(oldest + self._idle_secs, self._forget)


def _size(records: Sequence[Record]) -> int:
    """Roughly what they come to in a state."""
    size = 0
    for record in records:
        size += _EACH
        for value in record.event.__dict__.values():
            if isinstance(value, str | dict | list):
                size += weight(value, _LARGEST)
    return size
