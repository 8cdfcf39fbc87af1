"""An effect that is meant twice stays so where the second has failed, and its step is mended."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
GIFT = {"who": "Ann", "euros": 20}


class Printer:
    """Prints one voucher, and has no paper then until it is refilled, or asked in another way."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.out = False

    def voucher(self, parameters: Any) -> Any:
        if self.given and not self.out:
            self.out = True
            raise ValueError("the printer is out of paper")
        self.given.append(parameters["euros"])
        return {"code": f"V{len(self.given)}"}

    def tools(self) -> dict[str, Any]:
        return {
            "voucher": FakeTool(output=self.voucher, **ONCE),
            "refill": FakeTool(output="full", **ONCE),
            "look": FakeTool(output={"pieces": 3}, **READS),
        }


def again(step_id: str, *needs: str, **fields: Any) -> dict[str, Any]:
    return step(
        step_id, "voucher", *needs, **{"parameters": GIFT, "repeat": True, "repeat_reason": "", **fields}
    )


FIRST = plan(again("a"), again("b", "a"))
REMEDY = {"type": "add_remediation_steps", "step_id": "b", "suggestions": ["refill"], "reason": "paper"}


def run(answers: dict[str, Any], first: Any = FIRST, **more: Any) -> tuple[Ran, list[Any]]:
    printer = Printer()

    async def main() -> Ran:
        plans = [first, *answers.pop("plans", [])]
        told = {"execution_plan": plans, "evaluation": verdict(), "overall_reflection": overall(False)}
        return (await (await bench(printer.tools(), {**told, **answers})).run(**more)).check()

    return virtual_time(main()), printer.given


REPAIR = reflection("repair_step", {"hint": "mend it"}, "tool_error")
UP = reflection("trigger_overall_reflection", {"summary": "there is no paper"}, "decomposition_error")
BY_STEPS_AND_MODEL = pytest.mark.parametrize(
    "way", [{"evaluation": "steps"}, {}], ids=["by steps", "by a model"]
)


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    "mark",
    [{}, {"repeat": True}, {"repeat": True, "repeat_reason": "two are wanted"}, {"repeat": "two are wanted"}],
)
def test_a_step_that_is_meant_again_may_be_rewritten_and_stays_so(
    way: dict[str, Any], mark: dict[str, Any]
) -> None:
    anew = {
        "step_id": "b",
        "tool": "voucher",
        "parameters": {**GIFT, "memo": "x"},
        "dependencies": ["a"],
        **mark,
    }
    ran, given = run({"step_reflection": REPAIR, "step_repair": anew}, **way)
    assert ran.result.is_success
    assert given == [20, 20]
    assert ran.state.plan.steps[1].repeat  # type: ignore[union-attr]


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("mark", [{}, {"repeat": True}])
def test_the_mark_of_a_step_goes_to_the_one_of_its_actions_that_does_the_same(
    way: dict[str, Any], mark: dict[str, Any]
) -> None:
    parts = [action("b1", "refill"), action("b2", "voucher", **GIFT)]
    anew = {"step_id": "b", "actions": parts, "dependencies": ["a"], **mark}
    ran, given = run({"step_reflection": REPAIR, "step_repair": anew}, **way)
    assert ran.result.is_success
    assert given == [20, 20]
    assert [one.repeat for one in ran.state.plan.steps[1].actions] == [False, True]  # type: ignore[union-attr]


def test_a_rewritten_step_does_no_more_than_was_meant() -> None:
    parts = [{**action(f"b{n}", "voucher", **GIFT), "repeat": True} for n in range(2)]
    anew = {"step_id": "b", "actions": parts, "dependencies": ["a"]}
    ran, given = run({"step_reflection": REPAIR, "step_repair": anew})
    assert not ran.result.is_success
    assert given == [20]


def test_a_wrong_reference_of_a_step_that_is_meant_again_is_mended() -> None:
    wrong, right = ({"who": "Ann", "euros": f"${{l.output.{name}}}"} for name in ("count", "pieces"))
    first = plan(step("l", "look"), again("a"), again("b", "a", parameters=wrong))
    anew = {"step_id": "b", "tool": "voucher", "parameters": right, "dependencies": ["a"]}
    ran, given = run({"step_reflection": REPAIR, "step_repair": [anew] * 2}, first)
    assert 20 in given
    assert ran.result.is_success == (given == [20, 3])


def test_items_that_are_meant_again_may_be_rewritten() -> None:
    first = plan(again("a", for_each=["x", "y"]))
    anew = step("a", "voucher", parameters=GIFT, for_each=["x", "y"], allow_failed_items=True)
    ran, given = run({"step_reflection": REPAIR, "step_repair": anew}, first)
    assert ran.result.is_success
    assert given == [20, 20]


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    "new",
    [
        pytest.param([step("r", "refill")], id="not written"),
        pytest.param(
            [step("r", "refill"), step("b", "voucher", "r", parameters=GIFT)], id="written without it"
        ),
        pytest.param([step("r", "refill"), again("b", "r")], id="written with it"),
    ],
)
def test_a_step_that_runs_again_after_a_remedy_needs_no_reason_for_what_was_meant(
    way: dict[str, Any], new: list[Any]
) -> None:
    ran, given = run(
        {
            "step_reflection": UP,
            "overall_reflection": overall(True, replanning_strategy=REMEDY),
            "plans": [plan(*new)],
        },
        **way,
    )
    assert not ran.events("plan_rejected")
    assert ran.result.is_success
    assert given == [20, 20]


def test_a_later_plan_that_means_an_effect_anew_still_says_why() -> None:
    ran, given = run(
        {
            "step_reflection": UP,
            "overall_reflection": [overall(True, replanning_strategy=REMEDY), overall(False)],
            "plans": [plan(step("r", "refill"), again("c", "r"))] * 3,
        }
    )
    assert any("repeat_reason" in text for event in ran.events("plan_rejected") for text in event.violations)
    assert given == [20]
