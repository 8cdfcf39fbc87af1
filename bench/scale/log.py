"""Reading and folding one log of a hundred thousand events."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.scale.measure import row
from bench.scale.shapes import events_of_task
from replan.core.events import TaskSubmitted
from replan.run.session.pages import folded, pages
from replan.store.sqlite import SqliteStore

SIZES = (10_000, 100_000)


async def one_size(count: int, path: Path) -> list[float]:
    """Events a second, in CPU time: appended, read page by page, read and folded."""
    first, *events = events_of_task(count // 4)
    assert isinstance(first, TaskSubmitted)
    store = SqliteStore(path)
    await store.create("task_1", first, 1.0)
    claim = await store.claim("task_1")
    begun = time.process_time()
    for at in range(0, len(events), 500):
        await store.append(claim, events[at : at + 500], ts=2.0, round=1)
    appended = time.process_time() - begun
    wanted = len(events) + 1
    del events
    begun = time.process_time()
    count = 0
    async for records in pages(store, "task_1"):
        count += len(records)
    read = time.process_time() - begun
    assert count == wanted
    del records
    begun = time.process_time()
    state = await folded(store, "task_1")
    both = time.process_time() - begun
    assert state.open_steps == 0
    await store.aclose()
    return [count / spent for spent in (appended, read, both)]


def run() -> None:
    row("events a second (CPU)", ["appended", "read", "read and folded"], 16)
    for count in SIZES:
        with tempfile.TemporaryDirectory() as name:
            found = asyncio.run(one_size(count, Path(name) / "log.db"))
        row(f"  a log of {count:,} events", found, 16)
