"""A page of events is the part of the log that was asked for, and costs what it has, not what the log has."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_store_tenants import Explaining

from replan.core.events import AnyEvent, ForkMade, HintGiven, StepReady, TaskForked, TaskSubmitted
from replan.ports import Store
from replan.store import forks, schema
from replan.store.postgres import statements as sql
from replan.store.postgres.address import Address
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

COUNT = itertools.count()
BATCHES = st.lists(st.integers(0, 130), min_size=1, max_size=5)
"""So many events are appended together; 0: a person writes one. A row has up to 100."""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One for all examples, each with tasks of its own."""
    if request.param == "postgres":
        opened: Store = PostgresStore(request.getfixturevalue("new_postgres_schema")())
    else:
        opened = SqliteStore(tmp_path_factory.mktemp("pages") / "log.db")
    yield opened
    asyncio.run(opened.aclose())


async def write(store: Store, task_id: str, batches: list[int]) -> None:
    claim = await store.claim(task_id)
    for n, size in enumerate(batches):
        if size:
            events: list[AnyEvent] = [StepReady(step_id=f"s{n}") for n in range(size)]
            await store.append(claim, events, ts=2.0, round=1)
        else:
            await store.signal(task_id, HintGiven(request_id=f"h{n}", hint="x"), 2.0)


async def fork(store: Store, task_id: str, origin: str, at: int) -> None:
    event = TaskForked(origin=origin, at=at, root="t")
    await store.fork(task_id, event, ForkMade(fork=task_id, at=at), 3.0)


@settings(max_examples=24, deadline=None)
@given(
    line=st.lists(st.tuples(BATCHES, st.floats(0, 1)), min_size=1, max_size=3),
    asked=st.lists(st.tuples(st.floats(0, 1.05), st.integers(0, 150)), min_size=2, max_size=6),
)
async def test_a_page_is_that_part_of_the_log(
    store: Store, line: Any, asked: list[tuple[float, int]]
) -> None:
    """Also of forks of forks, each made at some event of the one before."""
    tasks = [f"{next(COUNT)}.{n}" for n in range(len(line))]
    await store.create(tasks[0], TaskSubmitted(description="x"), 1.0)
    for n, (batches, at) in enumerate(line):
        if n:
            last = (await store.summary(tasks[n - 1])).last_seq
            await fork(store, tasks[n], tasks[n - 1], max(1, round(at * last)))
        await write(store, tasks[n], batches)
    for task_id in tasks:
        whole = await store.read(task_id)
        assert [record.seq for record in whole] == list(range(1, len(whole) + 1))
        for share, limit in asked:
            after = round(share * len(whole))
            assert await store.read(task_id, after, limit) == whole[after : after + limit]
            signals = [one for one in whole[after:] if one.event.signal]
            assert await store.read(task_id, after, limit, signals_only=True) == signals[:limit]


LONG, TOGETHER = 12_000, 100


async def long_line(store: Store) -> None:
    """A log of 12,000 events, a fork of it at its middle, with as many of its own, and a fork of that one."""
    await store.create("t", TaskSubmitted(description="x"), 1.0)
    for task_id in ("t", "f", "g"):
        if task_id != "t":
            origin = "t" if task_id == "f" else "f"
            await fork(store, task_id, origin, (await store.summary(origin)).last_seq // 2)
        await write(store, task_id, [TOGETHER] * (LONG // TOGETHER))


PLACES = [0, 50, 3_000, 5_990, 6_000, 6_005, 8_995, 9_000, 11_950, 17_000]


async def test_a_page_of_a_long_log_reads_its_rows_alone_in_sqlite(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    await long_line(store)
    await store.aclose()
    with contextlib.closing(schema.connect(tmp_path / "log.db")) as db:
        for task_id, after in itertools.product(("t", "f", "g"), PLACES):
            took = 0

            def count() -> None:
                nonlocal took
                took += 10

            db.set_progress_handler(count, 10)
            number = db.execute("SELECT id FROM task WHERE task_id = ?", (task_id,)).fetchone()[0]
            history = forks.pieces(db, task_id, number, after)
            page = list(itertools.islice(forks.records(db, task_id, history, 100), 100))
            assert len(page) == 100 or (task_id, after) in {("t", 11_950), ("t", 17_000)}
            assert took < 800, (task_id, after)


async def test_a_page_of_a_long_log_reads_its_rows_alone_in_postgresql(postgres_schema: str) -> None:
    store = PostgresStore(postgres_schema)
    await long_line(store)
    await store.aclose()
    with psycopg.connect(**Address(postgres_schema).given, autocommit=True) as db:
        db.execute("ANALYZE")
        for task_id, after in itertools.product(("t", "f", "g"), PLACES):
            params = {"task": task_id, "after": after, "to": after + 100}
            for statement in (sql.PAGE, sql.SHARED_PAGE):
                line = Explaining(db)
                rows = await line.ask(statement.format(only="", own=sql.OWN_TO, limit="LIMIT 100"), params)
                assert len(rows) <= 5
                assert line.read < 80, (task_id, after)
