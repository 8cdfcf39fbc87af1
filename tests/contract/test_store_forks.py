"""What every store promises of forks: tasks that share the beginning of another one's log."""

from __future__ import annotations

import asyncio
import random

import pytest
from test_store import FAILURE, add, claimed, steps, submitted

from replan.core.events import (
    AnyEvent,
    CancelRequested,
    ForkMade,
    Record,
    StepReady,
    TaskCompleted,
    TaskFailed,
    TaskForked,
)
from replan.core.limits.needs import Work
from replan.errors import InputError, StaleWriter, TaskExists, TaskNotFound, TaskShared
from replan.ports import Claim, NewArtifact, Shared, Store, Taken
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore
from replan.testing.store import MemoryStore

pytestmark = pytest.mark.anyio


def forked(origin: str, at: int, root: str = "t", **more: object) -> TaskForked:
    return TaskForked(origin=origin, at=at, root=root, **more)  # type: ignore[arg-type]


async def fork(store: Store, fork_id: str, origin: str, at: int, root: str = "t") -> bool:
    event = forked(origin, at, root)
    return await store.fork(fork_id, event, ForkMade(fork=fork_id, at=at), 5.0)


async def history(store: Store, task_id: str, after: int = 0, limit: int | None = None) -> list[object]:
    """The log in short: the ids of steps, and the names of all else."""
    records = await store.read(task_id, after, limit)
    assert [record.seq for record in records] == list(range(after + 1, after + 1 + len(records)))
    assert {record.task_id for record in records} <= {task_id}
    return [
        record.event.step_id if isinstance(record.event, StepReady) else record.type for record in records
    ]


async def test_a_fork_has_the_events_up_to_its_place_and_then_its_own(store: Store) -> None:
    claim = await claimed(store)
    await add(store, claim, *steps(1, 3))

    assert await fork(store, "f", "t", 3) is True
    mine = await store.claim("f")
    await add(store, mine, *steps(7, 2))
    await add(store, claim, *steps(4, 1))

    assert await history(store, "f") == ["task_submitted", "s1", "s2", "task_forked", "s7", "s8"]
    assert await history(store, "t") == ["task_submitted", "s1", "s2", "s3", "fork_made", "s4"]
    assert await history(store, "f", 2) == ["s2", "task_forked", "s7", "s8"]
    assert await history(store, "f", 1, 2) == ["s1", "s2"]
    assert await history(store, "f", 2, 2) == ["s2", "task_forked"]
    assert await history(store, "f", 4, 1) == ["s7"]
    assert await history(store, "f", 6) == []
    summary = await store.summary("f")
    assert (summary.last_seq, summary.status, summary.description) == (6, "queued", "do it")


async def test_a_fork_of_a_fork_shares_what_both_have(store: Store) -> None:
    claim = await claimed(store)
    await add(store, claim, *steps(1, 4))
    await fork(store, "f", "t", 3)
    await add(store, await store.claim("f"), *steps(5, 3))

    await fork(store, "late", "f", 6)
    await fork(store, "early", "f", 2)

    assert await history(store, "late") == [
        "task_submitted",
        "s1",
        "s2",
        "task_forked",
        "s5",
        "s6",
        "task_forked",
    ]
    assert await history(store, "late", 2, 3) == ["s2", "task_forked", "s5"]
    assert await history(store, "early") == ["task_submitted", "s1", "task_forked"]
    assert await store.rests_on("late") == [Shared("t", 3), Shared("f", 6)]
    assert await store.rests_on("early") == [Shared("t", 2)]
    assert await store.rests_on("t") == []
    assert await store.forks("t") == [Shared("f", 3), Shared("early", 2)]
    assert await store.forks("f") == [Shared("late", 6)]
    assert await history(store, "t") == ["task_submitted", "s1", "s2", "s3", "s4", "fork_made", "fork_made"]


async def test_an_ended_task_is_forked_from_before_its_end_and_stays_as_it_is(store: Store) -> None:
    claim = await claimed(store)
    await add(store, claim, *steps(1, 1), TaskFailed(failure=FAILURE))

    for at in (0, 3, 4, -1):
        with pytest.raises(InputError, match="events 1 to 2 to fork from"):
            await fork(store, "f", "t", at)
    await fork(store, "f", "t", 2)

    assert await history(store, "t") == ["task_submitted", "s1", "task_failed"]
    assert await history(store, "f") == ["task_submitted", "s1", "task_forked"]
    assert (await store.summary("f")).status == "queued"
    assert [one async for one in store.follow("t")][-1].type == "task_failed"


async def test_a_place_that_is_not_there_is_refused(store: Store) -> None:
    await claimed(store)

    with pytest.raises(InputError, match="events 1 to 1 to fork from, not 2"):
        await fork(store, "f", "t", 2)
    with pytest.raises(TaskNotFound):
        await fork(store, "f", "nobody", 1)
    with pytest.raises(TaskNotFound):
        await store.read("f")
    with pytest.raises(TaskNotFound):
        await store.rests_on("f")


