"""A store with a million events beside one with ten thousand: what each operation costs in both."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.scale.measure import row
from bench.scale.shapes import events_of_task
from replan.core import events as e
from replan.store.sqlite import SqliteStore

EACH = 50
"""Events of a task."""
TASKS = (200, 20_000)
TRIES = 200


async def filled(path: Path, tasks: int) -> float:
    """Write the tasks through the store itself; wall seconds."""
    first, *events = events_of_task((EACH - 6) // 4)
    assert isinstance(first, e.TaskSubmitted)
    while len(events) < EACH - 2:
        events.append(e.BudgetWarning(limit="max_tool_calls", used=8, allowed=10))
    events.append(e.TaskCompleted(final_output="done", score=100.0))
    store = SqliteStore(path)
    begun = time.perf_counter()

    async def one(n: int) -> None:
        task_id = f"task_{n:06d}"
        await store.create(task_id, first.model_copy(update={"description": f"task {n}"}), float(n))
        claim = await store.claim(task_id)
        await store.append(claim, events, ts=float(n), round=1)
        await store.release(claim)

    for at in range(0, tasks, 100):
        await asyncio.gather(*(one(n) for n in range(at, min(at + 100, tasks))))
    spent = time.perf_counter() - begun
    await store.aclose()
    return spent


async def median_ms(work: Callable[[int], Awaitable[Any]], tries: int = TRIES) -> float:
    spent = []
    for n in range(tries):
        begun = time.perf_counter()
        await work(n)
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent) * 1e3


async def operations(path: Path, tasks: int) -> dict[str, float]:
    """Median wall milliseconds of each operation."""

    async def opened(_: int) -> None:
        await SqliteStore(path).aclose()

    def named(n: int) -> str:
        return f"task_{n * 7919 % tasks:06d}"

    found = {"open and close": await median_ms(opened, 20)}
    store = SqliteStore(path)
    found["list the newest 100"] = await median_ms(lambda _: store.list_tasks(limit=100))
    found["list 100 further down"] = await median_ms(
        lambda n: store.list_tasks(limit=100, before=f"task_{tasks // 2 + n % 50:06d}")
    )
    found["list 100 with a status"] = await median_ms(
        lambda _: store.list_tasks(status=["succeeded"], limit=100)
    )
    found["list failed ones (there are none)"] = await median_ms(
        lambda _: store.list_tasks(status=["failed", "cancelled"], limit=100)
    )
    found["summary of one"] = await median_ms(lambda n: store.summary(named(n)))
    found["read the log of one"] = await median_ms(lambda n: store.read(named(n)))
    await store.create("live", e.TaskSubmitted(description="live"), 1.0)
    claim = await store.claim("live")
    event = e.StepReady(step_id="s1")

    async def append(_: int) -> None:
        await store.append(claim, [event], ts=1.0, round=1)

    found["append one event"] = await median_ms(append)
    followed = store.follow("live", (await store.summary("live")).last_seq)

    async def append_and_see(_: int) -> None:
        store.append(claim, [event], ts=1.0, round=1)
        await anext(followed)

    await append_and_see(0)
    found["from append to follower"] = await median_ms(append_and_see)

    async def create_and_claim(n: int) -> None:
        await store.create(f"new_{n}", e.TaskSubmitted(description="new"), 1.0)
        await store.release(await store.claim(f"new_{n}"))

    found["create, claim and release"] = await median_ms(create_and_claim)
    await followed.aclose()  # type: ignore[attr-defined]
    await store.aclose()
    return found


async def one_size(tasks: int) -> tuple[dict[str, float], float, float]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "log.db"
        spent = await filled(path, tasks)
        size = path.stat().st_size / (tasks * EACH)
        return await operations(path, tasks), size, tasks * EACH / spent


async def main() -> None:
    small, large = [await one_size(tasks) for tasks in TASKS]
    row("a store with events", [f"{tasks * EACH:,}" for tasks in TASKS] + ["ratio"])
    row("  file, bytes an event", [f"{small[1]:.0f}", f"{large[1]:.0f}", f"{large[1] / small[1]:.2f}"])
    row("  filled, events/s", [f"{small[2]:,.0f}", f"{large[2]:,.0f}", f"{large[2] / small[2]:.2f}"])
    for name, spent in small[0].items():
        row(f"  {name}, ms", [spent, large[0][name], f"{large[0][name] / spent:.2f}"])


def run() -> None:
    asyncio.run(main())
