"""What a family has taken back is no ground for an effect: a task that goes on, or tries a step again, looks at what others have done."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step
from test_run_forks import forked
from test_run_forks_world import World

from replan.core.limits.policy import Policy
from replan.testing import virtual_time


class Shop(World):
    """Payments, and a parcel that can be had or not."""

    has_parcel = False

    def tools(self, effect: str = "once") -> dict[str, FakeTool]:
        schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
        ship = FakeTool(output=self._ship, effect=effect, parameters=schema)  # type: ignore[arg-type]
        hook = FakeTool(output="seen", effect="reads")
        return {**super().tools(), "ship": ship, "look": hook}

    def _ship(self, parameters: dict[str, Any]) -> str:
        if not self.has_parcel:
            raise ValueError("no parcel")
        self.journal.append(("ship", parameters["to"]))
        return "shipped"


PAID_AND_SHIPPED = plan(
    step("pay", "pay", parameters={"to": "x"}),
    step("look", "look", "pay"),
    step("ship", "ship", "look", parameters={"to": "z"}),
)


def only(tool: str, of: str) -> dict[str, Any]:
    return plan(step("f", tool, parameters={"text" if tool == "write" else "to": of}))


async def failed(shop: Shop, effect: str = "once") -> tuple[Bench, str]:
    """A task that has paid, and has found no parcel; by now there is one."""
    made = await bench(shop.tools(effect))
    ran = await made.run(PAID_AND_SHIPPED)
    assert ran.result.status == "failed"
    shop.has_parcel = True
    return made, ran.result.task_id


@pytest.mark.parametrize("effect", ["once", "repeatable"])
def test_a_step_that_is_tried_again_in_a_fork_does_not_rest_on_what_another_fork_took_back(
    effect: str,
) -> None:
    shop = Shop()

    async def main() -> tuple[Ran, Ran]:
        made, task_id = await failed(shop, effect)
        await made.drive(await forked(made, task_id, plan=only("refund", "x")))
        fork = await made.drive(await forked(made, task_id, retry=("ship",)))
        assert ("ship", "z") not in shop.journal
        return fork, await made.drive(await forked(made, fork.result.task_id, retry=("ship",)))

    fork, wanted = virtual_time(main())
    assert fork.result.status == "failed"
    assert "comes after step 'pay' (pay), and step 'f' (refund) of task" in fork.result.reason
    assert wanted.result.is_success, "who was told so has said that it is wanted all the same"
    assert shop.journal == [("pay", "x"), ("refund", "x"), ("ship", "z")]


@pytest.mark.parametrize(("tool", "of"), [("refund", "y"), ("pay", "x"), ("pay", "y"), ("write", "text")])
def test_what_others_have_done_beside_it_is_in_nobodys_way(tool: str, of: str) -> None:
    shop = Shop()

    async def main() -> Ran:
        made, task_id = await failed(shop)
        await made.drive(await forked(made, task_id, plan=only(tool, of)))
        return await made.drive(await forked(made, task_id, retry=("ship",)))

    assert virtual_time(main()).result.is_success
    assert shop.journal[-1] == ("ship", "z")


@pytest.mark.parametrize("who", ["the task itself", "a fork that goes on"])
def test_who_goes_on_after_a_wait_looks_at_what_the_family_took_back(who: str) -> None:
    shop = Shop()
    shop.has_parcel = True
    policy = Policy(evaluation="steps", interactive=True)
    asks = plan(
        step("pay", "pay", parameters={"to": "x"}),
        step("ship", "ship", "pay", parameters={"to": "z"}, requires_approval=True),
    )

    async def main() -> Ran:
        made = await bench(shop.tools())
        ran = await made.run(asks, interactive=True)
        task_id = ran.result.task_id
        assert ran.result.status == "waiting"
        other = await forked(made, task_id, plan=only("refund", "x"), policy=policy)
        await made.drive(other)
        await made.service.resolve_approval(other, approved=True)
        assert (await made.drive(other)).result.is_success
        mine = task_id if who == "the task itself" else await forked(made, task_id)
        waits = (await made.drive(mine)).result.waiting_for
        await made.service.resolve_approval(mine, waits[0].id, approved=True)
        return await made.drive(mine)

    ran = virtual_time(main())
    assert ran.result.status != "succeeded"
    assert "(refund) of task" in str(ran.result.reason) + str(ran.result.waiting_for)
    assert shop.journal == [("pay", "x"), ("refund", "x")]


def test_who_takes_back_by_its_own_plan_too_is_not_in_its_own_way() -> None:
    """Each of the family pays, refunds and ships: the refund of the other is its own."""
    shop = Shop()

    async def main() -> Ran:
        made = await bench(shop.tools())
        wanted = plan(
            step("pay", "pay", parameters={"to": "x"}),
            step("back", "refund", "pay", parameters={"to": "x"}),
            step("ship", "ship", "back", parameters={"to": "z"}),
        )
        ran = await made.run(wanted)
        shop.has_parcel = True
        await made.drive(await forked(made, ran.result.task_id, retry=("ship",)))
        return await made.drive(await forked(made, ran.result.task_id, retry=("ship",)))

    assert virtual_time(main()).result.is_success
    assert shop.journal == [("pay", "x"), ("refund", "x"), ("ship", "z")]


def test_a_plan_that_is_made_anew_in_a_fork_does_not_take_for_done_what_another_fork_took_back() -> None:
    shop = Shop()
    step_reflection = {
        "root_cause_category": "dependency_error", "root_cause": "it was refunded", "is_recoverable": False, "confidence": 0.9,
        "analysis": "x", "suggested_action": {"type": "trigger_overall_reflection", "data": {}},
    }  # fmt: skip
    overall = {
        "problem_nature": "x", "should_replan": True, "reflection_text": "pay and ship", "root_causes": ["refunded"],
        "replanning_strategy": {"type": "full_replan"},
    }  # fmt: skip
    anew = plan(
        step("pay2", "pay", parameters={"to": "x"}), step("ship2", "ship", "pay2", parameters={"to": "z"})
    )
    answers = {
        "step_reflection": step_reflection, "overall_reflection": overall, "execution_plan": anew,
        "evaluation": {"overall_score": 20, "is_successful": False, "dimensions": dict.fromkeys(("completeness", "correctness", "efficiency", "reliability"), 20), "final_output": None},
    }  # fmt: skip

    async def main() -> Ran:
        made = await bench(shop.tools(), answers)
        ran = await made.run(PAID_AND_SHIPPED, evaluation="steps")
        shop.has_parcel = True
        await made.drive(
            await forked(
                made, ran.result.task_id, plan=only("refund", "x"), policy=Policy(evaluation="steps")
            )
        )
        return await made.drive(
            await forked(
                made, ran.result.task_id, retry=("ship",), policy=Policy(evaluation="model", max_loops=2)
            )
        )

    ran = virtual_time(main())
    assert ran.result.status == "failed"
    assert shop.journal == [("pay", "x"), ("refund", "x")]
