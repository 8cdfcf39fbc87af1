"""What tenants may use, on both stores: tasks at a time, submits in a time, and what a task and a day may cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from access_world import PLAIN, STORES, World, database, world
from run_tasks import plan, step, verdict

from replan.config.sections import Limits
from replan.core.events import LlmCallCompleted, TaskCompleted, TaskSubmitted
from replan.core.types import Usage
from replan.errors import Overtaken, TooMany
from replan.ports import Counted, Price
from replan.run.access import requests as r
from replan.run.access.callers import Caller
from replan.run.access.tenants.limits import Quotas
from replan.run.access.tenants.spending import DAY, FRESH_SECS, Spending
from replan.run.access.use_cases import UseCases
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio

ANN, BOB = Caller("key:ann", "acme"), Caller("key:bob", "globex")
HOLD = plan(step("a", "hold"))


class Time:
    """A clock of the test's."""

    def __init__(self) -> None:
        self.at = 20_000 * DAY + 3_600

    def now(self) -> float:
        return self.at

    def __call__(self) -> float:
        return self.at

    async def sleep(self, secs: float) -> None:
        await asyncio.sleep(secs)


@pytest.fixture(params=STORES)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    return database(request.param, tmp_path, request.getfixturevalue)


@asynccontextmanager
async def limited(db: str | Path, model: Any = None, **limits: Any) -> AsyncIterator[tuple[World, Time]]:
    async with world(db, model=model) as there:
        time = Time()
        there.replan.service.parts.clock = time  # the day is the test's
        quotas = Quotas(Limits(**limits), there.replan.service, monotonic=time)
        yield there._replace(cases=UseCases(there.replan.service, there.replan.serving(), quotas)), time


async def refused(work: Any) -> TooMany:
    with pytest.raises(TooMany) as caught:
        await work
    assert caught.value.retry_after is not None
    return caught.value


async def test_a_tenant_has_so_many_unfinished_tasks_and_no_more(db: str | Path) -> None:
    async with limited(db, max_unfinished_tasks=2) as (there, _):
        first = await there.submit(HOLD, ANN, task_id="first")
        await there.submit(HOLD, ANN)
        assert "2 unfinished" in str(await refused(there.submit(HOLD, ANN)))
        assert "2 unfinished" in str(await refused(there.cases.fork(ANN, "first", r.ForkRequest(hint="x"))))
        assert not (await there.submit(HOLD, ANN, task_id="first")).new
        await there.submit(HOLD, BOB)
        there.source.let_go.set()
        await there.done(first.task_id, ANN)
        await there.submit(PLAIN, ANN)


async def test_of_many_at_once_no_more_get_in_than_there_is_room_for(db: str | Path) -> None:
    async with limited(db, max_unfinished_tasks=3) as (there, _):
        came = await asyncio.gather(*(there.submit(HOLD, ANN) for _ in range(20)), return_exceptions=True)
        stored = [one for one in came if not isinstance(one, BaseException)]
        assert 1 <= len(stored) <= 3
        assert all(isinstance(one, TooMany) for one in came if isinstance(one, BaseException))
        assert len((await there.cases.tasks(ANN)).items) == len(stored)
        while len(stored) < 3:
            stored.append(await there.submit(HOLD, ANN))
        await refused(there.submit(HOLD, ANN))


async def test_a_limit_of_none_at_all_lets_nobody_in(tmp_path: Path) -> None:
    async with limited(tmp_path / "log.db", max_unfinished_tasks=0) as (there, _):
        await refused(there.submit(PLAIN, ANN))


async def test_the_rate_is_of_each_tenant_and_says_when_to_come_again(tmp_path: Path) -> None:
    async with limited(tmp_path / "log.db", submits="2/minute") as (there, time):
        first = await there.submit(PLAIN, ANN, task_id="first")
        await there.submit(PLAIN, ANN)
        assert (await refused(there.submit(PLAIN, ANN))).retry_after == pytest.approx(30)
        request = r.SubmitRequest(task_description="x", options=r.SubmitOptions(plan=PLAIN))
        await refused(there.cases.preview(ANN, request))
        assert (await there.submit(PLAIN, ANN, task_id="first")).task_id == first.task_id
        await there.submit(PLAIN, BOB)
        time.at += 30
        await there.submit(PLAIN, ANN)


async def test_a_task_gets_no_more_than_its_tenant_may_use_for_one(tmp_path: Path) -> None:
    async with limited(tmp_path / "log.db", max_tokens_per_task=100, max_cost_usd_per_task=0.5) as (there, _):
        for asked, gets in ((None, 100), (1_000, 100), (50, 50)):
            options = r.SubmitOptions(plan=PLAIN, evaluation="steps", max_tokens=asked)
            request = r.SubmitRequest(task_description="x", options=options)
            made = await there.cases.submit(ANN, request, idempotency_key=f"for {asked}")
            assert not (await there.cases.submit(ANN, request, idempotency_key=f"for {asked}")).new
            budget = (await there.replan.service.state(made.task_id)).policy.budget
            assert (budget.max_tokens, budget.max_cost_usd) == (gets, 0.5)
        await there.done(made.task_id, ANN)
        forked = await there.cases.fork(
            ANN, made.task_id, r.ForkRequest(options=r.SubmitOptions(max_tokens=10**9), judge=True)
        )
        assert (await there.replan.service.state(forked.task_id)).policy.budget.max_tokens == 50


