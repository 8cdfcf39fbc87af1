"""A task's log page by page: a long one is folded without ever being held."""

from __future__ import annotations

from collections.abc import AsyncIterator

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.events import Record
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.ports import EventLog

PAGE = 5_000


async def pages(log: EventLog, task_id: str, after: int = 0) -> AsyncIterator[list[Record]]:
    """The records after `after`, in order. Full pages and one that is not, which may be empty."""
    while True:
        records = await log.read(task_id, after, PAGE)
        yield records
        if len(records) < PAGE:
            return
        after = records[-1].seq


async def folded(log: EventLog, task_id: str, before: State | None = None) -> State:
    """The state that the log comes to. `before`: what it had come to, which is gone on with."""
    state = State() if before is None else before
    async for records in pages(log, task_id, state.last_seq):
        await beside(fold, records, state) if len(records) > MANY else fold(records, state)
    return state
