"""A state that is kept and brought up to date is the one that the whole log comes to, after every event and whatever happens to the log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from old_tasks import TASKS
from test_saved_databases import SAVED, saved

from replan.core.events import (
    AnyEvent,
    ForkMade,
    HintGiven,
    Record,
    StepReady,
    TaskForked,
    TaskSubmitted,
)
from replan.core.state.fold import fold
from replan.errors import TaskNotFound
from replan.ports import Store
from replan.run.access.states import States
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore
from replan.testing.store import MemoryStore

pytestmark = pytest.mark.anyio


class Counted:
    """A store that says how many events were read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.events = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, *args: Any, **more: Any) -> list[Record]:
        records = await self._store.read(*args, **more)
        self.events += len(records)
        return records


def counted(store: Store) -> Any:
    return Counted(store)


@pytest.fixture(params=["sqlite", "postgres", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: dict[str, Callable[[], Store]] = {
        "sqlite": lambda: SqliteStore(tmp_path / "log.db"),
        "postgres": lambda: PostgresStore(request.getfixturevalue("postgres_schema")),
        "memory": MemoryStore,
    }
    opened = made[request.param]()
    yield opened
    await opened.aclose()


async def replayed(store: Store, task_id: str, records: Sequence[Record]) -> None:
    """What comes next in the log, as it came."""
    for record in records:
        if isinstance(record.event, TaskSubmitted):
            await store.create(task_id, record.event, record.ts)
        elif record.event.signal:
            await store.signal(task_id, record.event, record.ts)
        else:
            claim = await store.claim(task_id, steal=True)
            await store.append(claim, [record.event], ts=record.ts, round=record.round)


async def whole(store: Store, task_id: str) -> Any:
    return fold(await store.read(task_id))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], list[Record]]:
    async def read() -> dict[tuple[int, str], list[Record]]:
        found = {}
        for release in {release for release, _ in SAVED}:
            folder = tmp_path_factory.mktemp(f"release{release}")
            async with contextlib.aclosing(SqliteStore(saved(release, folder))) as old:
                for name in TASKS:
                    if (release, name) in SAVED:
                        found[release, name] = await old.read(name)
        return found

    return asyncio.run(read())


@pytest.mark.parametrize(("release", "name"), SAVED)
async def test_after_every_event_of_a_saved_log_the_state_is_that_of_the_log(
    release: int, name: str, logs: dict[tuple[int, str], list[Record]]
) -> None:
    records, store = logs[release, name], MemoryStore()
    states, seldom = States(store), States(store)
    for n, record in enumerate(records):
        await replayed(store, name, [record])
        wanted = await whole(store, name)
        assert await states.state(name) == wanted
        assert sum(not step.closed for step in wanted.steps.values()) == wanted.open_steps
        if n % 3 == 0:
            assert await seldom.state(name, await store.summary(name)) == wanted
        if n % 5 == 1 and n < len(records) - 1:
            fork = f"fork{n}"
            await store.fork(
                fork, TaskForked(origin=name, at=n, root=name), ForkMade(fork=fork, at=n), record.ts
            )
            assert await states.state(fork) == await whole(store, fork)
            assert await states.state(name) == await whole(store, name)
    states.close()
    seldom.close()


NEWS = st.lists(
    st.tuples(st.sampled_from(["look", "append", "hint", "fork", "redact", "delete"]), st.integers(0, 3)),
    max_size=30,
)


