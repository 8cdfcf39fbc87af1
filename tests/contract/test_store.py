"""What every store promises, whatever it is made of."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from replan.core.events import (
    AnyEvent,
    CancelRequested,
    LlmToken,
    Record,
    RoundCompleted,
    RoundStarted,
    StepReady,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskStarted,
    TaskSubmitted,
    TaskTimedOut,
    UnknownEvent,
)
from replan.core.tools.stats import ToolKey, ToolStats
from replan.core.types import Failure, Fault
from replan.errors import (
    InputError,
    NotHeard,
    StaleWriter,
    StoreError,
    TaskEnded,
    TaskExists,
    TaskHeld,
    TaskNotFound,
)
from replan.ports import Appended, Claim, Content, NewArtifact, Store, TaskSummary
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore
from replan.testing.store import MemoryStore

pytestmark = pytest.mark.anyio

FAILURE = Failure(kind="step", reason="it broke")
SECS = 20.0
"""Longer than anything here takes; what takes longer hangs."""


def submitted(text: str = "do it") -> TaskSubmitted:
    return TaskSubmitted(description=text)


def steps(first: int, count: int) -> list[AnyEvent]:
    return [StepReady(step_id=f"s{n}") for n in range(first, first + count)]


def names(records: list[Record]) -> list[str]:
    return [record.event.step_id for record in records if isinstance(record.event, StepReady)]


async def claimed(store: Store, task_id: str = "t") -> Claim:
    await store.create(task_id, submitted(), 1.0)
    return await store.claim(task_id)


async def add(store: Store, claim: Claim, *events: AnyEvent, round: int = 1) -> tuple[int, int]:
    return tuple(await store.append(claim, events, ts=2.0, round=round))


UNWRITABLE = UnknownEvent(type="odd", data={"text": "\ud800"})
"""Half a surrogate pair has no stored form."""


def attempted(store: Store, claim: Claim, events: list[AnyEvent]) -> asyncio.Future[object]:
    """An append whose refusal comes with its future, also where it is told at once."""
    try:
        return store.append(claim, events, ts=2.0, round=1, artifacts=[NewArtifact("lost", b"x")])  # type: ignore[return-value]
    except ValueError as error:
        refused: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        refused.set_exception(error)
        return refused


# ── create ──


async def test_a_created_task_is_stored_with_its_first_event(store: Store) -> None:
    event = TaskSubmitted(description="日本 🦀", metadata={"a": [1, None, "x"]}, tools=("tools.py",))

    assert await store.create("t", event, 7.5) is True

    assert await store.read("t") == [Record(1, "t", 7.5, 0, event)]


async def test_creating_the_same_task_again_is_no_new_task(store: Store) -> None:
    await store.create("t", submitted(), 1.0)

    assert await store.create("t", submitted(), 9.0) is False

    assert [record.ts for record in await store.read("t")] == [1.0]


async def test_how_a_task_is_served_is_no_part_of_what_was_asked(store: Store) -> None:
    await store.create("t", submitted(), 1.0)

    again = TaskSubmitted(description="do it", tools=("other.py",), settings={"models": {"planning": "x"}})
    assert await store.create("t", again, 1.0) is False


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(TaskSubmitted(description="do that"), id="another text"),
        pytest.param(TaskSubmitted(description="do it", metadata={"a": 1}), id="other metadata"),
        pytest.param(TaskSubmitted(description="do it", plan={"steps": []}), id="another plan"),
    ],
)
async def test_an_id_cannot_be_taken_by_another_request(store: Store, other: TaskSubmitted) -> None:
    await store.create("t", submitted(), 1.0)

    with pytest.raises(TaskExists, match="'t'"):
        await store.create("t", other, 1.0)

    assert len(await store.read("t")) == 1


async def test_of_many_who_create_the_same_task_at_once_one_makes_it(store: Store) -> None:
    made = await asyncio.gather(*(store.create("t", submitted(), 1.0) for _ in range(20)))

    assert sorted(made) == [False] * 19 + [True]
    assert len(await store.read("t")) == 1


# ── claims and fences ──


async def test_a_held_task_cannot_be_claimed(store: Store) -> None:
    await claimed(store)

    with pytest.raises(TaskHeld, match="'t'"):
        await store.claim("t")


async def test_of_many_who_claim_at_once_one_wins(store: Store) -> None:
    await store.create("t", submitted(), 1.0)

    outcomes = await asyncio.gather(*(store.claim("t") for _ in range(10)), return_exceptions=True)

    assert sum(isinstance(outcome, Claim) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, TaskHeld) for outcome in outcomes) == 9


async def test_a_released_task_can_be_claimed_with_a_higher_fence(store: Store) -> None:
    first = await claimed(store)
    await store.release(first)

    second = await store.claim("t")

    assert second.fence > first.fence
    assert await add(store, second, TaskStarted()) == (2, 2)


async def test_what_was_given_back_writes_no_more(store: Store) -> None:
    claim = await claimed(store)
    await store.release(claim)

    with pytest.raises(StaleWriter):
        await add(store, claim, TaskStarted())
    assert len(await store.read("t")) == 1


async def test_a_claim_of_a_deleted_task_holds_for_no_other_that_is_given_its_id(store: Store) -> None:
    old = await claimed(store)
    thief = await store.claim("t", steal=True)
    await store.release(thief)
    await store.delete("t", unfinished=True)
    fences = {(await claimed(store)).fence}
    for _ in range(3):
        fences.add((await store.claim("t", steal=True)).fence)

    with pytest.raises(StaleWriter):
        await add(store, old, TaskStarted())

    assert not fences & {old.fence, thief.fence}
    assert len(await store.read("t")) == 1


async def test_an_older_claim_is_fenced_out_and_writes_nothing(store: Store) -> None:
    old = await claimed(store)
    new = await store.claim("t", steal=True)

    with pytest.raises(StaleWriter, match="'t'"):
        await store.append(old, steps(0, 3), ts=2.0, round=1, artifacts=[NewArtifact("a", b"x")])

    assert len(await store.read("t")) == 1
    with pytest.raises(InputError):
        await store.artifact("t", "a")
    assert await add(store, new, StepReady(step_id="mine")) == (2, 2)


async def test_a_claim_is_confirmed_as_long_as_it_holds(store: Store) -> None:
    old = await claimed(store)
    await store.confirm(old)
    new = await store.claim("t", steal=True)
    await store.confirm(new)
    with pytest.raises(StaleWriter, match="'t'"):
        await store.confirm(old)
    await store.release(new)
    with pytest.raises(StaleWriter):
        await store.confirm(new)
    await store.delete("t", unfinished=True)
    with pytest.raises(TaskNotFound):
        await store.confirm(new)


async def test_appends_that_were_queued_before_a_steal_are_written_and_later_ones_are_not(
    store: Store,
) -> None:
    old = await claimed(store)
    before = [store.append(old, steps(n, 1), ts=2.0, round=1) for n in range(5)]
    stealing = asyncio.ensure_future(store.claim("t", steal=True))
    await asyncio.sleep(0)  # the claim is queued behind them
    after = [store.append(old, steps(n, 1), ts=2.0, round=1) for n in range(5, 10)]

    await stealing
    outcomes = await asyncio.gather(*before, *after, return_exceptions=True)

    assert [type(outcome).__name__ for outcome in outcomes] == ["Appended"] * 5 + ["StaleWriter"] * 5
    assert names(await store.read("t")) == ["s0", "s1", "s2", "s3", "s4"]


async def test_a_stale_release_does_not_free_the_task(store: Store) -> None:
    old = await claimed(store)
    new = await store.claim("t", steal=True)

    await store.release(old)

    with pytest.raises(TaskHeld):
        await store.claim("t")
    assert await add(store, new, TaskStarted()) == (2, 2)


async def test_a_claim_that_nobody_waits_for_any_more_is_given_back(store: Store) -> None:
    await store.create("t", submitted(), 1.0)
    claiming = asyncio.ensure_future(store.claim("t"))
    await asyncio.sleep(0)
    claiming.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await store.release(await claiming)

    async with asyncio.timeout(SECS):
        while True:
            with contextlib.suppress(TaskHeld):  # until the writer has come to it
                assert await store.claim("t")
                break


async def test_claims_of_different_tasks_do_not_meet(store: Store) -> None:
    first = await claimed(store, "a")
    second = await claimed(store, "b")

    assert await add(store, first, TaskStarted()) == (2, 2)
    assert await add(store, second, TaskStarted()) == (2, 2)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda store: store.claim("no"), id="claim"),
        pytest.param(lambda store: store.read("no"), id="read"),
        pytest.param(lambda store: store.summary("no"), id="summary"),
        pytest.param(lambda store: store.artifact("no", "a"), id="artifact"),
        pytest.param(lambda store: store.signal("no", CancelRequested(), 1.0), id="signal"),
        pytest.param(lambda store: anext(store.follow("no")), id="follow"),
        pytest.param(lambda store: store.list_tasks(before="no"), id="the list before it"),
        pytest.param(
            lambda store: store.append(Claim("no", 1), [TaskStarted()], ts=1.0, round=0), id="append"
        ),
    ],
)
async def test_a_task_that_does_not_exist_is_not_found(store: Store, use: Callable[[Store], object]) -> None:
    with pytest.raises(TaskNotFound, match="'no'"):
        await use(store)  # type: ignore[misc]


# ── append ──


async def test_appends_keep_their_order_without_waiting_for_each_other(store: Store) -> None:
    claim = await claimed(store)

    placed = await asyncio.gather(
        *(store.append(claim, steps(n * 3, 3), ts=2.0, round=1) for n in range(300))
    )

    records = await store.read("t")
    assert names(records) == [f"s{n}" for n in range(900)]
    assert [record.seq for record in records] == list(range(1, 902))
    assert [tuple(place) for place in placed] == [(2 + n * 3, 4 + n * 3) for n in range(300)]


async def test_many_tasks_write_at_once_each_without_gaps(store: Store) -> None:
    async def write(task_id: str) -> None:
        claim = await claimed(store, task_id)
        for n in range(20):
            await store.append(claim, steps(n * 2, 2), ts=float(n), round=n)

    tasks = [f"t{n}" for n in range(40)]
    await asyncio.gather(*(write(task_id) for task_id in tasks))

    for task_id in tasks:
        records = await store.read(task_id)
        assert [record.seq for record in records] == list(range(1, 42))
        assert names(records) == [f"s{n}" for n in range(40)]
        assert [record.round for record in records[1:]] == [n // 2 for n in range(40)]


async def test_one_event_that_cannot_be_stored_keeps_all_of_its_append_out(store: Store) -> None:
    claim = await claimed(store)
    good = store.append(claim, steps(0, 2), ts=2.0, round=1)

    with pytest.raises(Exception, match="surrogate"):
        await attempted(store, claim, [*steps(2, 2), UNWRITABLE])

    await good
    assert names(await store.read("t")) == ["s0", "s1"]
    with pytest.raises(InputError):
        await store.artifact("t", "lost")


async def test_what_one_task_cannot_write_does_not_harm_another(store: Store) -> None:
    one, other = await claimed(store, "one"), await claimed(store, "other")

    outcomes = await asyncio.gather(
        store.append(other, steps(0, 1), ts=2.0, round=1),
        attempted(store, one, [UNWRITABLE]),
        store.append(other, steps(1, 1), ts=2.0, round=1),
        return_exceptions=True,
    )

    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, False]
    assert names(await store.read("other")) == ["s0", "s1"]
    assert len(await store.read("one")) == 1


async def test_news_for_watchers_only_is_not_stored(store: Store) -> None:
    claim = await claimed(store)

    await add(store, claim, LlmToken(call_id="c", role="planning", text="x"), StepReady(step_id="s"))

    assert [record.type for record in await store.read("t")] == ["task_submitted", "step_ready"]
    assert [record.seq for record in await store.read("t")] == [1, 2]


async def test_an_append_of_nothing_writes_nothing(store: Store) -> None:
    claim = await claimed(store)

    assert await add(store, claim) == (2, 1)

    assert len(await store.read("t")) == 1


async def test_what_comes_after_a_lost_append_is_not_written_either(store: Store) -> None:
    claim = await claimed(store)
    futures = [
        attempted(store, claim, events) for events in (steps(0, 1), [UNWRITABLE], steps(1, 1), steps(2, 1))
    ]

    outcomes = await asyncio.gather(*futures, return_exceptions=True)

    lost = not isinstance(store, MemoryStore)  # which never queues: whoever appends is told before the next
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, lost, lost]
    again = await store.claim("t", steal=True)
    await add(store, again, *steps(9, 1))
    assert names(await store.read("t")) == (["s0", "s9"] if lost else ["s0", "s1", "s2", "s9"])


# ── the end ──

ENDS = [
    pytest.param(TaskCompleted(), "succeeded", id="completed"),
    pytest.param(TaskFailed(failure=FAILURE), "failed", id="failed"),
    pytest.param(TaskCancelled(failure=FAILURE), "cancelled", id="cancelled"),
    pytest.param(TaskTimedOut(failure=FAILURE), "timed_out", id="timed out"),
]


@pytest.mark.parametrize(("end", "status"), ENDS)
async def test_an_ended_task_takes_nothing_more(store: Store, end: AnyEvent, status: str) -> None:
    claim = await claimed(store)
    await add(store, claim, RoundCompleted(round=1), end)

    for late in (StepReady(step_id="late"), end):
        with pytest.raises(TaskEnded, match="'t'"):
            await add(store, claim, late)
    with pytest.raises(TaskEnded, match="'t'"):
        await store.signal("t", CancelRequested(), 3.0)

    assert [record.seq for record in await store.read("t")] == [1, 2, 3]
    assert (await store.summary("t")).status == status


async def test_nothing_comes_after_the_end_in_one_append_either(store: Store) -> None:
    claim = await claimed(store)

    with pytest.raises(TaskEnded):
        await add(store, claim, TaskCompleted(), StepReady(step_id="late"))

    assert len(await store.read("t")) == 1
    assert (await store.summary("t")).status == "queued"


async def test_appends_queued_behind_the_end_are_refused(store: Store) -> None:
    claim = await claimed(store)
    futures = [
        store.append(claim, [event], ts=2.0, round=1)
        for event in (StepReady(step_id="s"), TaskCompleted(), StepReady(step_id="late"), TaskCompleted())
    ]

    outcomes = await asyncio.gather(*futures, return_exceptions=True)

    assert [type(outcome).__name__ for outcome in outcomes] == [
        "Appended",
        "Appended",
        "TaskEnded",
        "TaskEnded",
    ]
    assert [record.type for record in await store.read("t")] == [
        "task_submitted",
        "step_ready",
        "task_completed",
    ]


# ── signals ──


async def test_a_signal_needs_no_claim_and_does_not_make_the_driver_stale(store: Store) -> None:
    claim = await claimed(store)
    await add(store, claim, RoundStarted(round=4), round=4)

    record = await store.signal("t", CancelRequested(reason="enough"), 3.0)

    assert record == Record(3, "t", 3.0, 4, CancelRequested(reason="enough"))
    assert (await store.read("t"))[-1] == record
    assert await add(store, claim, StepReady(step_id="s")) == (4, 4)


async def test_a_signal_is_not_written_behind_one_that_its_writer_has_not_heard(store: Store) -> None:
    claim = await claimed(store)
    heard = (await store.read("t"))[-1].seq
    await add(store, claim, StepReady(step_id="s"))

    both = await asyncio.gather(
        *(store.signal("t", CancelRequested(by=by), 2.0, heard=heard) for by in ("Ann", "Bob")),
        return_exceptions=True,
    )
    late = [one for one in both if isinstance(one, BaseException)]
    assert [type(one) for one in late] == [NotHeard], "what the driver writes is none of it"
    (first,) = await store.read("t", signals_only=True)
    assert first in both
    second = await store.signal("t", CancelRequested(by="Eve"), 3.0, heard=first.seq)
    assert await store.read("t", signals_only=True) == [first, second]


@pytest.mark.parametrize("before", [0, 1, 3], ids=lambda n: f"{n} appends on their way")
async def test_an_end_is_not_written_behind_what_its_driver_has_not_heard(store: Store, before: int) -> None:
    claim = await claimed(store)
    heard = (await store.signal("t", CancelRequested(reason="heard"), 2.0)).seq
    said = (await store.signal("t", CancelRequested(reason="just now"), 3.0)).seq

    queued = [store.append(claim, steps(n, 1), ts=4.0, round=1) for n in range(before)]
    end = store.append(
        claim, [RoundCompleted(round=1), TaskFailed(failure=FAILURE)], ts=4.0, round=1, heard=heard
    )
    with pytest.raises(NotHeard, match="'t'"):
        await end
    await asyncio.gather(*queued)

    records = await store.read("t")
    assert [record.type for record in records[said:]] == ["step_ready"] * before, "nothing of it"
    assert (await store.summary("t")).status not in ("failed", "succeeded")
    assert await add(store, claim, StepReady(step_id="s")) == (said + before + 1,) * 2, "the claim holds on"
    own = len(records) + 1
    assert tuple(await store.append(claim, [TaskFailed(failure=FAILURE)], ts=5.0, round=1, heard=said)) == (
        own + 1,
        own + 1,
    ), "what its driver writes itself is heard"
    assert (await store.summary("t")).status == "failed"


async def test_of_an_end_and_of_what_people_write_meanwhile_one_is_refused(store: Store) -> None:
    for n in range(20):
        claim = await claimed(store, task_id := f"t{n}")
        end = [TaskFailed(failure=FAILURE)]
        said, ended = await asyncio.gather(
            store.signal(task_id, CancelRequested(reason="stop"), 3.0),
            store.append(claim, end, ts=4.0, round=1, heard=1),
            return_exceptions=True,
        )
        kinds = [record.type for record in await store.read(task_id)]
        if isinstance(said, TaskEnded):
            assert (tuple(ended), kinds) == ((2, 2), ["task_submitted", "task_failed"])  # type: ignore[arg-type]
        else:
            assert isinstance(ended, NotHeard)
            assert kinds == ["task_submitted", "cancel_requested"]


async def test_what_is_refused_keeps_no_other_task_out(store: Store) -> None:
    claims = [await claimed(store, f"t{n}") for n in range(5)]
    await store.signal("t2", CancelRequested(), 3.0)

    ends = [store.append(one, [TaskFailed(failure=FAILURE)], ts=4.0, round=1, heard=1) for one in claims]
    done = await asyncio.gather(*ends, return_exceptions=True)

    assert [type(one) for one in done] == [Appended, Appended, NotHeard, Appended, Appended]


async def test_only_what_people_write_can_be_signalled(store: Store) -> None:
    await claimed(store)

    with pytest.raises(InputError, match="step_ready"):
        await store.signal("t", StepReady(step_id="s"), 3.0)

    assert len(await store.read("t")) == 1


async def test_signals_and_appends_interleave_without_gap_or_loss(store: Store) -> None:
    claim = await claimed(store)

    async def drive() -> list[tuple[int, int]]:
        return [await add(store, claim, *steps(n * 2, 2)) for n in range(50)]

    async def shout(who: int) -> None:
        for n in range(20):
            await store.signal("t", CancelRequested(by=f"{who}.{n}"), 3.0)

    placed, *_ = await asyncio.gather(drive(), *(shout(who) for who in range(5)))

    records = await store.read("t")
    assert [record.seq for record in records] == list(range(1, 202))
    assert names(records) == [f"s{n}" for n in range(100)]
    for n, (first, last) in enumerate(placed):
        assert names(records[first - 1 : last]) == [f"s{2 * n}", f"s{2 * n + 1}"]
    said = [record.event.by for record in records if isinstance(record.event, CancelRequested)]
    for who in range(5):
        assert [by for by in said if by.startswith(f"{who}.")] == [f"{who}.{n}" for n in range(20)]


# ── reading ──


@pytest.mark.parametrize(
    ("after", "limit", "expected"),
    [
        pytest.param(0, None, [1, 2, 3, 4, 5, 6], id="all"),
        pytest.param(2, None, [3, 4, 5, 6], id="after"),
        pytest.param(2, 2, [3, 4], id="after and limit"),
        pytest.param(0, 0, [], id="none"),
        pytest.param(0, -1, [], id="less than none"),
        pytest.param(-5, 1, [1], id="before the first"),
        pytest.param(6, None, [], id="after the last"),
        pytest.param(99, None, [], id="far after the last"),
    ],
)
async def test_a_part_of_the_log_can_be_read(
    store: Store, after: int, limit: int | None, expected: list[int]
) -> None:
    claim = await claimed(store)
    await add(store, claim, *steps(0, 5))

    assert [record.seq for record in await store.read("t", after, limit)] == expected


async def test_signals_can_be_read_alone(store: Store) -> None:
    claim = await claimed(store)
    for by in ("a", "b", "c"):
        await add(store, claim, StepReady(step_id="s"))
        await store.signal("t", CancelRequested(by=by), 3.0)

    async def seqs(after: int, limit: int | None = None) -> list[int]:
        return [record.seq for record in await store.read("t", after, limit, signals_only=True)]

    assert await seqs(0) == [3, 5, 7]
    assert await seqs(3) == [5, 7]
    assert await seqs(0, 1) == [3]


async def test_the_first_reading_of_a_new_task_has_what_people_wrote_meanwhile(store: Store) -> None:
    await store.create("t", submitted(), 1.0)
    await store.signal("t", CancelRequested(by="Ann"), 2.0)

    assert [record.type for record in await store.read("t")] == ["task_submitted", "cancel_requested"]


async def test_a_new_task_is_read_as_often_as_one_likes_and_as_it_was_stored(store: Store) -> None:
    given = {"list": [1, {"a": None}], "text": "ä"}
    event = TaskSubmitted(description="do it", metadata=given, plan={"steps": [{"step_id": "a"}]})
    await store.create("t", event, 1.5)

    first, second = await store.read("t"), await store.read("t")

    assert first == second == [Record(1, "t", 1.5, 0, event)]
    claim = await store.claim("t")
    await add(store, claim, *steps(0, 2))
    assert [record.seq for record in await store.read("t")] == [1, 2, 3]


async def test_many_new_tasks_are_each_read_as_their_own(store: Store) -> None:
    for n in range(40):
        await store.create(f"t{n}", submitted(f"task {n}"), float(n))

    for n in reversed(range(40)):
        (record,) = await store.read(f"t{n}")
        assert (record.task_id, record.ts) == (f"t{n}", float(n))
        assert isinstance(record.event, TaskSubmitted)
        assert record.event.description == f"task {n}"


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.prove)])
async def test_a_long_log_can_be_read(store: Store, count: int) -> None:
    claim = await claimed(store)
    await asyncio.gather(
        *(store.append(claim, steps(n, 1000), ts=2.0, round=1) for n in range(0, count, 1000))
    )

    records = await store.read("t")

    assert [record.seq for record in records] == list(range(1, count + 2))
    assert names(records) == [f"s{n}" for n in range(count)]


TEXTS = [
    pytest.param("日本語 中文 العربية", id="scripts"),
    pytest.param("🦀👩‍👩‍👧‍👦🏳️‍🌈", id="emoji"),
    pytest.param("a\x00b\x00", id="NUL"),
    pytest.param("\n\r\t\x7f\u2028\u2029\ufeff", id="controls"),
    pytest.param("'; DROP TABLE event; --", id="SQL"),
    pytest.param('{"a": "\\u0000"} ${x} {{y}}', id="JSON and references"),
    pytest.param("", id="empty"),
    pytest.param("abcd🦀" * 1_250_000, id="10 MB"),
]


@pytest.mark.parametrize("text", TEXTS)
async def test_every_text_comes_back_as_it_went_in(store: Store, text: str) -> None:
    event = TaskSubmitted(description=text[:1000], metadata={"k": text[:100], text[:50]: 1})
    await store.create("t", event, 1.0)
    claim = await store.claim("t")
    end = TaskCompleted(final_output={"text": text})

    await store.append(claim, [end], ts=2.0, round=1, artifacts=[NewArtifact("a", text.encode())])

    assert [record.event for record in await store.read("t")] == [event, end]
    assert await store.artifact("t", "a") == text.encode()
    assert (await store.summary("t")).description == text[:1000]


async def test_events_of_an_unknown_kind_are_kept(store: Store) -> None:
    claim = await claimed(store)
    event = UnknownEvent(type="from_the_future", data={"a": [1, {"b": "ü"}], "n": None})

    await add(store, claim, event)

    record = (await store.read("t"))[-1]
    assert record.event == event
    assert record.type == "from_the_future"


# ── artifacts ──


async def test_artifacts_are_stored_with_the_events_that_name_them(store: Store) -> None:
    claim = await claimed(store)
    data = bytes(range(256)) * 40_000

    await store.append(
        claim, steps(0, 1), ts=2.0, round=1, artifacts=[NewArtifact("big", data), NewArtifact("none", b"")]
    )

    assert await store.artifact("t", "big") == data
    assert await store.artifact("t", "none") == b""


async def test_the_same_artifact_may_be_stored_twice_and_belongs_to_its_task(store: Store) -> None:
    claim = await claimed(store, "t")
    await claimed(store, "other")
    for n in range(2):
        await store.append(claim, steps(n, 1), ts=2.0, round=1, artifacts=[NewArtifact("a", b"x")])

    assert await store.artifact("t", "a") == b"x"
    with pytest.raises(InputError, match="no artifact 'a'"):
        await store.artifact("other", "a")


async def cut(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize(
    ("length", "size"),
    [
        pytest.param(0, 1, id="nothing"),
        pytest.param(1, 1, id="one byte"),
        pytest.param(1 << 20, 1 << 20, id="exactly a piece"),
        pytest.param((1 << 20) + 1, 300_000, id="a piece and a byte"),
        pytest.param(3_500_000, 3_500_000, id="several pieces at once"),
    ],
)
async def test_a_stream_is_kept_and_read_as_it_came(store: Store, length: int, size: int) -> None:
    data = bytes(n % 251 for n in range(length))
    claim = await claimed(store)

    kept = await store.keep(cut(data, size))
    await store.append(claim, steps(0, 1), ts=2.0, round=1, artifacts=[NewArtifact("a", kept=kept)])

    assert kept == Content(hashlib.sha256(data).hexdigest(), length)
    assert await store.artifact("t", "a") == data
    assert await whole(store.pieces("t", "a")) == data


async def test_a_part_of_a_content_is_read_without_the_rest(store: Store) -> None:
    data = random.Random(5).randbytes(3_300_000)
    claim = await claimed(store)
    kept = await store.keep(cut(data, 700_000))
    made = [NewArtifact("a", kept=kept), NewArtifact("b", data[:5])]
    await store.append(claim, steps(0, 1), ts=2.0, round=1, artifacts=made)

    piece = 1 << 20
    for start in (
        0,
        1,
        piece - 1,
        piece,
        piece + 1,
        2 * piece - 3,
        3 * piece,
        len(data) - 1,
        len(data),
        2**40,
    ):
        for size in (1, 4, 65_540, piece, 2 * piece + 7, 2**24):
            assert await store.part("t", "a", start, size) == data[start : start + size], (start, size)
    assert await store.part("t", "b", 2, 9) == data[2:5]
    with pytest.raises(InputError):
        await store.part("t", "c", 0, 1)
    with pytest.raises(TaskNotFound):
        await store.part("u", "a", 0, 1)


async def test_one_content_serves_many_tasks_and_stays_until_the_last_of_them_is_gone(store: Store) -> None:
    data = b"the same" * 200_000
    for task_id in ("t", "u"):
        claim = await claimed(store, task_id)
        kept = await store.keep(cut(data, 100_000)) if task_id == "t" else None
        artifact = NewArtifact("a", kept=kept) if kept else NewArtifact("a", data)
        await store.append(claim, steps(0, 1), ts=2.0, round=1, artifacts=[artifact])
        await store.release(claim)

    await store.delete("t", unfinished=True)

    assert await store.artifact("u", "a") == data
    kept = await store.keep(cut(data, 7_000))
    claim = await store.claim("u")
    await store.append(claim, steps(1, 1), ts=2.0, round=1, artifacts=[NewArtifact("b", kept=kept)])
    assert await whole(store.pieces("u", "b")) == data


async def test_a_stream_that_breaks_off_is_told_and_does_no_harm(store: Store) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield b"x" * 1_500_000
        raise RuntimeError("the way was cut")

    claim = await claimed(store)
    with pytest.raises(RuntimeError, match="the way was cut"):
        await store.keep(breaking())

    await store.append(claim, steps(0, 1), ts=2.0, round=1, artifacts=[NewArtifact("a", b"x" * 1_500_000)])
    assert await whole(store.pieces("t", "a")) == b"x" * 1_500_000


async def test_many_streams_are_kept_at_once(store: Store) -> None:
    claim = await claimed(store)
    datas = [bytes([n]) * 1_200_000 for n in range(5)] + [b"the same" * 200_000] * 3

    kept = await asyncio.gather(*(store.keep(cut(data, 90_000)) for data in datas))
    made = [NewArtifact(f"a{n}", kept=one) for n, one in enumerate(kept)]
    await store.append(claim, steps(0, 1), ts=2.0, round=1, artifacts=made)

    for n, data in enumerate(datas):
        assert await whole(store.pieces("t", f"a{n}")) == data


async def test_a_content_that_is_not_there_is_no_artifact(store: Store) -> None:
    claim = await claimed(store)
    lost = NewArtifact("a", kept=Content("ab" * 32, 5))
    with pytest.raises(StoreError):
        await store.append(claim, steps(0, 1), ts=2.0, round=1, artifacts=[lost])
    with pytest.raises(InputError):
        await whole(store.pieces("t", "a"))


# ── following ──


async def collect(records: AsyncIterator[Record]) -> list[int]:
    async with asyncio.timeout(SECS):
        return [record.seq async for record in records]


@pytest.mark.parametrize("after", [0, 1, 7, 500, 1001])
async def test_a_follower_gets_every_record_once_while_they_are_written(store: Store, after: int) -> None:
    claim = await claimed(store)
    await add(store, claim, *steps(0, 600))

    async def write() -> None:
        for n in range(400):
            await add(store, claim, StepReady(step_id=f"t{n}"))
        await add(store, claim, TaskCompleted())

    seqs, _ = await asyncio.gather(collect(store.follow("t", after)), write())

    assert seqs == list(range(after + 1, 1003))


async def test_many_followers_each_get_everything(store: Store) -> None:
    claim = await claimed(store)

    async def write() -> None:
        for n in range(50):
            await add(store, claim, StepReady(step_id=f"s{n}"))
        await add(store, claim, TaskCompleted())

    *seen, _ = await asyncio.gather(*(collect(store.follow("t", n)) for n in range(20)), write())

    assert seen == [list(range(n + 1, 53)) for n in range(20)]


@pytest.mark.parametrize("after", [0, 1, 2, 3, 50])
async def test_following_an_ended_task_ends(store: Store, after: int) -> None:
    claim = await claimed(store)
    await add(store, claim, StepReady(step_id="s"), TaskCompleted())

    assert await collect(store.follow("t", after)) == list(range(after + 1, 4))


async def test_a_follower_sees_signals_at_once(store: Store) -> None:
    await claimed(store)
    following = store.follow("t", 1)
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)

    record = await store.signal("t", CancelRequested(by="me"), 3.0)

    async with asyncio.timeout(SECS):
        assert await waiting == record
    await following.aclose()  # type: ignore[attr-defined]


async def test_a_follower_may_leave_at_any_time(store: Store) -> None:
    claim = await claimed(store)
    following = store.follow("t")
    assert (await anext(following)).seq == 1
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await following.aclose()  # type: ignore[attr-defined]

    assert await add(store, claim, TaskStarted()) == (2, 2)


# ── listening ──


class Ear:
    """Who listens, and the signals that were read after having been told."""

    def __init__(self, store: Store, task_id: str = "t") -> None:
        self.store = store
        self.task_id = task_id
        self.told = 0
        self._news = asyncio.Event()
        self.listening = store.listen(task_id, self._tell)

    def _tell(self) -> None:
        asyncio.get_running_loop()  # it is called in the loop
        self.told += 1
        self._news.set()

    async def hears(self, *by: str) -> None:
        """Wait until those who wrote can all be read. It reads only when told, so one told too few hangs."""
        async with asyncio.timeout(SECS):
            while True:
                await self._news.wait()
                self._news.clear()
                read = await self.store.read(self.task_id, signals_only=True)
                if [getattr(record.event, "by", "") for record in read] == list(by):
                    return


async def other_of(store: Store, folder: Path) -> Store:
    """Another store on the same database; one in memory has only itself."""
    if isinstance(store, PostgresStore):
        return PostgresStore((folder / "address").read_text())
    return store if isinstance(store, MemoryStore) else SqliteStore(folder / "log.db")


async def test_a_listener_is_told_what_people_write(store: Store) -> None:
    claim = await claimed(store)
    ear = Ear(store)
    await store.signal("t", CancelRequested(by="a"), 3.0)
    await ear.hears("a")
    await add(store, claim, StepReady(step_id="s"))
    await store.signal("t", CancelRequested(by="b"), 3.0)
    await ear.hears("a", "b")
    ear.listening.close()


async def test_a_listener_is_told_what_another_store_writes(tmp_path: Path, store: Store) -> None:
    await claimed(store)
    other = await other_of(store, tmp_path)
    ear = Ear(store)
    for n in range(3):
        await other.signal("t", CancelRequested(by=f"{n}"), 3.0)
        await ear.hears(*map(str, range(n + 1)))
    ear.listening.close()
    await other.aclose()


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("others", [False, True])
async def test_what_comes_between_listening_and_reading_is_told_or_read(
    tmp_path: Path, store: Store, elsewhere: bool, others: bool
) -> None:
    """Whatever the turns between them; also when somebody has listened before, or still does."""
    await claimed(store)
    await claimed(store, "u")
    other = await other_of(store, tmp_path) if elsewhere else store
    still = store.listen("u", lambda: None) if others else None
    by: list[str] = []
    for turns in (0, 1, 2, 5, 20):
        ear = Ear(store)
        writing = asyncio.ensure_future(other.signal("t", CancelRequested(by=f"{turns}"), 3.0))
        for _ in range(turns):
            await asyncio.sleep(0)
        by.append(f"{turns}")
        read = [getattr(record.event, "by", "") for record in await store.read("t", signals_only=True)]
        if read != by:
            await ear.hears(*by)
        await writing
        ear.listening.close()
        await other.signal("t", CancelRequested(by="nobody listens"), 3.0)
        by.append("nobody listens")
    if still is not None:
        still.close()
    if other is not store:
        await other.aclose()


async def test_a_listener_hears_only_of_its_task_and_nothing_after_its_close(store: Store) -> None:
    claim = await claimed(store)
    await claimed(store, "u")
    closed, other = Ear(store), Ear(store, "u")
    closed.listening.close()
    closed.listening.close()
    ear = Ear(store)
    for n in range(4):
        await store.signal("t", CancelRequested(by=f"{n}"), 3.0)
        await ear.hears(*map(str, range(n + 1)))
    assert closed.told == 0
    assert other.told <= 1  # once too often, perhaps
    ear.listening.close()
    told = ear.told
    await store.signal("t", CancelRequested(by="b"), 3.0)
    await add(store, claim, StepReady(step_id="s"))
    assert ear.told == told
    other.listening.close()


async def test_what_a_driver_writes_is_no_signal(store: Store) -> None:
    claim = await claimed(store)
    ear = Ear(store)
    await store.signal("t", CancelRequested(by="a"), 3.0)
    await ear.hears("a")
    told = ear.told
    for n in range(4):
        await add(store, claim, StepReady(step_id=f"s{n}"))
    assert ear.told <= told + 1  # once too often, perhaps
    ear.listening.close()


# ── the list ──


async def test_tasks_are_listed_newest_first_page_by_page(store: Store) -> None:
    for n in range(7):
        await store.create(f"t{n}", submitted(f"task {n}"), float(100 - n))

    first = await store.list_tasks(limit=3)
    second = await store.list_tasks(limit=3, before=first[-1].task_id)
    third = await store.list_tasks(limit=3, before=second[-1].task_id)

    assert [[task.task_id for task in page] for page in (first, second, third)] == [
        ["t6", "t5", "t4"],
        ["t3", "t2", "t1"],
        ["t0"],
    ]
    assert await store.list_tasks(before="t0") == []
    assert await store.list_tasks(limit=0) == []


async def test_the_list_can_be_filtered_by_status(store: Store) -> None:
    for n, end in enumerate([TaskCompleted(), TaskFailed(failure=FAILURE), None, TaskCompleted()]):
        claim = await claimed(store, f"t{n}")
        if end is not None:
            await add(store, claim, end)

    async def listed(*status: str) -> list[str]:
        return [task.task_id for task in await store.list_tasks(status=status)]

    assert await listed("succeeded") == ["t3", "t0"]
    assert await listed("failed", "queued") == ["t2", "t1"]
    assert await listed("cancelled") == []
    assert await listed() == ["t3", "t2", "t1", "t0"]


async def test_a_summary_follows_the_task(store: Store) -> None:
    await store.create("t", submitted("measure"), 1.0)
    assert await store.summary("t") == TaskSummary("t", "queued", "measure", 1.0, 1.0, 1, False)

    claim = await store.claim("t")
    await store.append(claim, [TaskStarted(), StepReady(step_id="s")], ts=5.0, round=1)
    assert await store.summary("t") == TaskSummary("t", "planning", "measure", 1.0, 5.0, 3, True)

    await store.append(claim, [TaskCompleted()], ts=6.0, round=1)
    await store.release(claim)
    assert await store.summary("t") == TaskSummary("t", "succeeded", "measure", 1.0, 6.0, 4, False)


async def test_others_get_on_while_somebody_asks_for_a_summary_again_and_again(store: Store) -> None:
    await store.create("t", submitted("measure"), 1.0)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    for _ in range(20):
        await store.summary("t")
    beside.cancel()

    assert turns >= 20, "each look gave way"


# ── closing ──


async def test_closing_ends_followers_and_finishes_what_was_queued(tmp_path: Path, store: Store) -> None:
    claim = await claimed(store)
    follower = asyncio.ensure_future(collect(store.follow("t")))
    for _ in range(3):
        await asyncio.sleep(0)
    reading = asyncio.ensure_future(store.read("t"))
    await asyncio.sleep(0)
    writing = [store.append(claim, steps(n, 1), ts=2.0, round=1) for n in range(200)]

    async with asyncio.timeout(SECS):
        await store.aclose()
        placed = await asyncio.gather(*writing)
        seqs = await follower
        await reading

    assert placed[-1] == (201, 201)
    assert seqs == list(range(1, len(seqs) + 1))


async def test_closing_twice_is_fine(store: Store) -> None:
    await store.aclose()
    await store.aclose()


# ── tools ─────────────────────────────────────────────────────────────────────


async def test_what_was_counted_of_tools_adds_up(store: Store) -> None:
    key, other = ToolKey("mail", "send"), ToolKey("", "née 北京")
    assert await store.tool_stats() == {}
    for secs in (0.1, 0.2):
        more = ToolStats()
        more.add(secs)
        more.add(secs, Fault(category="unknown", kind="tool", message="half \ud800 of a character"))
        await store.add_tool_stats({key: more, other: more})
    found = await store.tool_stats()
    assert set(found) == {key, other}
    assert (found[key].calls, found[key].failures, found[key].recent) == (4, 2, "+-+-")
    assert found[key].common_errors(1)[0][1] == 2


async def test_a_write_that_is_tried_leaves_nothing(store: Store) -> None:
    await store.create("t", submitted(), 1.0)
    await store.remember_tools({"mine": ["a"]})
    for _ in range(3):
        await store.try_write()
    assert await store.remembered_tools() == {"mine": ("a",)}
    assert [one.task_id for one in await store.list_tasks()] == ["t"]
    assert len(await store.read("t")) == 1


async def test_the_names_of_a_source_are_those_it_listed_last(store: Store) -> None:
    await store.remember_tools({"mail": ["send", "read"], "née 北京": []})
    await store.remember_tools({"mail": ("send",)})
    assert await store.remembered_tools() == {"mail": ("send",), "née 北京": ()}


# ── deleting ──


async def test_an_ended_task_can_be_deleted_with_all_that_it_has(store: Store) -> None:
    claim = await claimed(store)
    await store.append(claim, steps(0, 2), ts=2.0, round=1, artifacts=[NewArtifact("a", b"x")])
    await add(store, claim, TaskFailed(failure=Failure(kind="step", reason="no")))
    await store.release(claim)
    await store.create("other", submitted(), 1.0)

    await store.delete("t")

    with pytest.raises(TaskNotFound):
        await store.read("t")
    with pytest.raises(InputError):
        await store.artifact("t", "a")
    assert [row.task_id for row in await store.list_tasks()] == ["other"]
    assert await store.create("t", submitted(), 3.0)
    assert len(await store.read("t")) == 1


async def test_a_task_that_is_driven_or_has_not_ended_is_kept(store: Store) -> None:
    claim = await claimed(store)
    with pytest.raises(TaskHeld):
        await store.delete("t", unfinished=True)
    await store.release(claim)
    with pytest.raises(InputError, match="has not ended"):
        await store.delete("t")
    assert len(await store.read("t")) == 1
    await store.delete("t", unfinished=True)
    with pytest.raises(TaskNotFound):
        await store.delete("t")


class WithoutWord:
    """A redaction of one word."""

    def artifact(self, artifact_id: str, data: bytes) -> bytes:
        return data.replace(b"word", b"***")

    def event(self, event: AnyEvent) -> AnyEvent:
        if isinstance(event, TaskSubmitted) and "word" in event.description:
            return event.model_copy(update={"description": event.description.replace("word", "***")})
        return event


async def test_what_is_redacted_is_gone_and_nothing_else_has_changed(store: Store) -> None:
    await store.create("t", submitted("say the word"), 1.0)
    await store.create("u", submitted("another word"), 1.0)
    claim = await store.claim("t")
    await store.append(claim, steps(1, 3), ts=2.0, round=0, artifacts=[NewArtifact("a", b"a word")])
    before = await store.read("t")
    await store.redact(claim, WithoutWord())
    await store.append(claim, steps(4, 1), ts=3.0, round=0)
    after = await store.read("t")
    assert after[0].event == submitted("say the ***")
    assert after[1:-1] == before[1:]
    assert [one.seq for one in after] == [1, 2, 3, 4, 5]
    assert await store.artifact("t", "a") == b"a ***"
    assert (await store.summary("t")).description == "say the ***"
    assert (await store.read("u"))[0].event == submitted("another word")
    assert not await store.create("u", submitted("another word"), 9.0)


async def test_the_request_of_a_redacted_task_is_still_known_for_the_same(store: Store) -> None:
    await store.create("t", submitted("say the word"), 1.0)
    await store.redact(await store.claim("t"), WithoutWord())
    assert not await store.create("t", submitted("say the word"), 2.0)
    with pytest.raises(TaskExists):
        await store.create("t", submitted("say another word"), 2.0)


async def test_whoever_lost_the_task_redacts_nothing(store: Store) -> None:
    await store.create("t", submitted("say the word"), 1.0)
    claim = await store.claim("t")
    await store.claim("t", steal=True)
    with pytest.raises(StaleWriter):
        await store.redact(claim, WithoutWord())
    assert (await store.read("t"))[0].event == submitted("say the word")


async def test_what_comes_behind_a_large_output_keeps_its_place_and_others_need_not_wait(
    store: Store,
) -> None:
    large, other = await claimed(store, "large"), await claimed(store, "other")
    data = bytes(range(256)) * 40_000
    appends = [
        store.append(large, steps(1, 1), ts=2.0, round=1),
        store.append(large, steps(2, 1), ts=2.0, round=1, artifacts=[NewArtifact("a", data)]),
        store.append(large, steps(3, 1), ts=2.0, round=1),
        store.append(large, steps(4, 1), ts=2.0, round=1, artifacts=[NewArtifact("b", data[1:])]),
        store.append(other, steps(1, 1), ts=2.0, round=1),
        store.append(large, steps(5, 1), ts=2.0, round=1),
    ]
    released = asyncio.ensure_future(store.release(large))
    found = [await append for append in appends]
    await released

    assert [one.first for one in found] == [2, 3, 4, 5, 2, 6]
    assert names(await store.read("large")) == ["s1", "s2", "s3", "s4", "s5"]
    assert (await store.artifact("large", "a"), await store.artifact("large", "b")) == (data, data[1:])
    with pytest.raises(StaleWriter):
        await store.append(large, steps(6, 1), ts=2.0, round=1)