async def test_the_same_fork_is_made_once(store: Store) -> None:
    await claimed(store)

    assert await fork(store, "f", "t", 1) is True
    assert await fork(store, "f", "t", 1) is False
    with pytest.raises(TaskExists):
        await store.fork("f", forked("t", 1, hint="otherwise"), ForkMade(fork="f", at=1), 9.0)
    with pytest.raises(TaskExists):
        await fork(store, "t", "t", 1)

    assert await history(store, "t") == ["task_submitted", "fork_made"]
    assert await history(store, "f") == ["task_submitted", "task_forked"]


async def test_a_task_is_told_of_its_forks_and_its_appends_show_that_somebody_wrote(store: Store) -> None:
    claim, told = await claimed(store), asyncio.Event()
    listening = store.listen("t", told.set)

    await fork(store, "f", "t", 1)

    await asyncio.wait_for(told.wait(), 20)
    listening.close()
    assert await add(store, claim, *steps(1, 1)) == (3, 3)
    signals = await store.read("t", signals_only=True)
    assert [record.event for record in signals] == [ForkMade(fork="f", at=1)]


async def test_the_signals_of_a_fork_are_those_of_its_whole_history(store: Store) -> None:
    await claimed(store)
    await store.signal("t", CancelRequested(reason="early"), 2.0)
    await fork(store, "f", "t", 2)
    await store.signal("f", CancelRequested(reason="late"), 3.0)

    found = await store.read("f", signals_only=True)

    assert [(record.seq, record.event.reason) for record in found] == [(2, "early"), (4, "late")]  # type: ignore[union-attr]
    assert [record.seq for record in await store.read("f", 3, signals_only=True)] == [4]


async def test_a_fork_reads_what_the_tasks_that_it_rests_on_have_kept_apart(store: Store) -> None:
    claim = await claimed(store)
    await store.append(claim, steps(1, 1), ts=2.0, round=1, artifacts=[NewArtifact("a", b"old")])
    await fork(store, "f", "t", 2)
    mine = await store.claim("f")
    await store.append(mine, steps(2, 1), ts=2.0, round=1, artifacts=[NewArtifact("b", b"own")])
    await fork(store, "g", "f", 4)

    assert [await store.artifact("g", name) for name in "ab"] == [b"old", b"own"]
    with pytest.raises(InputError, match="no artifact 'b'"):
        await store.artifact("t", "b")
    with pytest.raises(InputError, match="no artifact 'c'"):
        await store.artifact("g", "c")


async def test_a_task_is_not_deleted_before_its_forks(store: Store) -> None:
    claim = await claimed(store)
    await add(store, claim, *steps(1, 1), TaskCompleted())
    await store.release(claim)
    await fork(store, "f", "t", 2)
    await fork(store, "g", "f", 3)

    for name, fork_of_it in (("t", "f"), ("f", "g")):
        with pytest.raises(TaskShared, match=f"before its forks, which share its history: {fork_of_it}$"):
            await store.delete(name, unfinished=True)
    for name in ("g", "f", "t"):
        await store.delete(name, unfinished=True)

    assert await store.list_tasks() == []


async def test_a_follower_of_a_fork_sees_all_of_it(store: Store) -> None:
    claim = await claimed(store)
    await add(store, claim, *steps(1, 2))
    await fork(store, "f", "t", 2)
    mine = await store.claim("f")

    async def followed() -> list[int]:
        return [record.seq async for record in store.follow("f", 1)]

    following = asyncio.create_task(followed())
    await add(store, mine, *steps(5, 1))
    await add(store, mine, TaskCompleted())

    assert await asyncio.wait_for(following, 20) == [2, 3, 4, 5]


async def test_a_call_is_taken_by_one_task_of_a_family(store: Store) -> None:
    claim = await claimed(store)
    await fork(store, "f", "t", 1)
    await fork(store, "g", "f", 2)
    f, g = await store.claim("f"), await store.claim("g")

    assert await store.take(f, "k") == Taken("f", 1)
    assert await store.take(claim, "k") == Taken("f", 1)
    assert await store.take(g, "k") == Taken("f", 1)
    assert await store.take(f, "k") == Taken("f", 2)
    assert await store.take(g, "other") == Taken("g", 1)

    assert await store.take(g, "k", over=Taken("f", 1)) == Taken("f", 2)
    assert await store.take(g, "k", over=Taken("f", 2)) == Taken("g", 3)
    assert await store.take(f, "k", over=Taken("f", 2)) == Taken("g", 3)

    assert await store.who_has("t", ["k", "other", "nobody's"]) == {"k": "g", "other": "g"}
    assert await store.who_has("g", []) == {}


