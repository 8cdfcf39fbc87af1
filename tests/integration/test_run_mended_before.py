"""A later plan that writes a call as it was first written, which failed then and was made in other words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
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


def pays(name: str, shape: str, cents: int = 500, who: str = "Ann", **more: Any) -> dict[str, Any]:
    if shape == "list":
        return step(name, "pay", parameters={"to": "${item}", "cents": cents}, for_each=f'["{who}"]', **more)
    if shape == "actions":
        return step(name, actions=[action(f"{name}1", "pay", to=who, cents=cents)], **more)
    return step(name, "pay", parameters={"to": who, "cents": cents}, **more)


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
            "who": FakeTool(output="Ann", effect="reads"),
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


def then(shape: str, cents: int = 500, *, by_name: bool = False, **more: Any) -> dict[str, Any]:
    """`by_name`: whom it pays is in the plan, so that it is known before it runs."""
    who = "Ann" if by_name else "${w.output}"
    return plan(step("w", "who"), pays("q", shape, cents, who, **more), tells("m2", "chief", "q"))


@pytest.mark.parametrize("shape", ["step", "list", "actions"])
def test_the_first_words_of_a_call_that_was_corrected_are_told_with_the_plan(shape: str) -> None:
    bank = Bank(always=False)
    left_out = plan(tells("m2", "chief"))
    ran = run(bank, [first(shape), then(shape, by_name=True), left_out], [FIX, REPLAN])
    assert bank.paid == [400]
    (refused,) = ran.events("plan_rejected")
    assert "step 'p' has meant this very call of 'pay' already" in refused.violations[0]
    assert '"cents": 400' in refused.violations[0]
    assert ran.result.is_success


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


SHUT = ("Bob", "Cid")


def opens_later() -> tuple[list[str], Callable[[Any], Any]]:
    """Who was paid, and what pays: those of `SHUT` at the second try only."""
    paid: list[str] = []
    tries: list[str] = []

    def pay(parameters: Any) -> Any:
        tries.append(parameters["to"])
        if parameters["to"] in SHUT and tries.count(parameters["to"]) == 1:
            raise ToolCallError(f"{parameters['to']} is shut today", kind="tool")
        paid.append(parameters["to"])
        return {"id": len(paid)}

    return paid, pay


async def by_three_plans(tools: dict[str, FakeTool], plans: list[dict[str, Any]]) -> Ran:
    answers = {
        "execution_plan": plans,
        "step_reflection": [REPLAN] * 9,
        "overall_reflection": [overall(type="full_replan")] * 3,
    }
    return (await (await bench(tools, answers)).run(evaluation="steps", max_rounds=3)).check()


def of_each(name: str, shape: str, *whom: str, **more: Any) -> list[dict[str, Any]]:
    if shape == "list":
        words = {"to": "${item}", "cents": 5}
        return [step(name, "pay", parameters=words, for_each=json.dumps(whom), **more)]
    if shape == "actions":
        return [step(name, actions=[action(f"{name}{who}", "pay", to=who, cents=5) for who in whom], **more)]
    return [step(f"{name}{who}", "pay", parameters={"to": who, "cents": 5}, **more) for who in whom]


@pytest.mark.parametrize("known", [True, False], ids=["told with the plan", "told as it is called"])
@pytest.mark.parametrize("shape", ["steps", "list", "actions"])
@pytest.mark.parametrize("instead", ["steps", "list", "actions"])
@pytest.mark.parametrize("before", ["steps", "list", "actions"])
def test_what_failed_and_was_left_out_while_others_were_made_is_asked_about(
    before: str, instead: str, shape: str, *, known: bool
) -> None:
    """Which of them was made in place of which, nobody has said; so none of the first is made unasked."""
    paid, pay = opens_later()

    def tell(parameters: Any) -> str:
        raise ToolCallError("the box is full", kind="tool")

    def named(who: str) -> str:
        return who if known else f"${{who.output.{who}}}"

    again = [step("who", "who"), *of_each("x", shape, *map(named, SHUT))]
    for one in again[1:]:
        one["step_id"] = re.sub(r"\W", "", one["step_id"])
        for at, act in enumerate(one.get("actions") or ()):
            act["action_id"] = f"x_{at}"
    plans = [
        plan(*of_each("p", before, *SHUT)),
        plan(
            *of_each("q", instead, "Cid2", "Bob2"),
            step("m", "tell", parameters={"to": "boss"}, dependencies=_ids("q", instead)),
        ),
        plan(*again),
    ]

    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output=pay, effect="once", parameters=PAY),
            "tell": FakeTool(output=tell, effect="once"),
            "who": FakeTool(output={who: who for who in SHUT}, effect="reads"),
        }
        return await by_three_plans(tools, plans)

    ran = virtual_time(main())
    assert sorted(paid) == ["Bob2", "Cid2"]
    told = [text for one in ran.events("plan_rejected") for text in one.violations]
    told += [one.error.message for one in ran.events("step_reflected")]
    assert any("since then step 'q" in text for text in told)
    assert not ran.result.is_success


def _ids(name: str, shape: str) -> list[str]:
    return [name] if shape != "steps" else [f"{name}Cid2", f"{name}Bob2"]


def test_what_failed_is_made_in_a_later_plan_where_nothing_was_made_in_its_place() -> None:
    """The rest of a list that a later plan has gone on with is nothing else than what was planned."""
    paid, pay = opens_later()

    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output=pay, effect="once", parameters=PAY),
            "tell": FakeTool(output=Bank(always=True).tell, effect="once"),
        }
        plans = [
            plan(*of_each("p", "list", "Ann", *SHUT)),
            plan(*of_each("q", "steps", "Bob"), tells("m", "boss", "qBob")),
            plan(*of_each("x", "steps", "Cid"), tells("m2", "chief")),
        ]
        return await by_three_plans(tools, plans)

    ran = virtual_time(main())
    assert paid == ["Ann", "Bob", "Cid"]
    assert not ran.events("plan_rejected")
    assert ran.result.is_success