def judged() -> ScriptedModel:
    """Costs a dollar for each token that it says."""
    return ScriptedModel({"evaluation": [verdict()] * 20}, price=Price(input=0, output=1_000_000))


async def by_model(there: World, caller: Caller, **more: Any) -> Any:
    options = r.SubmitOptions(plan=PLAIN, evaluation="model", **more)
    made = await there.cases.submit(caller, r.SubmitRequest(task_description="x", options=options))
    return await there.done(made.task_id, caller)


@pytest.mark.parametrize("what", ["max_cost_usd_per_day", "max_tokens_per_day"])
async def test_what_a_day_has_used_counts_and_the_next_begins_anew(db: str | Path, what: str) -> None:
    async with limited(db, judged(), **{what: 1}) as (there, time):
        result = await by_model(there, ANN)
        assert result.succeeded
        assert result.usage.cost_usd > 1
        time.at += FRESH_SECS
        error = await refused(by_model(there, ANN))
        assert error.retry_after == pytest.approx(DAY - time.at % DAY)
        await refused(there.cases.fork(ANN, result.task_id, r.ForkRequest(hint="x")))
        await refused(
            there.cases.preview(
                ANN, r.SubmitRequest(task_description="x", options=r.SubmitOptions(plan=PLAIN))
            )
        )
        await by_model(there, BOB)
        time.at += error.retry_after or 0
        await by_model(there, ANN)


async def test_tasks_one_after_the_other_pass_a_day_by_one_of_them_at_most(db: str | Path) -> None:
    async with limited(db, judged(), max_tokens_per_day=10**6) as (there, time):
        each = (await by_model(there, ANN)).usage
        most = 2 * (each.input_tokens + each.output_tokens)
    async with limited(db, judged(), max_tokens_per_day=most) as (there, time):
        await by_model(there, ANN)
        time.at += FRESH_SECS / 2
        await refused(by_model(there, ANN))


async def test_unfinished_tasks_with_a_budget_hold_what_they_may_still_use(db: str | Path) -> None:
    async with limited(db, max_tokens_per_day=100, max_tokens_per_task=40) as (there, time):
        for _ in range(2):
            await there.submit(HOLD, ANN)
        assert "may use 120 more" in str(await refused(there.submit(HOLD, ANN)))
        time.at += FRESH_SECS  # now counted from their logs
        assert "may use 120 more" in str(await refused(there.submit(HOLD, ANN)))
        options = r.SubmitOptions(plan=HOLD, evaluation="steps", max_tokens=20)
        await there.cases.submit(ANN, r.SubmitRequest(task_description="less", options=options))
        there.source.let_go.set()
        for row in (await there.cases.tasks(ANN)).items:
            await there.done(row.task_id, ANN)
        await asyncio.sleep(0)


async def test_tasks_that_end_give_back_what_they_did_not_use(tmp_path: Path) -> None:
    async with limited(tmp_path / "log.db", max_tokens_per_day=100, max_tokens_per_task=100) as (there, time):
        first = await there.submit(HOLD, ANN)
        await refused(there.submit(PLAIN, ANN))
        there.source.let_go.set()
        await there.done(first.task_id, ANN)
        time.at += FRESH_SECS
        await there.submit(PLAIN, ANN)


async def test_what_is_counted_is_what_the_states_of_the_tasks_say(tmp_path: Path) -> None:
    async with limited(tmp_path / "log.db", judged(), max_tokens_per_day=10**9) as (there, time):
        results = [await by_model(there, ANN) for _ in range(3)]
        forked = await there.cases.fork(ANN, results[0].task_id, r.ForkRequest(judge=True))
        await there.done(forked.task_id, ANN)
        await there.submit(HOLD, ANN)
        states = [
            await there.replan.service.state(row.task_id) for row in (await there.cases.tasks(ANN)).items
        ]
        wanted = sum(state.usage.input_tokens + state.usage.output_tokens for state in states)
        dollars = sum(state.usage.cost_usd for state in states)
        for _ in range(2):
            spending = Spending(there.replan.service)
            for _ in range(2):  # from the beginning, and brought up to date
                day = await spending.today("acme")
                assert day.used.tokens == wanted > 0
                assert day.used.cost_usd == pytest.approx(dollars)
                time.at += FRESH_SECS
        there.source.let_go.set()


