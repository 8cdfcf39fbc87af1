"""A later plan that writes a call as it was first written, which failed then and was made in other words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict
from test_run_very_call import REPLAN, overall, reflection

from replan.errors import ToolCallError
from replan.testing import virtual_time

PAY = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["to", "cents"],
}
FIX = reflection("retry_with_params", {"cents": 400})
REPAIR = reflection("repair_step", {"hint": "400"})
WIRE = {
    **reflection("retry_with_tool", {"tool_id": "wire", "parameters": {"to": "Ann", "cents": 500}}),
    "root_cause_category": "tool_error",
}
END = {"problem_nature": "external", "should_replan": False, "reflection_text": "x"}


class Bank:
    """Pays at most 400, or that of the first payment only; tells nobody but the chief."""

    def __init__(self, *, always: bool) -> None:
        self.always = always
        self.tries = 0
        self.paid: list[int] = []

    def pay(self, parameters: dict[str, Any]) -> dict[str, int]:
        self.tries += 1
        if parameters["cents"] > 400 and (self.always or self.tries == 1):
            raise ToolCallError("at most 400 at this hour", kind="tool")
        return self.wire(parameters)

    def wire(self, parameters: dict[str, Any]) -> dict[str, int]:
        self.paid.append(parameters["cents"])
        return {"id": len(self.paid)}

    def tell(self, parameters: dict[str, Any]) -> str:
        if parameters["to"] != "chief":
            raise ToolCallError("the box is full", kind="tool")
        return "told"


def pays(name: str, shape: str, cents: int = 500, **more: Any) -> dict[str, Any]:
    if shape == "list":
        return step(name, "pay", parameters={"to": "${item}", "cents": cents}, for_each='["Ann"]', **more)
    if shape == "actions":
        return step(name, actions=[action(f"{name}1", "pay", to="Ann", cents=cents)], **more)
    return step(name, "pay", parameters={"to": "Ann", "cents": cents}, **more)


def tells(name: str, to: str, *needs: str) -> dict[str, Any]:
    return step(name, "tell", *needs, parameters={"to": to})


def run(
    bank: Bank,
    plans: Sequence[dict[str, Any]],
    reflected: Sequence[dict[str, Any]],
    strategy: dict[str, Any] | None = None,
    *,
    by: str = "steps",
    repaired: Sequence[dict[str, Any]] = (),
) -> Ran:
    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output=bank.pay, effect="once", parameters=PAY),
            "wire": FakeTool(output=bank.wire, effect="once", parameters=PAY),
            "tell": FakeTool(output=bank.tell, effect="once"),
        }
        rounds = [strategy or overall(type="full_replan"), *[overall(type="full_replan")] * (len(plans) - 2)]
        answers = {
            "execution_plan": list(plans),
            "step_reflection": list(reflected),
            "overall_reflection": [*rounds, END],
            "evaluation": verdict(),
            **({"step_repair": list(repaired)} if repaired else {}),
        }
        return (await (await bench(tools, answers)).run(evaluation=by)).check()

    return virtual_time(main())


def first(shape: str) -> dict[str, Any]:
    return plan(pays("p", shape), tells("m", "boss", "p"))


def then(shape: str, cents: int = 500, **more: Any) -> dict[str, Any]:
    return plan(pays("q", shape, cents, **more), tells("m2", "chief", "q"))


@pytest.mark.parametrize("by", ["steps", "model"])
@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("shape", ["step", "list", "actions"])
def test_the_first_words_of_a_call_that_was_corrected_make_no_second_effect(
    shape: str, by: str, *, always: bool
) -> None:
    bank = Bank(always=always)
    ran = run(bank, [first(shape), then(shape)], [FIX, REPLAN, FIX], by=by)
    assert bank.paid == [400]
    faults = [one.error for one in ran.events("step_reflected") if one.step_id == "q"]
    assert {one.kind for one in faults} == {"repeated"}
    assert "step 'p' has meant this very call of 'pay' already" in faults[0].message
    assert "at most 400 at this hour" in faults[0].message
    assert '"cents": 400' in faults[0].message
    assert ran.result.is_success


@pytest.mark.parametrize("strategy", ["full_replan", "replan_from_step", "add_remediation_steps"])
@pytest.mark.parametrize(("fix", "made"), [(FIX, 400), (REPAIR, 400), (WIRE, 500)])
def test_nor_do_they_however_it_was_mended_and_the_plan_made_anew(
    fix: dict[str, Any], made: int, strategy: str
) -> None:
    bank = Bank(always=False)
    anew = overall(type=strategy, step_id="m", reason="x", suggestions=["pay"])
    ran = run(
        bank, [first("step"), then("step")], [fix, REPLAN, REPLAN], anew, repaired=[pays("p", "step", 400)]
    )
    assert bank.paid == [made]
    assert ran.events("step_reflected")[-1].error.kind == "repeated"


@pytest.mark.parametrize("by", ["steps", "model"])
@pytest.mark.parametrize("shape", ["step", "list", "actions"])
def test_what_is_refused_so_may_be_left_out_as_it_is_told(shape: str, by: str) -> None:
    bank = Bank(always=False)
    plans = [first(shape), then(shape), plan(tells("m3", "chief"))]
    ran = run(bank, plans, [FIX, REPLAN, REPLAN], by=by)
    assert bank.paid == [400]
    assert ran.result.is_success


def test_a_second_effect_that_is_meant_is_made() -> None:
    bank = Bank(always=False)
    again = then("step", repeat=True, repeat_reason="a second one is due")
    ran = run(bank, [first("step"), again], [FIX, REPLAN, REPLAN])
    assert bank.paid == [400, 500]
    assert ran.result.is_success


def test_other_words_are_another_call() -> None:
    bank = Bank(always=False)
    ran = run(bank, [first("step"), then("step", 300)], [FIX, REPLAN])
    assert bank.paid == [400, 300]
    assert ran.result.is_success


def test_a_call_that_nobody_has_mended_may_be_made_as_it_was_written() -> None:
    bank = Bank(always=False)
    ran = run(bank, [first("step"), then("step")], [REPLAN, REPLAN])
    assert bank.paid == [500]
    assert ran.result.is_success


@pytest.mark.parametrize("by", ["steps", "model"])
@pytest.mark.parametrize("strategy", ["full_replan", "replan_from_step"])
def test_another_call_that_is_corrected_to_a_done_one_has_had_no_effect_of_its_own(
    strategy: str, by: str
) -> None:
    bank = Bank(always=True)
    anew = overall(type=strategy, step_id="m", reason="x")
    ran = run(bank, [first("step"), then("step", 900)], [FIX, REPLAN, FIX, REPLAN], anew, by=by)
    assert bank.paid == [400]
    assert not ran.result.is_success


@pytest.mark.parametrize("by", ["steps", "model"])
def test_of_two_that_were_planned_alike_the_one_that_was_not_mended_may_still_be(by: str) -> None:
    bank = Bank(always=True)

    def two(name: str) -> dict[str, Any]:
        return step(name, "pay", parameters={"to": "${item}", "cents": 500}, for_each='["Ann", "Ann"]')

    ran = run(bank, [plan(two("p")), plan(two("q"))], [FIX, REPLAN, FIX, FIX], by=by)
    assert bank.paid == [400, 400]
    assert ran.result.is_success