class WithoutWord:
    """A redaction of one word."""

    def artifact(self, artifact_id: str, data: bytes) -> bytes:
        return data

    def event(self, event: AnyEvent) -> AnyEvent:
        if isinstance(event, TaskSubmitted | HintGiven) and "word" in str(event):
            return type(event).model_validate_json(event.model_dump_json().replace("word", "***"))
        return event


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@given(news=NEWS, room=st.sampled_from([0, 5_000, 10**9]))
@settings(deadline=None)
def test_whatever_happens_to_some_tasks_each_state_is_that_of_its_log(
    kind: str, news: list[tuple[str, int]], room: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def happens() -> None:
        folder = tmp_path_factory.mktemp("states")
        store: Any = SqliteStore(folder / "log.db") if kind == "sqlite" else MemoryStore()
        states, ts, there = States(store, most_size=room), 1.0, set[str]()
        for what, n in news:
            task_id, ts = f"t{n}", ts + 1
            if task_id not in there:
                await store.create(task_id, TaskSubmitted(description="say the word"), ts)
                there.add(task_id)
            match what:
                case "append":
                    claim = await store.claim(task_id, steal=True)
                    await store.append(
                        claim, [StepReady(step_id="a"), StepReady(step_id="b")], ts=ts, round=1
                    )
                case "hint":
                    await store.signal(task_id, HintGiven(request_id=f"h{ts}", hint="the word"), ts)
                case "fork" if f"t{n + 1}" not in there:
                    fork = f"t{n + 1}"
                    event = TaskForked(origin=task_id, at=(await store.summary(task_id)).last_seq, root="t")
                    await store.fork(fork, event, ForkMade(fork=fork, at=event.at), ts)
                    there.add(fork)
                case "redact":
                    claim = await store.claim(task_id, steal=True)
                    await store.redact(claim, WithoutWord())
                case "delete" if not await store.forks(task_id):
                    await store.release(await store.claim(task_id, steal=True))
                    await store.delete(task_id, unfinished=True)
                    there.discard(task_id)
                    with pytest.raises(TaskNotFound):
                        await states.state(task_id)
            for each in sorted(there):
                assert await states.state(each) == await whole(store, each), (what, each)
        await store.aclose()
        states.close()

    asyncio.run(happens())


async def test_what_is_redacted_is_in_no_state_also_of_forks_that_share_it(store: Store) -> None:
    await store.create("t", TaskSubmitted(description="say the word"), 1.0)
    told = ForkMade(fork="f", at=1)
    await store.fork("f", TaskForked(origin="t", at=1, root="t"), told, 2.0)
    states = States(store)
    for task_id in ("t", "f"):
        assert "word" in str((await states.state(task_id)).submitted)

    await store.redact(await store.claim("t"), WithoutWord())

    for task_id in ("t", "f"):
        assert "word" not in str((await states.state(task_id)).submitted)
        assert await states.state(task_id) == await whole(store, task_id)
    states.close()


async def test_a_look_reads_what_is_new_and_nothing_else(store: Store) -> None:
    await store.create("t", TaskSubmitted(description="x"), 1.0)
    claim = await store.claim("t")
    for _ in range(20):
        await store.append(claim, [StepReady(step_id="a")] * 50, ts=2.0, round=1)
    log = counted(store)
    states = States(log)
    await states.state("t")
    assert log.events == 1_001

    await asyncio.gather(*(states.state("t") for _ in range(50)))
    assert log.events == 1_001
    await store.append(claim, [StepReady(step_id="b")], ts=3.0, round=1)
    found = await asyncio.gather(*(states.state("t") for _ in range(50)))
    assert log.events == 1_002
    assert {id(one) for one in found} == {id(found[0])}
    assert found[0].last_seq == 1_002
    states.close()


async def test_many_who_look_while_much_is_written_each_see_a_state_that_was(store: Store) -> None:
    """Also where more has come at once than is folded in the event loop."""
    await store.create("t", TaskSubmitted(description="x"), 1.0)
    claim = await store.claim("t")
    states, seen = States(store), list[int]()

    async def look() -> None:
        for _ in range(15):
            state = await states.state("t")
            seen.append(state.last_seq)

    async def write() -> None:
        for n in range(6):
            await store.append(claim, [StepReady(step_id=f"s{n}")] * (n % 2 * 700 + 1), ts=float(n), round=1)

    await asyncio.gather(write(), *(look() for _ in range(8)))
    assert await states.state("t") == await whole(store, "t")
    states.close()


async def test_no_more_is_kept_than_there_is_room_for() -> None:
    store = MemoryStore()
    states = States(store, most_size=10_000)
    for n in range(20):
        await store.create(f"t{n}", TaskSubmitted(description="x" * 100 * n), 1.0)
        await states.state(f"t{n}")
    assert 0 < len(states) < 10

    await store.create("large", TaskSubmitted(description="x" * 100_000), 1.0)
    log = counted(store)
    one = States(log, most_size=10_000)
    for _ in range(3):
        await one.state("large")
    assert (len(one), log.events) == (1, 1), "the one that was looked at last stays, however large"
    states.close()
    one.close()


async def test_what_nobody_looks_at_is_forgotten() -> None:
    store = MemoryStore()
    await store.create("t", TaskSubmitted(description="x"), 1.0)
    states = States(store, idle_secs=0.0)
    await states.state("t")
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.0, later.set_result, None)
    await later
    assert len(states) == 0
    assert await states.state("t") == await whole(store, "t")
    states.close()
    assert len(states) == 0


async def test_a_task_that_is_not_there_is_not_found(store: Store) -> None:
    states = States(store)
    with pytest.raises(TaskNotFound):
        await states.state("nowhere")
    assert len(states) == 0
