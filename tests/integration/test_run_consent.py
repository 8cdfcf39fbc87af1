"""What a person has said no to is not done in another way without a yes, and what is done once more says why."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
MARKED: dict[str, Any] = {"requires_approval": True}
PAY = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
TRANSFER = {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]}


def tools(spec: Any = None) -> dict[str, Any]:
    return {
        "pay": FakeTool(output="paid", parameters=PAY, **ONCE, spec=spec or {}),
        "transfer": FakeTool(output="sent", parameters=TRANSFER, **ONCE),
        "note": FakeTool(output="noted", effect="repeatable"),
        "look": FakeTool(output="seen", **READS),
    }


ANOTHER_WAY = step("b", "transfer", parameters={"iban": "BOB"})
REPLANS = {
    "a replan of the step": {
        "step_reflection": reflection("replan", {"advice": "transfer it"}, "tool_error")
    },
    "a whole new plan": {
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
        "overall_reflection": overall(True, "tools", replanning_strategy={"type": "full_replan"}),
    },
    "another tool": {
        "step_reflection": reflection(
            "retry_with_tool", {"tool_id": "transfer", "parameters": {"iban": "BOB"}}, "tool_error"
        )
    },
    "the step written anew": {
        "step_reflection": reflection("repair_step", {"hint": "transfer"}, "tool_error"),
        "step_repair": step("a", "transfer", parameters={"iban": "BOB"}),
    },
}


def rejected(answers: dict[str, Any], second: Any = None, *, agrees: bool = False) -> Ran:
    """The payment is rejected; then, with `agrees`, whatever is asked for is agreed to."""

    async def main() -> Ran:
        first = plan(step("a", "pay", parameters={"to": "Bob"}), step("other", "note"))
        made = await bench(
            tools(MARKED),
            {"execution_plan": [first, second or plan(ANOTHER_WAY)], "evaluation": verdict(), **answers},
        )
        task_id = await made.submit(interactive=True, approval="never")
        await made.drive(task_id)
        await made.service.resolve_approval(task_id, approved=False, reason="Do not pay Bob.")
        ran = await made.drive(task_id)
        if agrees:
            await made.service.resolve_approval(task_id, approved=True)
            ran = await made.drive(task_id)
        return ran

    return virtual_time(main())


@pytest.mark.parametrize("way", REPLANS.values(), ids=REPLANS)
def test_what_was_rejected_is_not_done_by_another_tool_without_a_yes(way: dict[str, Any]) -> None:
    ran = rejected(way)
    assert ran.result.status == "waiting"
    assert ran.source.counts["transfer"] == ran.source.counts["pay"] == 0
    (asked,) = ran.result.waiting_for
    assert (asked.tool_id, asked.parameters) == ("transfer", {"iban": "BOB"})
    assert "somebody has said no to an effect of this task" in asked.text


@pytest.mark.parametrize("way", list(REPLANS.values())[:2], ids=list(REPLANS)[:2])
def test_what_was_rejected_and_made_good_with_a_yes_is_named_in_the_shortfall(way: dict[str, Any]) -> None:
    said = {"step": "a", "made_good_by": "b", "not_needed": None}
    judged = {**verdict(), "left_out_effects": [said]}
    ran = rejected({**way, "evaluation": judged}, agrees=True).check()
    assert ran.result.is_success
    assert ran.source.counts["transfer"] == 1
    (missing,) = ran.result.shortfall
    assert "(pay)" in missing
    assert "a person has rejected the call of 'pay': Do not pay Bob." in missing


def test_an_effect_that_sets_a_state_is_asked_for_too_after_a_no() -> None:
    ran = rejected(REPLANS["a whole new plan"], plan(step("n", "note", parameters={"text": "later"})))
    assert [one.tool_id for one in ran.result.waiting_for] == ["note"]


@pytest.mark.parametrize("way", REPLANS.values(), ids=REPLANS)
def test_what_nobody_could_agree_to_is_not_done_by_another_tool_either(way: dict[str, Any]) -> None:
    async def main() -> Ran:
        first = plan(step("a", "pay", parameters={"to": "Bob"}))
        answers = {"execution_plan": [first, plan(ANOTHER_WAY)], "evaluation": verdict(), **way}
        return (await (await bench(tools(MARKED), answers)).run()).check()

    ran = virtual_time(main())
    assert ran.source.counts["pay"] == ran.source.counts["transfer"] == 0
    assert not ran.result.is_success


def test_a_reading_needs_no_yes_after_a_no() -> None:
    ran = rejected(REPLANS["a whole new plan"], plan(step("n", "look")))
    assert ran.source.counts["look"] == 1
    assert len(ran.events("approval_requested")) == 1, "the payment alone"


def test_what_was_planned_before_the_no_goes_on_unasked() -> None:
    ran = rejected(REPLANS["a replan of the step"])
    assert ran.statuses()["other"] == "succeeded"
    assert len(ran.events("approval_requested")) == 2, "the payment, and what would take its place"


def test_a_no_to_a_reading_asks_for_nothing_else() -> None:
    async def main() -> Ran:
        made = await bench(
            {**tools(), "peek": FakeTool(output="seen", spec=MARKED, **READS)},
            {
                "execution_plan": [plan(step("p", "peek")), plan(ANOTHER_WAY)],
                "evaluation": verdict(),
                **REPLANS["a whole new plan"],
            },
        )
        task_id = await made.submit(interactive=True)
        await made.drive(task_id)
        await made.service.resolve_approval(task_id, approved=False)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.source.counts["transfer"] == 1


# ── once more ─────────────────────────────────────────────────────────────────


def paid_again(second: Any, **policy: Any) -> Ran:
    """Bob is paid, that is judged poor, and the next plan is this one."""

    async def main() -> Ran:
        made = await bench(
            tools(),
            {
                "execution_plan": [plan(step("a", "pay", parameters={"to": "Bob"})), second],
                "evaluation": [verdict(30, success=False), verdict()],
                "overall_reflection": overall(True, "tools", replanning_strategy={"type": "full_replan"}),
            },
        )
        return await made.run(**policy)

    return virtual_time(main())


AGAIN = plan(
    step("b", "pay", parameters={"to": "Bob"}, repeat=True, repeat_reason="two instalments are due"),
    step("l", "look"),
)


def test_an_effect_once_more_is_asked_for_where_a_person_can_be_reached() -> None:
    ran = paid_again(AGAIN, interactive=True)
    (asked,) = ran.result.waiting_for
    assert (asked.tool_id, asked.parameters) == ("pay", {"to": "Bob"})
    assert "it is done already, and meant once more" in asked.text
    assert ran.source.counts["pay"] == 1


def test_where_nobody_is_asked_for_anything_an_effect_once_more_is_made() -> None:
    assert paid_again(AGAIN).check().source.counts["pay"] == 2


def test_a_person_may_agree_to_an_effect_in_every_round() -> None:
    async def main() -> Ran:
        again = [
            plan({**AGAIN["steps"][0], "step_id": f"b{n}"}, step(f"l{n}", "look", parameters={"n": n}))
            for n in range(3)
        ]
        made = await bench(
            tools(),
            {
                "execution_plan": [plan(step("a", "pay", parameters={"to": "Bob"})), *again],
                "evaluation": [*(verdict(score, success=False) for score in (30, 40, 50)), verdict()],
                "overall_reflection": overall(True, "tools", replanning_strategy={"type": "full_replan"}),
            },
        )
        task_id = await made.submit(interactive=True)
        await made.drive(task_id)
        for _ in range(3):
            await made.service.resolve_approval(task_id, approved=True)
            ran = await made.drive(task_id)
        return ran

    ran = virtual_time(main()).check()
    assert ran.result.is_success
    assert ran.source.counts["pay"] == 4


def test_an_effect_that_is_answered_from_the_ledger_is_not_asked_for() -> None:
    ran = paid_again(plan(step("b", "pay", parameters={"to": "Bob"}), step("l", "look")), interactive=True)
    assert ran.check().result.is_success
    assert ran.source.counts["pay"] == 1


def test_another_effect_of_a_later_plan_is_not_asked_for() -> None:
    ran = paid_again(plan(step("b", "pay", parameters={"to": "Eve"})), interactive=True)
    assert ran.check().result.is_success
    assert ran.source.counts["pay"] == 2
