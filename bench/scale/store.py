"""A store with ten million events beside one with ten thousand, on each database: what each operation costs, warm."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.scale.clones import POSTGRES, SQLITE, Ask, Names, clone, name_of, postgres_ask, sqlite_ask
from bench.scale.measure import Sizes, no_postgres, row
from bench.scale.shapes import events_of_task
from replan.core import events as e
from replan.core.state.fold import fold
from replan.store.sqlite import SqliteStore

EACH = 50
"""Events of a task."""
FEW = 10_000
TRIES = 200
Opened = Callable[[], Any]


def template() -> list[e.AnyEvent]:
    """The log of a task of so many events."""
    events = events_of_task((EACH - 6) // 4)
    while len(events) < EACH - 1:
        events.append(e.BudgetWarning(limit="max_tool_calls", used=8, allowed=10))
    return [*events, e.TaskCompleted(final_output="done", score=100.0)]


async def filled(open_store: Opened, ask: Ask, names: Names, events: int) -> float:
    """Write one task through the store, a row an event, and so many clones; wall seconds."""
    first, *others = template()
    assert isinstance(first, e.TaskSubmitted)
    store = open_store()
    begun = time.perf_counter()
    await store.create("template", first, 1.0)
    claim = await store.claim("template")
    for event in others:
        await store.append(claim, [event], ts=1.0, round=1)
    await store.release(claim)
    await store.aclose()
    clone(ask, names, "template", events // EACH)
    return time.perf_counter() - begun


async def median_ms(work: Callable[[int], Awaitable[Any]], tries: int = TRIES) -> float:
    spent = []
    for n in range(tries):
        begun = time.perf_counter()
        await work(n)
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent) * 1e3


async def operations(open_store: Opened, tasks: int) -> dict[str, float]:
    """Median wall milliseconds of each operation, each done once before."""

    async def opened(_: int) -> None:
        await open_store().aclose()

    def named(n: int) -> str:
        return name_of(n * 7919 % tasks)

    found = {"open and close": await median_ms(opened, 20)}
    store = open_store()
    found["list the newest 100"] = await median_ms(lambda _: store.list_tasks(limit=100))
    found["list 100 further down"] = await median_ms(
        lambda n: store.list_tasks(limit=100, before=name_of(tasks // 2 + n % 50))
    )
    found["list 100 with a status"] = await median_ms(
        lambda _: store.list_tasks(status=["succeeded"], limit=100)
    )
    found["list failed ones (there are none)"] = await median_ms(
        lambda _: store.list_tasks(status=["failed", "cancelled"], limit=100)
    )
    found["list running ones (there are none)"] = await median_ms(
        lambda _: store.list_tasks(status=["running", "waiting"], limit=100)
    )
    found["summary of one"] = await median_ms(lambda n: store.summary(named(n)))
    for n in range(TRIES):  # what is measured is warm
        await store.read(named(n))
    found["show one: read and fold its log"] = await median_ms(lambda n: shown(store, named(n)))
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

    async def resume(n: int) -> None:
        claim = await store.claim(f"new_{n}")
        await shown(store, f"new_{n}")
        await store.append(claim, [e.TaskResumed(driver="bench")], ts=1.0, round=0)
        await store.release(claim)

    found["take up a task: claim, read, append"] = await median_ms(resume)
    await followed.aclose()  # type: ignore[attr-defined]
    await store.aclose()
    return found


async def shown(store: Any, task_id: str) -> None:
    fold(await store.read(task_id))


class Size(NamedTuple):
    events: int
    found: dict[str, float]
    bytes_each: float
    filled_each_sec: float


async def sqlite_size(events: int) -> Size:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "log.db"
        await SqliteStore(path).aclose()
        db = sqlite3.connect(path)
        db.execute("PRAGMA synchronous = off")
        spent = await filled(lambda: SqliteStore(path), sqlite_ask(db), SQLITE, events)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        size = path.stat().st_size / events
        return Size(events, await operations(lambda: SqliteStore(path), events // EACH), size, events / spent)


async def postgres_size(events: int) -> Size:
    import psycopg

    from postgres_server import PostgresServer
    from replan.store.postgres.store import PostgresStore

    server = PostgresServer(fsync=True, settings={"max_wal_size": "4GB", "shared_buffers": "1GB"})
    try:
        await PostgresStore(server.url()).aclose()
        with psycopg.connect(server.url(), autocommit=True, options="-c search_path=replan") as connection:
            ask = postgres_ask(connection)
            spent = await filled(lambda: PostgresStore(server.url()), ask, POSTGRES, events)
            ask("VACUUM ANALYZE")
            ask("CHECKPOINT")
            ((size,),) = ask("SELECT pg_database_size(current_database())")
        found = await operations(lambda: PostgresStore(server.url()), events // EACH)
        return Size(events, found, size / events, events / spent)
    finally:
        server.close()


def table(small: Size, large: Size) -> None:
    row("  on disk, bytes an event", [f"{one.bytes_each:.0f}" for one in (small, large)])
    row("  filled, events/s", [f"{one.filled_each_sec:,.0f}" for one in (small, large)])
    for name, spent in small.found.items():
        row(f"  {name}, ms", [spent, large.found[name], f"{large.found[name] / spent:.2f}"])


def run(sizes: Sizes) -> None:
    for name, measure in (("SQLite", sqlite_size), ("PostgreSQL", postgres_size)):
        if name == "PostgreSQL" and (why := no_postgres()):
            print(f"PostgreSQL is left out: {why}")
            continue
        found = [asyncio.run(measure(events)) for events in (FEW, sizes.events)]
        row(f"a store on {name} with events", [f"{FEW:,}", f"{sizes.events:,}", "ratio"])
        table(*found)
