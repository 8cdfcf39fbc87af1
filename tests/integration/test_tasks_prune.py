"""What nobody needs any more is removed when asked to, or by age; what others rest on stays, and the space is given back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replan import Replan, tool
from replan.config import Settings
from replan.core.events import (
    AnyEvent,
    ForkMade,
    StepReady,
    TaskCompleted,
    TaskForked,
    TaskLeft,
    TaskStarted,
    TaskSubmitted,
    TaskWaiting,
)
from replan.errors import TaskNotFound
from replan.ports import NewArtifact
from replan.run.service.pruning import prune, tidy
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

DAY = 86_400.0
NOW = time.time()
ALL = ("succeeded", "failed", "cancelled", "timed_out", "queued")


@pytest.fixture(params=["sqlite", "postgres"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "log.db")
    address = request.getfixturevalue("postgres_schema")
    return lambda: PostgresStore(address)


@pytest.fixture
async def store(opener: Callable[[], Any]) -> AsyncIterator[Any]:
    opened = opener()
    yield opened
    await opened.aclose()


async def task(
    store: Any, task_id: str, days: float, *, ends: bool = True, output: bytes = b"", fork_of: str = ""
) -> None:
    """A task that ended, or stopped, so many days ago."""
    ts = NOW - days * DAY
    if fork_of:
        event = TaskForked(origin=fork_of, at=1, root=fork_of)
        await store.fork(task_id, event, ForkMade(fork=task_id, at=1), ts)
    else:
        await store.create(task_id, TaskSubmitted(description=task_id), ts)
    claim = await store.claim(task_id)
    artifacts = [NewArtifact("a", output)] if output else []
    await store.append(claim, [StepReady(step_id="s")], ts=ts, round=1, artifacts=artifacts)
    if ends:
        await store.append(claim, [TaskCompleted(final_output=1)], ts=ts, round=1)
    await store.release(claim)


async def ids(store: Any) -> list[str]:
    return [row.task_id for row in await store.list_tasks()]


async def test_what_would_go_is_told_first_and_then_goes(store: Any) -> None:
    await task(store, "old", 40, output=b"x" * 3_000_000)
    await task(store, "open", 40, ends=False)
    await task(store, "new", 1, output=b"y" * 10)

    told = await prune(store, before=NOW - 30 * DAY)
    assert [one.task_id for one in told.tasks] == ["old"]
    assert 3_000_000 < told.freed < 3_002_000
    assert await ids(store) == ["new", "open", "old"]

    assert await prune(store, before=NOW - 30 * DAY, dry_run=False) == told
    assert await ids(store) == ["new", "open"]
    assert await store.artifact("new", "a") == b"y" * 10
    with pytest.raises(TaskNotFound):
        await store.artifact("old", "a")


async def test_size_and_status_choose_too_and_what_has_not_ended_goes_only_when_asked(store: Any) -> None:
    await task(store, "small", 40)
    await task(store, "large", 40, output=b"x" * 10_000)
    await task(store, "open", 40, ends=False)
    claim = await store.claim("open")

    assert [one.task_id for one in (await prune(store, larger_than=5_000)).tasks] == ["large"]
    assert (await prune(store, status=["failed"])).tasks == ()
    assert (await prune(store, status=["queued"])).tasks == ()
    driven = await prune(store, status=["queued"], unfinished=True, dry_run=False)
    assert (driven.tasks, driven.held) == ((), ("open",))
    await store.release(claim)
    await prune(store, status=["queued"], unfinished=True, dry_run=False)
    assert await ids(store) == ["large", "small"]


async def test_what_others_share_stays_until_they_are_gone(store: Any) -> None:
    await task(store, "root", 40, output=b"x" * 100_000)
    await task(store, "fork", 40, fork_of="root")
    await task(store, "young", 1, fork_of="root")
    await task(store, "same", 1, output=b"x" * 100_000)

    found = await prune(store, before=NOW - 30 * DAY, dry_run=False)
    assert ([one.task_id for one in found.tasks], found.shared) == (["fork"], ("root",))
    assert found.freed < 1_000
    assert await store.artifact("young", "a") == b"x" * 100_000

    found = await prune(store, status=["succeeded"], dry_run=False)
    assert [one.task_id for one in found.tasks] == ["same", "young", "root"]
    assert found.freed > 100_000
    assert await ids(store) == []


async def test_a_task_stays_until_every_consumer_has_got_it(store: Any) -> None:
    await task(store, "t", 40)
    outbox = store.outbox()
    await outbox.register("audit")
    assert (await prune(store, before=NOW, dry_run=False)).undelivered == ("t",)

    reading = await outbox.take("audit")
    while (batch := await outbox.next(reading)).records:
        await outbox.delivered(reading, batch)
    assert [one.task_id for one in (await prune(store, before=NOW, dry_run=False)).tasks] == ["t"]


async def test_of_all_processes_one_tidies_in_a_while(opener: Callable[[], Any]) -> None:
    stores = [opener() for _ in range(3)]
    await task(stores[0], "old", 40)
    await task(stores[0], "new", 20)
    await task(stores[0], "newest", 2)

    done = await asyncio.gather(*(tidy(store, 30, NOW) for store in stores))
    assert sorted(done) == [False, False, True]
    assert await ids(stores[0]) == ["newest", "new"]
    assert not await tidy(stores[1], 10, NOW)
    assert await tidy(stores[2], 10, NOW, every_secs=0)
    assert await ids(stores[0]) == ["newest"]
    for store in stores:
        await store.aclose()


@pytest.mark.parametrize("ahead", [365, 31, 3_650])
async def test_a_clock_that_is_far_ahead_removes_nothing(
    store: Any, ahead: float, caplog: pytest.LogCaptureFixture
) -> None:
    await task(store, "yesterday", 1)
    await task(store, "now", 0)
    for hours in (0, 1):  # also once it has written with that clock
        await task(store, f"ahead{hours}", -ahead - hours / 24)
        with caplog.at_level(logging.WARNING, "replan.store"):
            await tidy(store, 30, NOW + ahead * DAY + hours * 3_600.0 + 1.0, every_secs=0)
    assert await ids(store) == ["ahead1", "ahead0", "now", "yesterday"]
    said = "the clock may be wrong" in caplog.text
    assert said == isinstance(store, SqliteStore)  # a server has a clock of its own, and needs no other


async def test_after_a_long_pause_what_is_old_goes_a_day_later(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    await task(store, "old", 100)
    await task(store, "new", 0)
    assert await tidy(store, 30, NOW + 60.0, every_secs=0)
    assert await ids(store) == ["new", "old"]
    assert await tidy(store, 30, NOW + DAY, every_secs=0)
    assert await ids(store) == ["new"]
    await store.aclose()


@tool(effect="reads")
def look() -> int:
    return 1


async def test_a_process_that_is_open_for_a_moment_removes_what_is_old_as_it_closes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    for days in (40, 20):
        await task(store, f"t{days}", days)
    await store.aclose()
    days = Settings().store.model_copy(update={"retention_days": 30.0})
    async with Replan(
        tools=[look], db=store.path, settings=Settings(store=days), evaluation="steps"
    ) as replan:
        await replan.run(
            "go", plan={"steps": [{"step_id": "a", "tool": "look", "parameters": {}}]}, task_id="t"
        )
    async with Replan(tools=[look], db=store.path, evaluation="steps") as replan:
        assert [row.task_id for row in await replan.tasks()] == ["t", "t20"]


async def test_tidying_that_is_cut_off_is_taken_up_by_the_next(opener: Callable[[], Any]) -> None:
    class Full(Exception):
        pass

    store, other = opener(), opener()
    await task(store, "old", 40)
    await task(store, "new", 2)

    async def breaks() -> int:
        raise Full

    breaking = _With(store, sweep=breaks)
    with pytest.raises(Full):
        await tidy(breaking, 30, NOW)  # type: ignore[arg-type]
    assert await tidy(other, 30, NOW)
    assert await ids(other) == ["new"]
    await store.aclose()
    await other.aclose()


class _With:
    """A store in which something is otherwise."""

    def __init__(self, store: Any, **otherwise: Any) -> None:
        self.__dict__.update(otherwise, _store=store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_the_file_gets_smaller(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    await task(store, "old", 40, output=bytes(range(256)) * 40_000)
    await task(store, "new", 1)
    await prune(store, before=NOW - 30 * DAY, dry_run=False)
    await store.give_back()
    await store.aclose()
    assert path.stat().st_size < 1_000_000


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    made=st.lists(
        st.tuples(st.sampled_from([1.0, 40.0]), st.booleans(), st.integers(0, 3), st.integers(0, 2)),
        max_size=8,
    )
)
async def test_what_stays_can_be_read_whole_whatever_was_removed(
    made: list[tuple[float, bool, int, int]], tmp_path: Path
) -> None:
    import secrets

    store = SqliteStore(tmp_path / f"{secrets.token_hex(4)}.db")
    names: list[str] = []
    for n, (days, ends, parent, letter) in enumerate(made):
        fork_of = names[-parent] if 0 < parent <= len(names) else ""
        await task(
            store, f"t{n}", days, ends=ends, output=b"abc"[letter : letter + 1] * 5_000, fork_of=fork_of
        )
        names.append(f"t{n}")

    told = await prune(store, before=NOW - 30 * DAY)
    found = await prune(store, before=NOW - 30 * DAY, dry_run=False)
    assert found == told
    left = await ids(store)
    assert set(left) == set(names) - {one.task_id for one in found.tasks}
    for n, (days, ends, _, letter) in enumerate(made):
        if f"t{n}" in left:
            assert [one.seq for one in await store.read(f"t{n}")] == list(
                range(1, len(await store.read(f"t{n}")) + 1)
            )
            assert await store.artifact(f"t{n}", "a") == b"abc"[letter : letter + 1] * 5_000
            assert not ends or days == 1.0 or f"t{n}" in found.shared
    assert await store.sweep() == 0
    await store.aclose()


STANDS: dict[str, list[AnyEvent]] = {
    "queued": [],
    "in the midst": [TaskStarted(driver="gone"), StepReady(step_id="s")],
    "for a person": [TaskStarted(driver="d"), TaskWaiting(reason="a yes", approvals=("a1",))],
    "for a time": [TaskStarted(driver="d"), TaskWaiting(reason="time", until=NOW - 35 * DAY)],
    "for a callback": [TaskStarted(driver="d"), TaskWaiting(reason="a word", callbacks=("cb_x",))],
    "paused": [TaskStarted(driver="d"), TaskWaiting(reason="a pause", paused=True)],
    "for a key": [TaskStarted(driver="d"), TaskWaiting(reason="key", until_resumed=True, because="key")],
    "left": [TaskStarted(driver="d"), TaskLeft(driver="d")],
}
"""What a task that has not ended stands at, by its events."""


@pytest.mark.parametrize("held", [False, True])
async def test_nothing_that_has_not_ended_goes_by_its_age_nor_what_it_rests_on(
    opener: Callable[[], Any], held: bool
) -> None:
    store, ts = opener(), NOW - 40 * DAY
    for n, (name, events) in enumerate(STANDS.items()):
        await task(store, f"of {name}", 50, output=b"shared")  # has ended, and a fork rests on it
        await store.create(name, TaskSubmitted(description=name), ts)
        fork = TaskForked(origin=f"of {name}", at=2, root=f"of {name}")
        await store.fork(f"fork {name}", fork, ForkMade(fork=f"fork {name}", at=2), ts)
        for task_id in (name, f"fork {name}"):
            claim = await store.claim(task_id)
            if events:
                kept = [NewArtifact("b", bytes([n]) * 5_000)]
                await store.append(claim, events, ts=ts, round=1, artifacts=kept)
            if not held:
                await store.release(claim)
    await task(store, "old", 40, output=b"shared")
    await task(store, "of old", 60)
    await task(store, "fork old", 45, fork_of="of old")
    await task(store, "new", 2)
    assert await tidy(store, 30, NOW, every_secs=0)
    left = await ids(store)
    assert sorted(left) == sorted(
        [*STANDS, *(f"fork {name}" for name in STANDS), *(f"of {name}" for name in STANDS), "new"]
    )
    for n, (name, events) in enumerate(STANDS.items()):
        assert await store.artifact(f"fork {name}", "a") == b"shared"
        if events:
            assert await store.artifact(name, "b") == bytes([n]) * 5_000
    await store.aclose()
