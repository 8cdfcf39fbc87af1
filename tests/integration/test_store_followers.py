"""Who follows a task in a SQLite file is told of what anybody writes to it, and of nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from replan.core.events import AnyEvent, Record, StepReady, TaskFailed, TaskSubmitted
from replan.core.types import Failure
from replan.errors import StoreBusy, TaskNotFound
from replan.ports import Claim
from replan.store.sqlite import SqliteStore
from replan.store.watch import News, Seen, Watchers

pytestmark = pytest.mark.anyio

SECS = 20.0
"""Longer than anything here takes."""
END = TaskFailed(failure=Failure(kind="step", reason="it broke"))


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[list[SqliteStore]]:
    """Two, as of two processes."""
    opened = [SqliteStore(tmp_path / "log.db") for _ in range(2)]
    yield opened
    for store in opened:
        await store.aclose()


def step(n: int) -> AnyEvent:
    return StepReady(step_id=f"s{n}")


async def append(store: SqliteStore, claim: Claim, *events: AnyEvent) -> None:
    await store.append(claim, events, ts=2.0, round=1)


class Following:
    """One follower, whose records come in as they are told."""

    def __init__(self, store: SqliteStore, task_id: str, after: int = 0) -> None:
        self.seqs: list[int] = []
        self._come = asyncio.Condition()
        self.done = asyncio.create_task(self._follow(store.follow(task_id, after)))

    async def _follow(self, records: AsyncIterator[Record]) -> None:
        async for record in records:
            async with self._come:
                self.seqs.append(record.seq)
                self._come.notify_all()

    async def reaches(self, seq: int) -> None:
        async with asyncio.timeout(SECS), self._come:
            await self._come.wait_for(lambda: seq in self.seqs)


async def test_what_another_store_appends_to_a_task_of_its_own_is_followed(stores: list[SqliteStore]) -> None:
    here, there = stores
    await there.create("t", TaskSubmitted(description="x"), 1.0)
    claim = await there.claim("t")
    following = Following(here, "t")
    for n in range(3):
        await append(there, claim, step(n))
        await following.reaches(n + 2)
    await append(there, claim, END)
    await asyncio.wait_for(following.done, SECS)
    assert following.seqs == [1, 2, 3, 4, 5]


async def test_what_is_appended_after_a_takeover_is_followed_where_the_old_driver_hangs(
    stores: list[SqliteStore],
) -> None:
    here, there = stores
    await here.create("t", TaskSubmitted(description="x"), 1.0)
    await append(here, await here.claim("t"), step(1))
    following = Following(here, "t")
    await following.reaches(2)

    stolen = await there.claim("t", steal=True)
    await append(there, stolen, step(2))
    await following.reaches(3)
    await append(there, stolen, step(3), END)
    await asyncio.wait_for(following.done, SECS)
    assert following.seqs == [1, 2, 3, 4, 5]


async def test_what_a_driver_wrote_just_before_it_was_taken_over_is_followed(
    stores: list[SqliteStore],
) -> None:
    here, there = stores
    await there.create("t", TaskSubmitted(description="x"), 1.0)
    claim = await there.claim("t")
    following = Following(here, "t")
    await following.reaches(1)

    await append(there, claim, step(1))
    await here.claim("t", steal=True)  # and writes nothing for now
    await following.reaches(2)
    following.done.cancel()


async def test_a_follower_beyond_the_end_ends_with_the_task(stores: list[SqliteStore]) -> None:
    there = stores[1]
    await there.create("t", TaskSubmitted(description="x"), 1.0)
    claim = await there.claim("t")
    following = [Following(store, "t", 100) for store in stores]
    await append(there, claim, step(1))
    await append(there, claim, END)

    for one in following:
        await asyncio.wait_for(one.done, SECS)
        assert one.seqs == []


async def test_a_follower_of_a_task_that_another_store_deletes_is_told(stores: list[SqliteStore]) -> None:
    here, there = stores
    await here.create("t", TaskSubmitted(description="x"), 1.0)
    following = Following(here, "t")
    await following.reaches(1)

    await there.delete("t", unfinished=True)
    with pytest.raises(TaskNotFound):
        await asyncio.wait_for(following.done, SECS)


async def test_who_begins_to_follow_while_an_append_waits_for_the_disk_is_told(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db", synchronous="full")
    try:
        await store.create("t", TaskSubmitted(description="x"), 1.0)
        claim = await store.claim("t")
        for n in range(20):
            written = store.append(claim, [step(n)], ts=2.0, round=1)
            following = Following(store, "t", n + 1)
            await written
            await following.reaches(n + 2)
            following.done.cancel()
    finally:
        await store.aclose()


async def test_only_readers_of_what_has_moved_are_told() -> None:
    asked: list[Mapping[str, int]] = []

    async def look(seen: Seen) -> News:
        return News(Seen(seen.version + 1, 0), True, ())

    async def moved(read: Mapping[str, int]) -> list[str]:
        asked.append(dict(read))
        return ["b"]

    watchers = Watchers(look, moved, Seen())
    with watchers.watch("a") as idle, watchers.watch("b") as busy, watchers.watch("b") as behind:
        idle.seen, busy.seen, behind.seen = 7, 9, 4
        for one in (busy, behind):
            await asyncio.wait_for(one.wait(), SECS)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(idle.wait(), 0)
    await watchers.aclose()
    assert asked[0] == {"a": 7, "b": 4}


async def test_what_a_look_could_not_see_is_looked_for_again() -> None:
    seen: list[Seen] = []
    fails = iter([True, False, False])

    async def look(before: Seen) -> News:
        seen.append(before)
        return News(Seen(8, 0), before.version != 8, ())

    async def moved(read: Mapping[str, int]) -> list[str]:
        if next(fails):
            raise StoreBusy("the database is locked")
        return list(read)

    watchers = Watchers(look, moved, Seen())
    with watchers.watch("a") as watch:
        await asyncio.wait_for(watch.wait(), SECS)
    await watchers.aclose()
    assert seen == [Seen(), Seen()]


async def test_thousands_of_followers_leave_others_their_turn(tmp_path: Path) -> None:
    """As many as are looked at in several readings."""
    store = SqliteStore(tmp_path / "log.db")
    other = SqliteStore(tmp_path / "log.db")
    try:
        for n in range(1_200):
            await store.create(f"t{n}", TaskSubmitted(description="x"), 1.0)
        following = [Following(store, f"t{n}") for n in range(1_200)]
        for one in following:
            await one.reaches(1)
        for n in (0, 600, 1_199):
            await append(other, await other.claim(f"t{n}"), step(1))
            await following[n].reaches(2)
        assert sum(one.seqs != [1] for one in following) == 3
        for one in following:
            one.done.cancel()
        await asyncio.gather(*(one.done for one in following), return_exceptions=True)
    finally:
        await store.aclose()
        await other.aclose()
