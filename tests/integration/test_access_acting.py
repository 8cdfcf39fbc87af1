"""Submitting and stepping in through the use cases: races, what was shown, and what an ended task says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from access_world import ASKED, FAILS, PLAIN, SECS, STORES, World, database, world
from hypothesis import given
from hypothesis import strategies as st
from run_tasks import plan, step

from replan import Replan
from replan.config import Settings
from replan.core.events import ApprovalRequested
from replan.errors import (
    AnsweredBefore,
    InputError,
    ModelUnavailable,
    NoSuchPart,
    TaskEnded,
    TaskExists,
    TaskNotDone,
    TaskNotFound,
    TooLate,
    TooMany,
)
from replan.run.access import requests as r
from replan.run.access.callers import LOCAL, Caller
from replan.run.access.people import call_hash
from replan.run.access.use_cases import UseCases
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ANN, EVE = Caller("key:ann"), Caller("key:eve")
TWICE = plan(
    step("a", "pay", parameters={"amount": 7}, requires_approval=True),
    step("b", "pay", parameters={"amount": 8}, requires_approval=True),
)


@pytest.fixture(params=STORES)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    return database(request.param, tmp_path, request.getfixturevalue)


@pytest.fixture
async def there(db: str | Path) -> AsyncIterator[World]:
    async with world(db) as made:
        yield made


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path / "log.db") as made:
        yield made


# ── submitting ──


async def test_of_many_who_submit_the_same_one_is_told_that_it_is_new(there: World) -> None:
    made = await asyncio.gather(*(there.submit(PLAIN, task_id="t-1") for _ in range(8)))
    assert sorted(one.new for one in made) == [False] * 7 + [True]
    assert {one.task_id for one in made} == {"t-1"}
    await there.done("t-1")
    assert there.source.counts["look"] == 1
    again = await there.submit(PLAIN, task_id="t-1")
    assert (again.new, again.status) == (False, "succeeded")


async def test_a_key_names_one_request_of_its_tenant(there: World) -> None:
    request = r.SubmitRequest(
        task_description="do it", options=r.SubmitOptions(plan=PLAIN, evaluation="steps")
    )
    both = await asyncio.gather(
        *(there.cases.submit(LOCAL, request, idempotency_key="k 1") for _ in range(2))
    )
    assert sorted(one.new for one in both) == [False, True]
    assert len({one.task_id for one in both}) == 1
    other = request.model_copy(update={"task_description": "do that"})
    with pytest.raises(TaskExists, match="Idempotency-Key 'k 1' was used before with a different request"):
        await there.cases.submit(LOCAL, other, idempotency_key="k 1")
    with pytest.raises(TaskExists, match="choose another id"):
        await there.cases.submit(LOCAL, other.model_copy(update={"task_id": both[0].task_id}))
    other_tenant = await there.cases.submit(ANN._replace(tenant="acme"), other, idempotency_key="k 1")
    assert other_tenant.new
    assert other_tenant.task_id != both[0].task_id


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", "\0"])
async def test_what_cannot_be_a_key_is_refused(quick: World, key: str) -> None:
    request = r.SubmitRequest(task_description="do it")
    with pytest.raises(InputError, match="Idempotency-Key"):
        await quick.cases.submit(LOCAL, request, idempotency_key=key)
    with pytest.raises(InputError, match="not both"):
        await quick.cases.submit(LOCAL, request.model_copy(update={"task_id": "t"}), idempotency_key="k")


ODD = [
    "",
    "../x",
    "a/b",
    "a\0b",
    "\ud800",
    "x" * 200,
    "t-1 ",
    "T-1",
    "%00",
    "t-1\n",
    "é",
    "' OR 1=1 --",
    "0" * 128,
]


async def test_no_text_that_is_no_id_finds_or_breaks_anything(there: World) -> None:
    await there.submit(PLAIN, task_id="t-1")
    await there.done("t-1")
    rng = random.Random(13)
    odd = [
        *ODD,
        *("".join(chr(rng.randrange(1, 0x300)) for _ in range(rng.randrange(1, 9))) for _ in range(20)),
    ]
    for text in odd:
        for ask in (there.cases.task, there.cases.result, there.cases.cancel, there.cases.waits):
            with pytest.raises(TaskNotFound):
                await ask(LOCAL, text)
        for part in (there.cases.step, there.cases.artifact, there.cases.output):
            with pytest.raises(NoSuchPart):
                await part(LOCAL, "t-1", text)
        with pytest.raises(NoSuchPart):
            await there.cases.tool_stats(LOCAL, text + "?")
        with pytest.raises(InputError):
            await there.cases.tasks(LOCAL, cursor=text)
        with pytest.raises(InputError):
            await there.cases.tasks(LOCAL, status=[text])
    for n in (-1, 2**63, 2**200):
        assert isinstance(await there.cases.events(LOCAL, "t-1", after=n), list)
        with pytest.raises(InputError, match="offset"):
            await there.cases.output(LOCAL, "t-1", "a", offset=n)


@pytest.mark.parametrize("task_id", ["../x", "a/b", "a b", "-a", "ä", "", "x" * 129, "a\0b", "a%2fb"])
async def test_an_id_that_cannot_be_one_is_refused_and_names_no_task(quick: World, task_id: str) -> None:
    with pytest.raises((InputError, ValueError)):
        await quick.submit(PLAIN, task_id=task_id)
    with pytest.raises(TaskNotFound):
        await quick.cases.task(LOCAL, task_id)


async def test_past_the_queue_only_known_tasks_are_taken(tmp_path: Path) -> None:
    few = Settings.model_validate(
        {"server": {"max_queued_tasks": 1}, "orchestrator": {"max_concurrent_tasks": 1}}
    )
    async with world(tmp_path / "log.db", settings=few) as there:
        await there.submit(plan(step("a", "hold")), task_id="t-1")
        await asyncio.wait_for(there.source.entered.wait(), SECS)
        await there.submit(PLAIN, task_id="t-2")
        with pytest.raises(TooMany) as told:
            await there.submit(PLAIN, task_id="t-3")
        assert told.value.retry_after
        assert not (await there.submit(PLAIN, task_id="t-2")).new
        there.source.let_go.set()
        await there.done("t-2")


# ── approvals ──


async def test_a_yes_is_for_the_call_that_was_shown(quick: World) -> None:
    task_id = (await quick.submit(TWICE)).task_id
    await quick.waits(task_id)
    first, second = await quick.cases.waits(LOCAL, task_id)
    assert first.hash != second.hash
    assert first.waiting_for.parameters == {"amount": 7}
    whole = await quick.cases.approval(LOCAL, task_id, first.waiting_for.id)
    assert (whole.hash, whole.waiting_for) == (first.hash, first.waiting_for)
    with pytest.raises(InputError, match="hash"):
        await quick.cases.approve(LOCAL, task_id, first.waiting_for.id, r.ApprovalAnswer(approved=True))
    with pytest.raises(AnsweredBefore, match="another call than the one that was shown"):
        await quick.cases.approve(
            LOCAL, task_id, first.waiting_for.id, r.ApprovalAnswer(approved=True, hash=second.hash)
        )
    assert quick.source.effects == []
    for one in (first, second):
        await quick.cases.approve(
            LOCAL, task_id, one.waiting_for.id, r.ApprovalAnswer(approved=True, hash=one.hash)
        )
    assert (await quick.done(task_id)).is_success
    assert sorted(call.parameters["amount"] for call in quick.source.effects) == [7, 8]


async def test_of_two_who_answer_at_once_one_is_told_who_was_faster(there: World) -> None:
    task_id = (await there.submit(ASKED)).task_id
    asked = await there.waits(task_id)
    yes = r.ApprovalAnswer(approved=True, hash=asked.hash)
    no = r.ApprovalAnswer(approved=False, reason="not now")
    said = await asyncio.gather(
        there.cases.approve(ANN, task_id, asked.waiting_for.id, yes),
        there.cases.approve(EVE, task_id, asked.waiting_for.id, no),
        return_exceptions=True,
    )
    late = [one for one in said if isinstance(one, BaseException)]
    assert len(late) == 1
    assert isinstance(late[0], AnsweredBefore | TaskEnded)
    if isinstance(late[0], AnsweredBefore):
        assert ("key:ann" if said[1] is late[0] else "key:eve") in str(late[0])
    await there.done(task_id)
    assert len(there.source.effects) == (0 if said[0] is late[0] else 1)
    logged = await there.cases.events(LOCAL, task_id, limit=500)
    assert [one.type for one in logged].count("approval_resolved") == 1, "who was late is in no log"


async def test_of_many_who_ask_for_the_same_at_once_one_is_heard(quick: World) -> None:
    task_id = (await quick.submit(plan(step("a", "hold")))).task_id
    await quick.source.entered.wait()
    pauses = [quick.cases.pause(ANN, task_id, r.PauseRequest()) for _ in range(6)]
    hints = [quick.cases.hint(EVE, task_id, r.HintRequest(text=f"hint {n}")) for n in range(6)]
    said = await asyncio.gather(*pauses, *hints, return_exceptions=True)
    late = [one for one in said if isinstance(one, BaseException)]
    assert [type(one) for one in late] == [TooLate] * 5
    assert "is paused already by key:ann" in str(late[0])
    quick.source.let_go.set()
    logged = [one.type for one in await quick.cases.events(LOCAL, task_id, limit=500)]
    assert (logged.count("pause_requested"), logged.count("hint_given")) == (1, 6)
    with pytest.raises(NoSuchPart, match="no step"):
        await quick.cases.retry(LOCAL, task_id, "nowhere")
    with pytest.raises(TooLate, match="has not failed"):
        await quick.cases.retry(LOCAL, task_id, "a")


async def test_who_comes_late_is_told_who_has_answered_and_how(quick: World) -> None:
    task_id = (await quick.submit(TWICE)).task_id
    await quick.waits(task_id)
    first, second = await quick.cases.waits(LOCAL, task_id)
    yes = r.ApprovalAnswer(approved=True, hash=first.hash)
    await quick.cases.approve(ANN, task_id, first.waiting_for.id, yes)
    with pytest.raises(AnsweredBefore, match="agreed to before by key:ann"):
        await quick.cases.approve(EVE, task_id, first.waiting_for.id, yes)
    with pytest.raises(NoSuchPart, match=second.waiting_for.id):
        await quick.cases.approve(EVE, task_id, "appr_of_nobody", yes)
    await quick.cases.cancel(EVE, task_id)
    await quick.done(task_id)
    with pytest.raises(TaskEnded):
        await quick.cases.approve(EVE, task_id, second.waiting_for.id, yes)


async def test_other_parameters_are_agreed_to_by_the_hash_of_what_was_shown(quick: World) -> None:
    task_id = (await quick.submit(ASKED)).task_id
    asked = await quick.waits(task_id)
    answer = r.ApprovalAnswer(approved=True, hash=asked.hash, parameters={"amount": 5})
    await quick.cases.approve(ANN, task_id, asked.waiting_for.id, answer)
    await quick.done(task_id)
    assert [call.parameters for call in quick.source.effects] == [{"amount": 5}]


@given(
    one=st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)),
    other=st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)),
    keys=st.tuples(st.sampled_from("xy"), st.sampled_from("xy")),
)
def test_a_hash_stands_for_all_that_is_shown_of_one_call(
    one: dict[str, int], other: dict[str, int], keys: tuple[str, str]
) -> None:
    def asked(parameters: dict[str, int], key: str) -> ApprovalRequested:
        return ApprovalRequested(
            approval_id="p", call_key=key, step_id="a", tool_id="pay", effect="once", parameters=parameters
        )

    first, second = asked(one, keys[0]), asked(other, keys[1])
    turned = asked(dict(reversed(one.items())), keys[0])
    assert call_hash(first) == call_hash(turned)
    assert call_hash(first) == call_hash(ApprovalRequested.model_validate_json(first.model_dump_json()))
    assert (call_hash(first) == call_hash(second)) == ((one, keys[0]) == (other, keys[1]))


# ── ended tasks ──


async def test_an_ended_task_says_so_to_whoever_steps_in(quick: World) -> None:
    task_id = (await quick.submit(FAILS)).task_id
    await quick.done(task_id)
    cases = quick.cases
    for act in (
        cases.cancel(LOCAL, task_id),
        cases.pause(LOCAL, task_id, r.PauseRequest()),
        cases.resume(LOCAL, task_id),
        cases.hint(LOCAL, task_id, r.HintRequest(text="quick")),
        cases.retry(LOCAL, task_id, "b"),
        cases.judge(LOCAL, task_id, r.JudgeRequest()),
        cases.settle(LOCAL, task_id, "b", r.SettleRequest(happened=True)),
        cases.approve(LOCAL, task_id, "appr_1", r.ApprovalAnswer(approved=False)),
        cases.answer(LOCAL, task_id, "q_1", r.QuestionAnswer(text="yes")),
        cases.signal(LOCAL, task_id, r.SignalRequest(token="cb_1")),
    ):
        with pytest.raises(TaskEnded, match="has ended"):
            await act
    with pytest.raises(NoSuchPart, match="it has: a, b"):
        await cases.retry(LOCAL, task_id, "z")


async def test_a_result_that_is_not_there_yet_says_how_the_task_stands(quick: World) -> None:
    task_id = (await quick.submit(ASKED)).task_id
    await quick.waits(task_id)
    for secs in (0.0, 0.05):
        with pytest.raises(TaskNotDone) as told:
            await quick.cases.result(LOCAL, task_id, wait_secs=secs)
        assert told.value.status == "waiting"
    await quick.cases.cancel(LOCAL, task_id)
    assert (await quick.done(task_id)).status == "cancelled"


async def test_what_was_accepted_may_be_said_again_where_its_model_is_not_there_any_more(
    tmp_path: Path,
) -> None:
    """And what is another request under its id is told as that."""
    asked = r.SubmitRequest(task_description="Look at rain", task_id="again")
    model = ScriptedModel({})
    async with Replan(model, db=tmp_path / "t.db") as replan:
        await UseCases(replan.service, replan.serving()).submit(LOCAL, asked)
    async with Replan("openai:none", db=tmp_path / "t.db") as replan:
        cases = UseCases(replan.service, replan.serving())
        again = await cases.submit(LOCAL, asked)
        assert (again.task_id, again.new) == ("again", False)
        with pytest.raises(TaskExists):
            await cases.submit(LOCAL, asked.model_copy(update={"task_description": "Another one"}))
        with pytest.raises(ModelUnavailable):
            await cases.submit(LOCAL, r.SubmitRequest(task_description="A new one"))


async def test_whoever_waits_for_a_task_that_waits_for_a_person_is_told_at_once(there: World) -> None:
    task_id = (await there.submit(ASKED)).task_id
    await there.waits(task_id)
    async with asyncio.timeout(SECS):
        with pytest.raises(TaskNotDone) as told:
            await there.cases.result(LOCAL, task_id, wait_secs=300)
    assert told.value.status == "waiting"
