"""A yes that a plan wants for a call is wanted of later plans and repairs too, however they write the call."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict

from replan.testing import virtual_time

READS: dict[str, Any] = {"effect": "reads"}
ONCE: dict[str, Any] = {"effect": "once"}
GIVEN = plan(step("r", "rate"), step("p", "pay", "r", parameters={"to": "ann"}, requires_approval=True))
REPLAN = {
    "root_cause_category": "tool_error",
    "is_recoverable": True,
    "confidence": 90,
    "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "no rate"}},
}
OVERALL = {
    "problem_nature": "tools",
    "should_replan": True,
    "reflection_text": "pay without the rate",
    "replanning_strategy": {"type": "full_replan"},
}


def replanned(new: dict[str, Any], given: dict[str, Any] = GIVEN, **policy: Any) -> Ran:
    async def main() -> Ran:
        tools = {
            "rate": FakeTool(fail=["no such currency"] * 9, **READS),
            "look": FakeTool(output="seen", **READS),
            "pay": FakeTool(output="paid", spec={"aliases": ("transfer_money",)}, **ONCE),
            "wire": FakeTool(output="wired", **ONCE),
        }
        answers = {
            "step_reflection": REPLAN,
            "overall_reflection": OVERALL,
            "execution_plan": new,
            "evaluation": verdict(),
        }
        ran = await (await bench(tools, answers)).run(given, evaluation="model", **policy)
        return ran.check() if ran.state.ended else ran

    return virtual_time(main())


TO_EVE = {"to": "eve"}


@pytest.mark.parametrize(
    "new",
    [
        step("n", "pay", parameters=TO_EVE),
        step("n", "Pay", parameters=TO_EVE),
        step("n", "transfer_money", parameters=TO_EVE),
        step("n", actions=[action("n1", "pay", to="eve")]),
        step("n", "pay", parameters={"to": "${item}"}, for_each='["eve"]'),
        step("n", "wire", parameters=TO_EVE),
    ],
    ids=["same", "case", "alias", "action", "item", "another tool"],
)
@pytest.mark.parametrize("interactive", [True, False])
def test_a_new_plan_does_not_get_round_the_yes_that_the_old_one_wanted(
    new: dict[str, Any], *, interactive: bool
) -> None:
    ran = replanned(plan(new), interactive=interactive)
    assert not ran.source.counts["pay"]
    assert not ran.source.counts["wire"]
    assert ran.state.status == ("waiting" if interactive else "failed")
    assert bool(ran.events("approval_requested")) == interactive


def test_it_does_not_where_the_old_step_had_actions() -> None:
    given = plan(
        step("r", "rate"), step("p", "", "r", actions=[action("p1", "pay", to="ann")], requires_approval=True)
    )
    ran = replanned(plan(step("n", "pay", parameters=TO_EVE)), given, interactive=True)
    assert not ran.source.counts["pay"]
    assert ran.state.status == "waiting"


def test_what_only_reads_goes_on_unasked() -> None:
    ran = replanned(plan(step("n", "look"), step("m", "pay", "n", parameters=TO_EVE)), interactive=True)
    assert ran.source.counts == {"rate": 1, "look": 1}
    assert [one.tool_id for one in ran.events("approval_requested")] == ["pay"]
