"""An effect that another tool has had in place of the planned one is no success without a word: a declaration, a person, or the judge."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
PAY = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
TRANSFER = {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]}
BOB = {"to": "Bob"}
THERE = {"iban": "BOB"}
FIRST = plan(step("p", "pay", parameters=BOB))
GIVE_UP = reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error")
ANEW = overall(True, "tools", replanning_strategy={"type": "full_replan"})

WAYS: dict[str, dict[str, Any]] = {
    "another tool": {
        "step_reflection": reflection("retry_with_tool", {"tool_id": "transfer", "parameters": THERE}, "tool_error")
    },
    "the step written anew": {
        "step_reflection": reflection("repair_step", {"hint": "transfer it"}, "tool_error"),
        "step_repair": step("p", "transfer", parameters=THERE),
    },
    "the step written anew as actions": {
        "step_reflection": reflection("repair_step", {"hint": "transfer it"}, "tool_error"),
        "step_repair": {**step("p"), "actions": [action("p1", "transfer", **THERE), action("p2", "note")]},
    },
}  # fmt: skip
IN_A_NEW_PLAN: dict[str, Any] = {
    "execution_plan": [FIRST, plan(step("q", "transfer", parameters=THERE))],
    "step_reflection": GIVE_UP,
}
IN_PLACE = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def tools(pays: Any = "no funds", **spec: Any) -> dict[str, Any]:
    return {
        "pay": FakeTool(output="paid", parameters=PAY, fail=[pays] * 9, spec=spec, **ONCE),
        "transfer": FakeTool(output="sent", parameters=TRANSFER, **ONCE),
        "note": FakeTool(output="noted", effect="repeatable"),
        "look": FakeTool(output="seen", **READS),
    }


def run(answers: dict[str, Any], *said: Any, spec: Any = None, **policy: Any) -> Ran:
    async def main() -> Ran:
        judged = [{**verdict(), "left_out_effects": one} for one in said] or verdict()
        scripted = {
            "execution_plan": FIRST,
            "overall_reflection": [ANEW, overall(False)],
            "evaluation": judged,
            **answers,
        }
        made = await bench(tools(**(spec or {})), scripted)
        return (await made.run(**policy)).check()

    return virtual_time(main())


def asked(ran: Ran) -> list[str]:
    return [
        f"{one.instructions}\n{one.turns[-1].text}"
        for one in ran.model.requests
        if one.schema_name == "evaluation"
    ]


@IN_PLACE
def test_a_judge_that_says_nothing_of_it_has_not_called_it_a_success(way: dict[str, Any]) -> None:
    ran = run(way)
    assert ran.source.counts["transfer"] == 1
    assert not ran.result.is_success
    first, again = asked(ran)[:2]
    told = "was to have the effect of 'pay', which failed, and has had that of 'transfer'"
    assert told in first
    assert "does not account for this: step 'p'" in again


@IN_PLACE
def test_a_judge_that_says_that_it_is_the_same_thing_has_and_it_is_told(way: dict[str, Any]) -> None:
    ran = run(way, [{"step": "p", "made_good_by": "p", "not_needed": None}])
    assert ran.result.is_success
    assert "is to have" not in str(ran.result.shortfall)
    (told,) = ran.result.shortfall
    assert "'pay'" in told
    assert told.endswith("made good by it")


@IN_PLACE
def test_a_judge_that_says_that_it_is_another_thing_has_not(way: dict[str, Any]) -> None:
    said = [{"step": "p", "made_good_by": None, "not_needed": None}]
    assert not run(way, said, said).result.is_success


@IN_PLACE
@pytest.mark.parametrize("name", ["transfer", "*"])
def test_what_is_declared_to_do_the_same_needs_no_word(way: dict[str, Any], name: str) -> None:
    ran = run(way, spec={"substitutes": (name,)})
    assert ran.result.is_success == (name == "transfer")
    if ran.result.is_success:
        assert ran.result.shortfall == ()


@pytest.mark.parametrize("way", [{"evaluation": "steps"}, {}], ids=["by steps", "by a model"])
@pytest.mark.parametrize("declared", [True, False])
def test_so_it_is_in_a_new_plan(way: dict[str, Any], declared: bool) -> None:
    ran = run(IN_A_NEW_PLAN, spec={"substitutes": ("transfer",)} if declared else None, **way)
    assert ran.source.counts["transfer"] == 1
    assert ran.result.is_success == declared


def test_a_declaration_holds_one_way_and_makes_no_reading_an_effect() -> None:
    answers = {**IN_A_NEW_PLAN, "execution_plan": [FIRST, plan(step("q", "look"))]}
    assert not run(answers, spec={"substitutes": ("look",)}, evaluation="steps").result.is_success


@IN_PLACE
def test_by_the_steps_alone_a_step_that_succeeded_is_one_and_it_is_told(way: dict[str, Any]) -> None:
    ran = run(way, evaluation="steps")
    assert ran.result.is_success
    (told,) = ran.result.shortfall
    assert "has had that of 'transfer'" in told


@IN_PLACE
@pytest.mark.parametrize("agrees", [True, False])
def test_a_person_who_agrees_to_the_call_has_said_it(way: dict[str, Any], agrees: bool) -> None:
    async def main() -> Ran:
        answers = {
            "execution_plan": FIRST,
            "evaluation": verdict(),
            "overall_reflection": overall(False),
            **way,
        }
        made = await bench(tools(), answers)
        task_id = await made.submit(interactive=True, approval="all" if agrees else "never")
        ran = await made.drive(task_id)
        while agrees and (waiting := [one for one in ran.result.waiting_for if one.tool_id]):
            seen.extend(waiting)
            for one in waiting:
                await made.service.resolve_approval(task_id, approved=True, approval_id=one.id)
            ran = await made.drive(task_id)
        return ran

    seen: list[Any] = []
    ran = virtual_time(main())
    assert ran.result.is_success == agrees
    if agrees:
        assert ran.result.shortfall == ()
        assert "it takes the place of 'pay', which the plan meant and which failed" in str(
            [one.text for one in seen if one.tool_id == "transfer"]
        )


def test_a_tool_that_comes_back_to_the_planned_one_has_had_its_effect() -> None:
    async def main() -> Ran:
        made = await bench(
            {**tools(), "pay": FakeTool(output="paid", parameters=PAY, fail=["no such name"], **ONCE),
             "transfer": FakeTool(parameters=TRANSFER, fail=["closed"] * 3, **ONCE)},
            {
                "execution_plan": FIRST, "evaluation": verdict(),
                "step_reflection": [
                    reflection("retry_with_tool", {"tool_id": "transfer", "parameters": THERE}, "tool_error"),
                    reflection("repair_step", {"hint": "by his whole name"}, "tool_error"),
                ],
                "step_repair": step("p", "pay", parameters={"to": "Robert"}),
            },
        )  # fmt: skip
        return (await made.run()).check()

    ran = virtual_time(main())
    assert ran.source.counts["pay"] == 2
    assert ran.result.is_success
    assert ran.result.shortfall == ()


def test_of_a_list_only_the_items_that_another_tool_has_done_are_asked_about() -> None:
    def pay(parameters: Any) -> Any:
        if parameters["to"] == "Bad":
            raise ValueError("no such account")
        return "paid"

    async def main() -> Ran:
        made = await bench(
            {**tools(), "pay": FakeTool(output=pay, parameters=PAY, **ONCE)},
            {
                "execution_plan": plan(
                    step("p", "pay", for_each=["Ann", "Bad", "Cid"], parameters={"to": "${item}"})
                ),
                "evaluation": {**verdict(), "left_out_effects": [{"step": "p", "made_good_by": "p"}]},
                **WAYS["another tool"],
            },
        )
        return (await made.run()).check()

    ran = virtual_time(main())
    assert ran.source.counts == {"pay": 3, "transfer": 1}
    assert ran.result.is_success
    assert len(ran.result.shortfall) == 1