async def test_a_fork_without_a_budget_of_its_own_holds_what_its_history_leaves(db: str | Path) -> None:
    async with limited(db) as (there, _):
        options = r.SubmitOptions(plan=PLAIN, evaluation="steps", max_tokens=40)
        made = await there.cases.submit(ANN, r.SubmitRequest(task_description="x", options=options))
        await there.done(made.task_id, ANN)
        await there.cases.fork(ANN, made.task_id, r.ForkRequest(plan=HOLD))
        assert (await Spending(there.replan.service).today("acme")).held.tokens == 40
        there.source.let_go.set()


async def test_many_tasks_of_a_day_are_all_counted_whichever_have_ended(tmp_path: Path) -> None:
    async with limited(tmp_path / "log.db") as (there, time):
        store, spending = there.replan.service.parts.store, Spending(there.replan.service)
        asked = LlmCallCompleted(call_id="c", role="evaluator", model="m", usage=Usage(input_tokens=1))
        wanted = 0
        for more in (260, 3, 250):
            wanted += more
            for number in range(more):
                name = f"t{more}-{number}"
                await store.create(name, TaskSubmitted(description="x", tenant=ANN.tenant), time.now())
                claim = await store.claim(name)
                await store.append(
                    claim, [asked, *([TaskCompleted()] if number % 4 else [])], ts=time.now(), round=1
                )
                await store.release(claim)
            time.at += FRESH_SECS
            assert (await spending.today(ANN.tenant)).used.tokens == wanted


@pytest.mark.parametrize(
    ("limits", "asked", "most"),
    [
        ({"max_unfinished_tasks": 5}, {}, 5),
        ({"max_cost_usd_per_day": 2.0, "max_cost_usd_per_task": 0.5}, {}, 4),
        ({"max_tokens_per_day": 100}, {"max_tokens": 20}, 5),
    ],
)
async def test_services_on_one_store_let_in_no_more_than_one_would(
    db: str | Path, limits: dict[str, Any], asked: dict[str, Any], most: int
) -> None:
    async with limited(db, **limits) as (one, _), limited(db, **limits) as (two, _):
        request = r.SubmitRequest(
            task_description="do it", options=r.SubmitOptions(plan=HOLD, evaluation="steps", **asked)
        )
        every = [there.cases.submit(ANN, request) for _ in range(20) for there in (one, two)]
        ends = await asyncio.gather(*every, return_exceptions=True)
        let_in = [end for end in ends if not isinstance(end, BaseException)]
        assert len(let_in) == most
        assert all(isinstance(end, TooMany) for end in ends if isinstance(end, BaseException))
        for there in (one, two):
            there.source.let_go.set()
        await asyncio.gather(*(one.done(made.task_id, ANN) for made in let_in))


async def test_a_count_that_another_process_has_overtaken_lets_in_nobody(db: str | Path) -> None:
    async with world(db) as one, world(db) as two:
        first, second = (there.replan.service.parts.store for there in (one, two))
        event = TaskSubmitted(description="x", tenant="acme")
        by = Counted("acme", await first.let_in("acme"))
        assert await first.create("a", event, 1.0, turn=by)
        assert await first.create("b", event, 1.0, turn=by)  # its own do not count against it
        with pytest.raises(Overtaken):
            await second.create("c", event, 1.0, turn=by)
        assert not await second.create("b", event, 1.0, turn=by)  # the same is there
        assert await second.create("c", event, 1.0, turn=Counted("acme", await second.let_in("acme")))
        with pytest.raises(Overtaken):
            await first.create("d", event, 1.0, turn=by)
        assert await first.create("d", event, 1.0)
        assert await first.count_tasks("acme") == 4
        assert await first.create(
            "e", event.model_copy(update={"tenant": "globex"}), 1.0, turn=Counted("globex", 0)
        )


async def test_a_request_is_the_same_after_what_its_tenant_may_use_for_a_task_has_changed(
    db: str | Path,
) -> None:
    request = r.SubmitRequest(
        task_description="do it", options=r.SubmitOptions(plan=PLAIN, evaluation="steps", max_tokens=900)
    )
    for limits in ({"max_tokens_per_task": 100}, {"max_tokens_per_task": 50}, {}):
        async with limited(db, **limits) as (there, _):
            made = await there.cases.submit(ANN, request, idempotency_key="k")
            state = await there.replan.service.state(made.task_id)
            assert state.policy.budget.max_tokens == 100
            assert made.new is ("max_tokens_per_task" in limits and limits["max_tokens_per_task"] == 100)
            await there.done(made.task_id, ANN)


async def test_what_was_stored_without_what_was_asked_for_is_known_again(tmp_path: Path) -> None:
    options = r.SubmitOptions(plan=PLAIN, evaluation="steps", max_tokens=900)
    request = r.SubmitRequest(task_description="do it", task_id="acme:old", options=options)
    async with limited(tmp_path / "log.db", max_tokens_per_task=100) as (there, _):
        lower = request.model_copy(update={"options": options.model_copy(update={"max_tokens": 100})})
        stored = await there.replan.serving().request(lower, tenant="acme", by="key:ann")
        await there.replan.service.submit(stored)
        assert not (await there.cases.submit(ANN, request)).new
