"""Removing tasks in odd moments: while they are exported, driven, waited for, given away, delivered, shared. Nothing is damaged, and no effect comes again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from replan.core.events import (
    CallbackReceived,
    ForkMade,
    QuestionAsked,
    StepReady,
    TaskCompleted,
    TaskForked,
    TaskSubmitted,
    TaskWaiting,
)
from replan.errors import InputError, TaskGivenAway, TaskHeld, TaskNotFound, TaskShared, TaskUnfinished
from replan.ports import NewArtifact
from replan.run.service.pruning import prune
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore
from replan.store.transfer.incoming import taken_in
from replan.store.transfer.outgoing import exported, finished

pytestmark = pytest.mark.anyio

NOW = time.time()
LARGE = b"x" * 1_500_000 + b"y" * 1_500_000


@pytest.fixture(params=["sqlite", "postgres"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """Makes stores, each its own database."""
    async with AsyncExitStack() as closing:
        count = iter(range(9))

        def make() -> Any:
            made: Any
            if request.param == "sqlite":
                made = SqliteStore(tmp_path / f"{next(count)}.db")
            else:
                made = PostgresStore(request.getfixturevalue("new_postgres_schema")())
            closing.push_async_callback(made.aclose)
            return made

        yield make


async def task(
    store: Any,
    task_id: str,
    *events: Any,
    ends: bool = True,
    output: bytes = b"",
    fork_of: str = "",
    days: float = 40,
) -> None:
    ts = NOW - days * 86_400
    if fork_of:
        forked = TaskForked(origin=fork_of, at=1, root=fork_of)
        await store.fork(task_id, forked, ForkMade(fork=task_id, at=1), ts)
    else:
        await store.create(task_id, TaskSubmitted(description=task_id), ts)
    claim = await store.claim(task_id)
    artifacts = [NewArtifact("a", output)] if output else []
    await store.append(claim, [StepReady(step_id="s"), *events], ts=ts, round=1, artifacts=artifacts)
    if ends:
        await store.append(claim, [TaskCompleted(final_output=1)], ts=ts, round=1)
    await store.release(claim)


async def pruned(store: Any, **how: Any) -> list[str]:
    return [one.task_id for one in (await prune(store, before=NOW, dry_run=False, **how)).tasks]


async def ids(store: Any) -> list[str]:
    return sorted(row.task_id for row in await store.list_tasks())


async def whole(store: Any, *task_ids: str, move: bool = False) -> bytes:
    async with exported(store, task_ids, move=move) as pieces:
        return b"".join([piece async for piece in pieces])


async def of(data: bytes) -> AsyncIterator[bytes]:
    yield data


# ── while a task is exported ──


@pytest.mark.parametrize("at", [0, 1, 4, 6])
async def test_what_goes_while_it_is_exported_is_told_as_that_and_the_file_is_not_whole(
    stores: Any, at: int
) -> None:
    store = stores()
    await task(store, "t", output=LARGE)
    got: list[bytes] = []

    async def export() -> None:
        async with exported(store, ["t"]) as pieces:
            if at == 0:
                await pruned(store)
            async for piece in pieces:
                got.append(piece)
                if len(got) == at:
                    assert await pruned(store) == ["t"]

    with pytest.raises(InputError, match="t: removed while exported"):
        await export()
    with pytest.raises(InputError):
        await taken_in(stores(), of(b"".join(got)))


async def test_another_task_of_the_same_name_is_not_taken_for_the_one_that_is_exported(stores: Any) -> None:
    store = stores()
    await task(store, "t")

    async def export() -> None:
        async with exported(store, ["t"]) as pieces:
            async for _ in pieces:
                if (await store.summary("t")).created < NOW - 86_400:
                    await store.delete("t")
                    await task(store, "t", days=0.5)

    with pytest.raises(InputError, match="removed while exported"):
        await export()


async def test_an_artifact_that_is_read_while_its_task_goes_is_not_damaged(stores: Any) -> None:
    store = stores()
    await task(store, "t", output=LARGE)

    async def read() -> None:
        async for _ in store.pieces("t", "a"):
            if "t" in await ids(store):
                await store.delete("t")

    with pytest.raises(TaskNotFound):
        await read()


async def test_what_another_task_uses_too_is_exported_whole_while_the_first_goes(stores: Any) -> None:
    store, other = stores(), stores()
    await task(store, "t", output=LARGE)
    await task(store, "same", output=LARGE)
    got: list[bytes] = []
    async with exported(store, ["same"]) as pieces:
        async for piece in pieces:
            got.append(piece)
            if "t" in await ids(store):
                await store.delete("t")
    assert [one.task_id for one in await taken_in(other, of(b"".join(got)))] == ["same"]
    assert await other.artifact("same", "a") == LARGE


async def test_what_is_being_given_away_is_held(stores: Any) -> None:
    store, other = stores(), stores()
    await task(store, "t", ends=False, output=LARGE)
    got: list[bytes] = []
    async with exported(store, ["t"], move=True) as pieces:
        async for piece in pieces:
            got.append(piece)
            if len(got) == 1:
                found = await prune(store, before=NOW, unfinished=True, dry_run=False)
                assert (found.tasks, found.held) == ((), ("t",))
                with pytest.raises(TaskHeld):
                    await store.delete("t", unfinished=True)
    assert await ids(store) == []
    await taken_in(other, of(b"".join(got)))
    assert await ids(other) == ["t"]


# ── what was given away, or came in ──


async def test_what_was_given_away_and_then_removed_does_not_come_back_with_its_file(stores: Any) -> None:
    store, other = stores(), stores()
    await task(store, "t", ends=False)
    file = await whole(store, "t", move=True)
    await taken_in(other, of(file))
    claim = await other.claim("t")
    await other.append(claim, [StepReady(step_id="z"), TaskCompleted(final_output=1)], ts=NOW - 9, round=1)
    await other.release(claim)
    assert await pruned(other) == ["t"]
    for each in (store, other):
        with pytest.raises(InputError, match="was here before"):
            await taken_in(each, of(file))


async def test_what_is_marked_as_given_away_stays_so_when_it_is_removed_here(stores: Any) -> None:
    store = stores()
    await task(store, "t", ends=False)
    files: list[bytes] = []

    async def export() -> None:
        async with exported(store, ["t"], move=True) as pieces:
            files.append(b"".join([piece async for piece in pieces]))
            raise RuntimeError("whoever takes it has died")

    with pytest.raises(RuntimeError):
        await export()
    assert (await store.summary("t")).given_away == "", "it goes on here"
    await pruned(store, unfinished=True)
    with pytest.raises(InputError, match="was here before"):
        await taken_in(store, of(files[0]))


async def test_whoever_finishes_a_move_of_what_was_removed_meanwhile_is_done(stores: Any) -> None:
    store = stores()
    await task(store, "t", ends=False)
    stack = AsyncExitStack()
    pieces = await stack.enter_async_context(exported(store, ["t"], move=True))
    file = b"".join([piece async for piece in pieces])
    with pytest.raises(TaskGivenAway):
        await store.claim("t")
    await store.delete("t", unfinished=True)
    assert await finished(store, [], of(file)) == ["t"]
    await stack.aclose()
    with pytest.raises(InputError, match="was here before"):
        await taken_in(store, of(file))


async def test_a_family_that_was_given_away_and_removed_stays_away(stores: Any) -> None:
    store, other = stores(), stores()
    await task(store, "p", ends=False)
    await task(store, "f", ends=False, fork_of="p")
    file = await whole(store, "p", "f", move=True)
    await taken_in(other, of(file))
    assert await pruned(other, unfinished=True) == ["f", "p"]
    with pytest.raises(InputError, match="was here before"):
        await taken_in(other, of(file))
    assert await ids(other) == []


async def test_what_has_ended_may_come_back_as_often_as_one_likes(stores: Any) -> None:
    store = stores()
    await task(store, "t", output=LARGE)
    file = await whole(store, "t")
    for _ in range(2):
        assert await pruned(store) == ["t"]
        await taken_in(store, of(file))
        assert await store.artifact("t", "a") == LARGE


# ── running, waiting, delivered, shared ──


async def test_what_somebody_drives_stays(stores: Any) -> None:
    store = stores()
    await task(store, "t", ends=False)
    claim = await store.claim("t")
    assert (await prune(store, before=NOW, unfinished=True, dry_run=False)).held == ("t",)
    await store.release(claim)
    assert await pruned(store, unfinished=True) == ["t"]


async def test_what_waits_for_a_person_or_a_callback_stays_unless_that_is_asked_for(stores: Any) -> None:
    store = stores()
    asked = QuestionAsked(question_id="q", kind="intervention", text="?")
    await task(store, "q", asked, TaskWaiting(reason="?", questions=("q",)), ends=False)
    await task(store, "c", TaskWaiting(reason="?", callbacks=("cb",)), ends=False)
    await store.signal("c", CallbackReceived(token="cb"), NOW - 40 * 86_400)
    assert await pruned(store) == []
    for name in ("q", "c"):
        with pytest.raises(TaskUnfinished):
            await store.delete(name)
    assert sorted(await pruned(store, unfinished=True)) == ["c", "q"]


async def test_a_fork_that_still_runs_keeps_what_it_rests_on(stores: Any) -> None:
    store = stores()
    await task(store, "p", output=LARGE)
    await task(store, "f", ends=False, fork_of="p")
    claim = await store.claim("f")
    found = await prune(store, before=NOW, unfinished=True, dry_run=False)
    assert (found.tasks, found.shared, found.held) == ((), ("p",), ("f",))
    with pytest.raises(TaskShared):
        await store.delete("p")
    await store.release(claim)
    assert await pruned(store, unfinished=True) == ["f", "p"]


async def test_an_output_that_forks_share_stays_as_long_as_one_of_them(stores: Any) -> None:
    store = stores()
    await task(store, "p", output=LARGE)
    for name in ("f", "g"):
        await task(store, name, fork_of="p", output=LARGE)
    await store.delete("f")
    assert await store.artifact("g", "a") == LARGE
    assert await store.artifact("p", "a") == LARGE
    assert await pruned(store) == ["g", "p"]


async def test_a_delivery_that_is_under_way_goes_on_over_a_task_that_is_removed(stores: Any) -> None:
    store = stores()
    outbox = store.outbox()
    await outbox.register("audit")
    await task(store, "t")
    await task(store, "u")
    reading = await outbox.take("audit")
    batch = await outbox.next(reading)
    assert (await prune(store, before=NOW, dry_run=False)).undelivered == ("u", "t")
    await store.delete("t")  # by name it goes all the same
    await outbox.delivered(reading, batch)
    while (more := await outbox.next(reading)).records:
        await outbox.delivered(reading, more)
    assert await pruned(store) == ["u"]


async def test_a_follower_of_a_task_that_is_removed_is_told(stores: Any) -> None:
    store = stores()
    await task(store, "t", ends=False)
    following = store.follow("t", 0)
    await anext(following)
    await store.delete("t", unfinished=True)
    with pytest.raises(TaskNotFound):
        _ = [record async for record in following]
    with pytest.raises(TaskNotFound):
        await store.read("t")
    with pytest.raises(TaskNotFound):
        await store.signal("t", CallbackReceived(token="cb"), NOW)


async def test_a_driver_whose_task_was_taken_from_it_and_removed_writes_nothing(stores: Any) -> None:
    store = stores()
    await task(store, "t", ends=False)
    claim = await store.claim("t")
    await store.release(claim)
    await pruned(store, unfinished=True)
    with pytest.raises(InputError):
        await store.append(claim, [StepReady(step_id="s")], ts=NOW, round=1)
    await task(store, "t", ends=False)
    with pytest.raises(Exception, match="'t'"):
        await store.append(claim, [StepReady(step_id="s")], ts=NOW, round=1)
    assert len(await store.read("t")) == 2
