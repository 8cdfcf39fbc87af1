"""What uses something and is no new row of a submit: dry runs within their tenant's limits, forks within the queue's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from access_world import PLAIN, world
from run_tasks import plan, step

from replan.config import Settings
from replan.config.sections import Limits
from replan.core.types import JsonObject
from replan.errors import InputError, ModelError, PlanInvalid, TooMany
from replan.ports import Price
from replan.run.access import requests as r
from replan.run.access.callers import LOCAL, Caller
from replan.run.access.tenants.limits import Quotas
from replan.run.access.use_cases import UseCases
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio
ANN, BOB = Caller("key:ann", "acme"), Caller("key:bob", "globex")
WRONG: JsonObject = plan(step("a", "there_is_no_such_tool"))
DRY = r.SubmitRequest(task_description="x", options=r.SubmitOptions(evaluation="steps"))


def planner(*answers: Any) -> ScriptedModel:
    """Costs a dollar for each token that it says."""
    return ScriptedModel({"execution_plan": list(answers)}, price=Price(input=0, output=1_000_000))


@pytest.mark.parametrize("limit", ["max_tokens_per_day", "max_cost_usd_per_day"])
@pytest.mark.parametrize("answers", [[PLAIN], [WRONG] * 9], ids=["a plan", "no plan"])
async def test_what_a_dry_run_has_used_counts_for_the_day(
    tmp_path: Path, limit: str, answers: list[JsonObject]
) -> None:
    async with world(tmp_path / "log.db", model=planner(*answers)) as there:
        quotas = Quotas(Limits(**{limit: 1}), there.replan.service)
        cases = UseCases(there.replan.service, there.replan.serving(), quotas)
        try:
            seen = await cases.preview(ANN, DRY)
        except (PlanInvalid, ModelError):
            assert answers[0] is WRONG
        else:
            assert seen.usage.cost_usd > 1
        for again in (cases.preview(ANN, DRY), cases.submit(ANN, DRY)):
            with pytest.raises(TooMany, match="next day"):
                await again
        await cases.submit(BOB, r.SubmitRequest(task_description="x", options=r.SubmitOptions(plan=PLAIN)))


async def test_a_dry_run_gets_no_more_than_its_tenant_may_use_for_a_task(tmp_path: Path) -> None:
    async with world(tmp_path / "log.db", model=planner(*[WRONG] * 9)) as there:
        quotas = Quotas(Limits(max_tokens_per_task=1), there.replan.service)
        cases = UseCases(there.replan.service, there.replan.serving(), quotas)
        with pytest.raises(InputError, match="the budget max_tokens = 1 allows no planning"):
            await cases.preview(ANN, DRY)


async def test_forks_wait_for_a_place_as_other_tasks_do(tmp_path: Path) -> None:
    wanted = {"server": {"max_queued_tasks": 2}, "orchestrator": {"max_concurrent_tasks": 1}}
    settings = Settings.model_validate(wanted)
    async with world(tmp_path / "log.db", settings=settings) as there:
        first = await there.submit(plan(step("a", "hold")))
        await there.source.entered.wait()
        came = await asyncio.gather(
            *(there.cases.fork(LOCAL, first.task_id, r.ForkRequest(at=2, task_id=f"f{n}")) for n in range(8)),
            return_exceptions=True,
        )
        refused = [one for one in came if isinstance(one, TooMany)]
        assert len(came) - len(refused) == 2
        assert refused[0].retry_after
        known = next(n for n, one in enumerate(came) if not isinstance(one, BaseException))
        again = await there.cases.fork(LOCAL, first.task_id, r.ForkRequest(at=2, task_id=f"f{known}"))
        assert not again.new
        there.source.let_go.set()
