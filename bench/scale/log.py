"""Reading and folding one log of a hundred thousand events."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.scale.measure import cpu_of, row
from bench.scale.shapes import events_of_task
from replan.core.events import TaskSubmitted
from replan.core.state.fold import fold
from replan.store.sqlite import SqliteStore

SIZES = (10_000, 100_000)


async def one_size(count: int, path: Path) -> list[float]:
    """Events a second, in CPU time: appended, read, folded."""
    first, *events = events_of_task(count // 4)
    assert isinstance(first, TaskSubmitted)
    store = SqliteStore(path)
    await store.create("task_1", first, 1.0)
    claim = await store.claim("task_1")
    begun = time.process_time()
    for at in range(0, len(events), 500):
        await store.append(claim, events[at : at + 500], ts=2.0, round=1)
    appended = time.process_time() - begun
    begun = time.process_time()
    records = await store.read("task_1")
    read = time.process_time() - begun
    folded, state = cpu_of(lambda: fold(records), 3)
    assert len(records) == len(events) + 1
    assert state.open_steps == 0
    await store.aclose()
    return [len(records) / spent for spent in (appended, read, folded)]


def run() -> None:
    row("events a second (CPU)", ["appended", "read", "folded"], 14)
    for count in SIZES:
        with tempfile.TemporaryDirectory() as name:
            found = asyncio.run(one_size(count, Path(name) / "log.db"))
        row(f"  a log of {count:,} events", found, 14)
