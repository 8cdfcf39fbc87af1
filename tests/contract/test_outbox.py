"""What every outbox promises: each stored event of each task, in order, at least once, whoever dies in between."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postgres_server import PostgresServer, sql_at
from replan.core.events import (
    AnyEvent,
    CancelRequested,
    ForkMade,
    Record,
    StepReady,
    TaskCompleted,
    TaskForked,
    TaskSubmitted,
)
from replan.errors import InputError, StaleWriter
from replan.ports import Outbox, Reading, Store
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


class Place(NamedTuple):
    """A store, and the same database opened as by another process."""

    store: SqliteStore | PostgresStore
    other: SqliteStore | PostgresStore


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    address = request.getfixturevalue("postgres_schema") if request.param == "postgres" else None
    opened = [PostgresStore(address) if address else SqliteStore(tmp_path / "log.db") for _ in range(2)]
    yield Place(*opened)
    for store in opened:
        await store.aclose()


async def grow(store: Store, task_id: str, count: int, *, end: bool = False, new: bool = True) -> None:
    """A task that has so many events more."""
    if new:
        await store.create(task_id, TaskSubmitted(description=task_id), 1.0)
        count -= 1
    claim = await store.claim(task_id)
    events: list[AnyEvent] = [StepReady(step_id=f"s{n}") for n in range(count - end)]
    if end:
        events.append(TaskCompleted())
    for event in events:
        await store.append(claim, [event], ts=2.0, round=1)
    await store.release(claim)


async def rest(outbox: Outbox, reading: Reading, *, most: int = 1_000) -> list[Record]:
    """All that it is delivered until there is nothing, the cursor moved each time."""
    found: list[Record] = []
    for _ in range(most):
        batch = await outbox.next(reading)
        if not batch.records:
            return found
        found += batch.records
        await outbox.delivered(reading, batch)
    raise AssertionError("it never ends")


async def begun(outbox: Outbox, name: str = "audit", *, from_now: bool = False) -> Reading:
    await outbox.register(name, from_now=from_now)
    reading = await outbox.take(name)
    assert reading is not None
    return reading


def numbers(records: list[Record]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for record in records:
        found[record.task_id].append(record.seq)
    return dict(found)


async def test_a_consumer_gets_every_event_of_every_task_in_order_and_once(place: Place) -> None:
    store = place.store
    await grow(store, "a", 30, end=True)
    await grow(store, "b", 3)
    reading = await begun(store.outbox())

    first = await rest(store.outbox(), reading)
    await grow(store, "c", 5, end=True)
    await grow(store, "b", 2, new=False)
    await store.signal("b", CancelRequested(reason="so"), 3.0)
    then = await rest(store.outbox(), reading)

    assert numbers(first) == {"a": list(range(1, 31)), "b": [1, 2, 3]}
    assert numbers(then) == {"b": [4, 5, 6], "c": [1, 2, 3, 4, 5]}
    assert [record for record in first + then if record.task_id == "b"] == await store.read("b")


async def test_what_was_appended_together_is_delivered_event_by_event(place: Place) -> None:
    store = place.store
    await store.create("t", TaskSubmitted(description="t"), 1.0)
    claim = await store.claim("t")
    await store.append(claim, [StepReady(step_id=f"s{n}") for n in range(250)], ts=2.0, round=1)
    reading = await begun(store.outbox())

    assert await rest(store.outbox(), reading) == await store.read("t")


async def test_a_batch_is_bounded_in_tasks_and_in_bytes(place: Place) -> None:
    store = place.store
    for n in range(70):
        await grow(store, f"t{n}", 2)
    await store.create("big", TaskSubmitted(description="x" * 3_000_000), 1.0)
    await store.create("after", TaskSubmitted(description="y" * 3_000_000), 1.0)
    reading = await begun(store.outbox())

    sizes = []
    while (batch := await store.outbox().next(reading)).records:
        sizes.append(sum(len(str(record.event)) for record in batch.records))
        assert len({record.task_id for record in batch.records}) <= 50
        await store.outbox().delivered(reading, batch)

    assert max(sizes) < 6_000_000


async def test_one_task_that_never_rests_holds_up_no_other(place: Place) -> None:
    store = place.store
    for n in range(60):
        await grow(store, f"busy{n}", 2)
    reading = await begun(store.outbox())
    await grow(store, "last", 2, end=True)

    for _ in range(3):
        batch = await store.outbox().next(reading)
        await store.outbox().delivered(reading, batch)
        if "last" in numbers(list(batch.records)):
            return
        for n in range(60):
            await grow(store, f"busy{n}", 1, new=False)
    raise AssertionError("it waits for ever")


async def test_a_cursor_that_was_not_moved_has_the_batch_come_again_to_whoever_takes_over(
    place: Place,
) -> None:
    store, other = place
    await grow(store, "a", 3, end=True)
    reading = await begun(store.outbox())
    batch = await store.outbox().next(reading)
    await store.outbox().leave(reading)  # it has died before it could say that it was delivered

    again = await other.outbox().take("audit")
    assert again is not None
    assert numbers(await rest(other.outbox(), again)) == numbers(list(batch.records))

    with pytest.raises(StaleWriter, match="'audit'"):
        await store.outbox().delivered(reading, batch)
    with pytest.raises(StaleWriter):
        await store.outbox().next(reading)
    with pytest.raises(StaleWriter):
        await store.outbox().beat(reading)


async def test_one_process_delivers_to_a_consumer_at_a_time(place: Place) -> None:
    store, other = place
    reading = await begun(store.outbox())

    assert await other.outbox().take("audit") is None
    assert await store.outbox().take("audit") is None  # nor twice in one process
    assert await begun(other.outbox(), "webhooks")

    await store.outbox().leave(reading)
    assert await other.outbox().take("audit") is not None


async def test_a_process_that_is_gone_is_followed_by_another_at_once(place: Place) -> None:
    store, other = place
    await grow(store, "a", 2)
    await begun(store.outbox())
    await store.aclose()

    reading = await other.outbox().take("audit")

    assert reading is not None
    assert numbers(await rest(other.outbox(), reading)) == {"a": [1, 2]}


async def test_a_living_process_that_was_not_seen_for_long_is_taken_over(
    place: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store, other = place
    frozen = await begun(store.outbox())
    if isinstance(store, SqliteStore):
        with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as db:
            db.execute("UPDATE outbox_consumer SET seen = seen - 60")
            db.commit()
    else:
        address = request.getfixturevalue("postgres_schema")
        sql_at(address, "UPDATE outbox_consumer SET seen = seen - interval '60 s'")

    assert await other.outbox().take("audit") is not None
    with pytest.raises(StaleWriter):
        await store.outbox().next(frozen)


async def test_said_twice_a_cursor_moves_once(place: Place) -> None:
    store = place.store
    await grow(store, "a", 2)
    reading = await begun(store.outbox())
    first = await store.outbox().next(reading)
    await store.outbox().delivered(reading, first)
    await grow(store, "a", 2, new=False)
    second = await store.outbox().next(reading)
    await store.outbox().delivered(reading, second)

    await store.outbox().delivered(reading, first)  # its answer was lost, and it came late

    assert await rest(store.outbox(), reading) == []


async def test_from_now_on_means_what_is_stored_from_then(place: Place) -> None:
    store = place.store
    await grow(store, "ended", 3, end=True)
    await grow(store, "open", 3)
    reading = await begun(store.outbox(), from_now=True)

    assert await rest(store.outbox(), reading) == []
    await grow(store, "open", 2, new=False)
    await grow(store, "new", 2, end=True)

    assert numbers(await rest(store.outbox(), reading)) == {"open": [4, 5], "new": [1, 2]}


async def test_consumers_have_cursors_of_their_own(place: Place) -> None:
    store = place.store
    await grow(store, "a", 2)
    audit, hooks = await begun(store.outbox(), "audit"), await begun(store.outbox(), "hooks")
    await rest(store.outbox(), audit)

    assert numbers(await rest(store.outbox(), hooks)) == {"a": [1, 2]}
    assert await store.outbox().register("audit") is False
    assert await rest(store.outbox(), audit) == []


async def test_the_lag_of_each_consumer_can_be_asked_for(place: Place) -> None:
    store, other = place
    await grow(store, "a", 4)
    await grow(store, "b", 2, end=True)
    reading = await begun(store.outbox())
    (behind,) = await other.outbox().consumers()

    batch = await store.outbox().next(reading)
    await store.outbox().beat(reading, failures=3, error="it is away\0")
    (failing,) = await other.outbox().consumers()
    await store.outbox().delivered(reading, batch)
    (well,) = await other.outbox().consumers()
    await store.outbox().leave(reading)
    (left,) = await other.outbox().consumers()

    assert behind[:5] == ("audit", True, 6, 2, 1.0)
    assert (failing.failures, failing.events_behind) == (3, 6)
    assert "it is away" in (failing.error or "")
    assert well[1:5] == (True, 0, 0, None)
    assert (well.failures, well.error) == (0, None)
    assert well.delivered is not None
    assert left.read is False


async def test_a_consumer_that_is_forgotten_keeps_no_cursor(place: Place) -> None:
    store = place.store
    await grow(store, "a", 2)
    reading = await begun(store.outbox())
    await rest(store.outbox(), reading)

    assert await store.outbox().forget("audit") is True
    assert await store.outbox().forget("audit") is False
    assert await store.outbox().consumers() == []
    with pytest.raises(StaleWriter):
        await store.outbox().beat(reading)
    with pytest.raises(InputError, match="no consumer 'audit'"):
        await store.outbox().take("audit")

    assert numbers(await rest(store.outbox(), await begun(store.outbox()))) == {"a": [1, 2]}


@pytest.mark.parametrize("name", ["", "Audit", "a b", "-x", "x" * 64, "é"])
async def test_a_name_that_cannot_be_one_is_refused(place: Place, name: str) -> None:
    with pytest.raises(InputError, match="cannot be a consumer's name"):
        await place.store.outbox().register(name)


async def test_a_deleted_task_goes_with_what_was_not_delivered_and_harms_no_other(place: Place) -> None:
    store = place.store
    await grow(store, "a", 2)
    await grow(store, "b", 12)
    reading = await begun(store.outbox())
    batch = await store.outbox().next(reading)
    await store.delete("b", unfinished=True)
    await store.create(
        "b", TaskSubmitted(description="another"), 9.0
    )  # in SQLite with the number of the first
    await store.outbox().delivered(reading, batch)  # of which much had been on its way

    assert numbers(await rest(store.outbox(), reading)) == {"b": [1]}
    await store.delete("b", unfinished=True)
    await store.delete("a", unfinished=True)
    await grow(store, "c", 2, end=True)
    await grow(store, "d", 2, end=True)
    assert numbers(await rest(store.outbox(), reading)) == {"c": [1, 2], "d": [1, 2]}


async def test_of_a_fork_what_is_its_own_is_delivered(place: Place) -> None:
    store = place.store
    await grow(store, "t", 6)
    told = ForkMade(fork="f", at=4)
    assert await store.fork("f", TaskForked(origin="t", at=4, root="t"), told, 5.0)
    reading = await begun(store.outbox())
    (state,) = await store.outbox().consumers()

    assert state.events_behind == 8
    assert numbers(await rest(store.outbox(), reading)) == {"t": [1, 2, 3, 4, 5, 6, 7], "f": [5]}
    await grow(store, "f", 2, new=False, end=True)
    assert numbers(await rest(store.outbox(), reading)) == {"f": [6, 7]}


async def test_tasks_in_many_steps_of_the_horizon_are_all_delivered(place: Place) -> None:
    store = place.store
    names = [f"t{n}" for n in range(2_100)]
    for start in range(0, len(names), 100):
        await asyncio.gather(
            *(store.create(name, TaskSubmitted(description=name), 1.0) for name in names[start : start + 100])
        )
    reading = await begun(store.outbox())

    assert sorted(record.task_id for record in await rest(store.outbox(), reading)) == sorted(names)


async def test_a_task_that_is_seen_after_later_ones_is_not_passed_over(
    postgres_schema: str, postgres_server: PostgresServer
) -> None:
    import psycopg

    store = PostgresStore(postgres_schema)
    try:
        reading = await begun(store.outbox())
        late = await psycopg.AsyncConnection.connect(postgres_schema)
        await late.execute(
            "WITH t AS (INSERT INTO task (task_id, request, description, status, created, updated, last_seq, epoch)"
            " VALUES ('late', '', '\"\"', 'queued', 1, 1, 1, 1) RETURNING id)"
            """INSERT INTO event SELECT id, 1, 1, 0, 'task_submitted', '{"description": "late"}' FROM t"""
        )
        for n in range(5):
            await grow(store, f"t{n}", 2, end=True)
            assert numbers(await rest(store.outbox(), reading)) == {
                f"t{n}": [1, 2]
            }  # nor does it hold up others
        await late.commit()
        await late.close()

        assert numbers(await rest(store.outbox(), reading)) == {"late": [1]}
        await grow(store, "then", 2, end=True)
        assert numbers(await rest(store.outbox(), reading)) == {"then": [1, 2]}
        left = await store.outbox().next(reading)
        assert left.records == []
        assert [row async for row in _positions(postgres_schema)] == [("late", 1)]
    finally:
        await store.aclose()


async def test_from_now_waits_for_a_task_that_is_being_stored(
    postgres_schema: str, postgres_server: PostgresServer
) -> None:
    import psycopg

    store = PostgresStore(postgres_schema)
    try:
        late = await psycopg.AsyncConnection.connect(postgres_schema)
        await late.execute(
            "INSERT INTO task (task_id, request, description, status, created, updated, last_seq, epoch)"
            " VALUES ('late', '', '\"\"', 'queued', 1, 1, 0, 1)"
        )
        await grow(store, "t", 2)
        registering = asyncio.create_task(store.outbox().register("audit", from_now=True))
        await asyncio.wait({registering}, timeout=0.3)
        assert not registering.done()
        await late.commit()
        assert await registering is True
        await late.execute(
            "WITH t AS (UPDATE task SET last_seq = 1 WHERE task_id = 'late' RETURNING id)"
            """INSERT INTO event SELECT id, 1, 1, 0, 'task_submitted', '{"description": "late"}' FROM t"""
        )
        await late.commit()
        await late.close()
        reading = await store.outbox().take("audit")
        assert reading is not None
        assert numbers(await rest(store.outbox(), reading)) == {"late": [1]}
    finally:
        await store.aclose()


async def _positions(address: str) -> AsyncIterator[tuple[str, int]]:
    import psycopg

    connection = await psycopg.AsyncConnection.connect(address)
    rows = await connection.execute(
        "SELECT task_id, seq FROM outbox_position JOIN task ON id = task ORDER BY 1"
    )
    for row in await rows.fetchall():
        yield row
    await connection.close()


# ── any order of what may happen ──

DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["new", "append", "signal", "end", "delete", "read", "crash", "steal", "register"]),
        st.integers(0, 5),
        st.integers(1, 4),
    ),
    min_size=5,
    max_size=60,
)


class History:
    """What was stored, and what a consumer has got of it."""

    def __init__(self) -> None:
        self.got: dict[str, list[int]] = defaultdict(list)
        self.cursor: dict[str, int] = defaultdict(int)

    def deliver(self, records: list[Record], *, moved: bool) -> None:
        for task_id, seqs in numbers(records).items():
            assert seqs == list(range(self.cursor[task_id] + 1, self.cursor[task_id] + 1 + len(seqs))), (
                task_id
            )
            self.got[task_id] += seqs
            if moved:
                self.cursor[task_id] = seqs[-1]


async def _lived(deeds: list[tuple[str, int, int]], stores: list[SqliteStore | PostgresStore]) -> None:
    readers: list[Reading | None] = [None, None]
    at, history, made = 0, History(), 0
    open_tasks: list[str] = []
    kept: set[str] = set()
    registered = False
    for deed, which, count in deeds:
        store = stores[at]
        name = open_tasks[which % len(open_tasks)] if open_tasks else None
        match deed:
            case "new":
                made += 1
                await grow(store, f"t{made}", count)
                open_tasks.append(f"t{made}")
                kept.add(f"t{made}")
            case "append" if name:
                await grow(store, name, count, new=False)
            case "signal" if name:
                await store.signal(name, CancelRequested(reason="so"), 2.0)
            case "end" if name:
                await grow(store, name, count, end=True, new=False)
                open_tasks.remove(name)
            case "delete" if name:
                await store.delete(name, unfinished=True)
                open_tasks.remove(name)
                kept.discard(name)
            case "register":
                registered = registered or await store.outbox().register("c")
            case "steal" if registered:
                if (reading := readers[at]) is not None:
                    await store.outbox().leave(reading)
                    readers[at] = None
                at = 1 - at
            case "read" | "crash" if registered:
                readers[at] = readers[at] or await store.outbox().take("c")
                reading = readers[at]
                assert reading is not None
                for _ in range(count):
                    batch = await store.outbox().next(reading)
                    history.deliver(list(batch.records), moved=deed == "read")
                    if deed == "crash":
                        await store.outbox().leave(reading)
                        readers[at] = None
                        break
                    await store.outbox().delivered(reading, batch)
            case _:
                pass
    await stores[at].outbox().register("c")
    reading = readers[at] or await stores[at].outbox().take("c")
    assert reading is not None
    history.deliver(await rest(stores[at].outbox(), reading), moved=True)
    for task_id in kept:
        assert sorted(set(history.got[task_id])) == [record.seq for record in await stores[at].read(task_id)]


@settings(max_examples=40)
@given(deeds=DEEDS)
def test_whatever_happens_nothing_is_passed_over(
    deeds: list[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("outbox")
    asyncio.run(_on(deeds, lambda: SqliteStore(folder / "log.db")))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=DEEDS)
def test_nor_on_a_server(deeds: list[tuple[str, int, int]], new_postgres_schema: Callable[[], str]) -> None:
    address = new_postgres_schema()
    asyncio.run(_on(deeds, lambda: PostgresStore(address)))


async def _on(deeds: list[tuple[str, int, int]], opened: Callable[[], SqliteStore | PostgresStore]) -> None:
    stores = [opened(), opened()]
    try:
        await _lived(deeds, stores)
    finally:
        for store in stores:
            await store.aclose()