async def test_what_a_task_has_made_before_it_had_forks_is_its_own(store: Store) -> None:
    claim = await claimed(store)
    await fork(store, "f", "t", 1)
    f = await store.claim("f")
    await store.take(f, "taken")

    await store.reserve("t", ["taken", "made", "too"])
    await store.reserve("t", [])

    assert await store.take(f, "made") == Taken("t", 1)
    assert (await store.take(claim, "taken")).task_id == "f"
    assert (await store.take(claim, "made")).task_id == "t"


async def test_what_a_deleted_fork_has_taken_stays_taken(store: Store) -> None:
    claim = await claimed(store)
    await fork(store, "f", "t", 1)
    f = await store.claim("f")
    await store.take(f, "k")
    await store.release(f)
    await store.delete("f", unfinished=True)

    assert await store.take(claim, "k") == Taken("", 1)
    assert await store.take(claim, "k", over=Taken("", 1)) == Taken("t", 2)


async def test_who_was_fenced_out_takes_nothing(store: Store) -> None:
    old = await claimed(store)
    await store.claim("t", steal=True)

    with pytest.raises(StaleWriter):
        await store.take(old, "k")


async def test_of_many_that_take_at_once_one_has_the_call(store: Store) -> None:
    await claimed(store)
    names = [f"f{n}" for n in range(8)]
    for name in names:
        await fork(store, name, "t", 1)
    claims = [await store.claim(name) for name in names]

    taken = await asyncio.gather(*(store.take(claim, "k") for claim in claims))

    assert len({one.task_id for one in taken}) == 1
    winner = taken[0]
    over = await asyncio.gather(*(store.take(claim, "k", over=winner) for claim in claims))
    assert len({one.task_id for one in over}) <= 2


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_forks_of_forks_read_as_in_a_store_that_copies(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any tree of forks, read in pages of any size, is what a store with a copy for each has."""
    rng = random.Random(7)
    if kind == "postgres":
        opened: Store = PostgresStore(request.getfixturevalue("postgres_schema"))
    else:
        opened = SqliteStore(tmp_path_factory.mktemp("forks") / "log.db")
    try:
        for turn in range(6):
            plain, claims = MemoryStore(), dict[tuple[int, str], Claim]()
            names = [f"t{turn}"]
            for here, store in enumerate((plain, opened)):
                await store.create(names[0], submitted(), 1.0)
                claims[here, names[0]] = await store.claim(names[0])
            for at in range(12):
                name = rng.choice(names)
                if rng.random() < 0.6:
                    batch: list[AnyEvent] = steps(at * 10, rng.randint(1, 5))
                    for here, store in enumerate((plain, opened)):
                        await add(store, claims[here, name], *batch)
                else:
                    last = (await plain.summary(name)).last_seq
                    new, place = f"{names[0]}.{at}", rng.randint(1, last)
                    for here, store in enumerate((plain, opened)):
                        await fork(store, new, name, place, names[0])
                        claims[here, new] = await store.claim(new)
                    names.append(new)
            for name in names:
                expected = await plain.read(name)
                assert await opened.read(name) == expected
                assert await opened.rests_on(name) == await plain.rests_on(name)
                assert await opened.forks(name) == await plain.forks(name)
                size, after, read = rng.randint(1, 4), rng.randint(0, len(expected)), list[Record]()
                while page := await opened.read(name, after + len(read), size):
                    read += page
                assert read == expected[after:]
    finally:
        await opened.aclose()


async def test_a_fork_that_workers_take_waits_in_its_line(request: pytest.FixtureRequest) -> None:
    store = PostgresStore(request.getfixturevalue("postgres_schema"))
    try:
        await store.create("t", submitted(), 1.0)
        await store.fork("f", forked("t", 1), ForkMade(fork="f", at=1), 2.0, work=Work(queue="q", priority=3))

        summary = await store.summary("f")

        assert (summary.queue, summary.due, summary.lacks_worker) == ("q", True, True)
    finally:
        await store.aclose()


async def test_a_family_is_told_at_once_with_how_far_each_log_is(store: Store) -> None:
    claim = await claimed(store)
    await add(store, claim, *steps(1, 3))
    await fork(store, "f", "t", 3)
    await fork(store, "g", "f", 4)
    await fork(store, "h", "g", 2)  # which rests on the first
    await claimed(store, "other")

    for name in ("t", "f", "g", "h"):
        found = await store.family(name)
        assert [one.task_id for one in found] == ["t", "f", "g", "h"]
        for one in found:
            summary = await store.summary(one.task_id)
            assert (one.created, one.last_seq) == (summary.created, summary.last_seq)
    assert [one.task_id for one in await store.family("other")] == ["other"]

    await store.delete("g", unfinished=True)
    assert [one.task_id for one in await store.family("h")] == ["t", "f", "h"]
    with pytest.raises(TaskNotFound):
        await store.family("g")
