"""A later plan that writes a done call word for word: what fills its parameters from the metadata may have changed since."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step
from test_run_recovery import READS

from replan.errors import ToolCallError
from replan.testing import virtual_time

PAY = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "account": {"type": "string"}},
    "required": ["to", "account"],
}


def refused(parameters: Any) -> Any:
    raise ToolCallError("nothing there", kind="tool")


def run(again: dict[str, Any], picked: str = "A2", **more: Any) -> Ran:
    tools = {
        "pay": FakeTool(output={"id": 1}, effect="once", parameters=PAY),
        "pick": FakeTool(output={"account": picked}, effect="reads", spec={"output_params": ("account",)}),
        "look": FakeTool(output=refused, **READS),
    }
    first = plan(step("p", "pay", parameters={"to": "Ann"}), step("k", "pick", "p"), step("l", "look", "k"))
    answers = {
        "execution_plan": [first, plan(step("q", "pay", parameters=again, **more))],
        "step_reflection": {
            "root_cause_category": "tool_error",
            "is_recoverable": True,
            "confidence": 90,
            "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "no"}},
        },
        "overall_reflection": {
            "problem_nature": "tools",
            "should_replan": True,
            "reflection_text": "again",
            "replanning_strategy": {"type": "full_replan", "reason": "it helps"},
        },
    }

    async def main() -> Ran:
        one = await bench(tools, answers)
        return (await one.run(metadata={"account": "A1"}, evaluation="steps", max_rounds=2)).check()

    return virtual_time(main())


def test_what_the_metadata_have_become_makes_no_second_effect() -> None:
    ran = run({"to": "Ann"})
    assert ran.source.counts["pay"] == 1
    assert not ran.result.is_success
    faults = [one.error for one in ran.events("step_reflected") if one.step_id == "q"]
    assert {one.kind for one in faults} == {"repeated"}
    assert "account of the metadata had another value then" in faults[0].message


@pytest.mark.parametrize(
    ("again", "picked", "more", "payments"),
    [
        pytest.param({"to": "Ann"}, "A1", {}, 1, id="the value has not changed: the ledger has it"),
        pytest.param({"to": "Ann", "account": "A1"}, "A2", {}, 1, id="the old value, said"),
        pytest.param({"to": "Ann", "account": "A2"}, "A2", {}, 2, id="the new value, said"),
        pytest.param({"to": "Bob"}, "A2", {}, 2, id="other words"),
        pytest.param(
            {"to": "Ann"}, "A2", {"repeat": True, "repeat_reason": "twice"}, 2, id="it says that it is meant"
        ),
    ],
)
def test_what_says_which_effect_it_means_has_it(
    again: dict[str, Any], picked: str, more: dict[str, Any], payments: int
) -> None:
    ran = run(again, picked, **more)
    assert ran.source.counts["pay"] == payments
    assert ran.statuses()["q"] == "succeeded"
