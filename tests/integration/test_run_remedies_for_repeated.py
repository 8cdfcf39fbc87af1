"""A step that was not made since its effect is had already gets no remedies: the plan is made anew without it."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_counterparts import END, fields
from test_run_very_call import overall, reflection

from replan.testing import virtual_time


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("unique", [True, False])
def test_the_rest_of_the_task_is_planned_without_it(unique: bool, named: bool) -> None:
    paid: list[str] = []

    def pay(parameters: dict[str, Any]) -> int:
        paid.append(parameters["to"])
        return len(paid)

    tools = {
        "pay": FakeTool(output=pay, effect="once", parameters=fields("to", session={"type": "string"}), spec={"unique_by": ("to",)} if unique else {}),
        "find": FakeTool(output="Ann", effect="reads", spec={"volatile": True}),
        "open": FakeTool(effect="repeatable"),
    }  # fmt: skip
    mends = [
        overall(type="full_replan"),
        overall(type="add_remediation_steps", **({"step_id": "q"} if named else {})),
    ]
    answers = {
        "execution_plan": [
            plan(step("p", "pay", parameters={"to": "Ann", "session": "s1"})),
            plan(step("f", "find"), step("q", "pay", "f", parameters={"to": "${f.output}", "session": "s2"}), step("o", "open")),
            plan(step("c", "pay", parameters={"to": "Cy"})),
        ],
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
        "overall_reflection": [*mends, overall(type="full_replan"), END, END],
        "evaluation": lambda request: verdict(95.0 if "Cy" in paid else 40.0),
    }  # fmt: skip

    async def main() -> Ran:
        return (await (await bench(tools, answers)).run(max_rounds=4)).check()

    ran = virtual_time(main())
    assert not ran.events("plan_rejected")
    assert ran.result.is_success, ran.result.reason
    assert paid == ["Ann", "Cy"]
