"""A person says that a task is done: what was planned and not had is named, whatever kept it from being had, before and after that word."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict
from test_run_people import TO
from test_run_recovery import overall, reflection

from replan.testing import virtual_time

OFF = reflection("trigger_overall_reflection", {"summary": "it cannot be mended here"}, "tool_error")
WHOM = ("Ann", "Bob")


def _pay(given: Any) -> str:
    if given["to"] == "nobody":
        raise ValueError("there is nobody of that name")
    return f"paid {given['to']}"


def pay(step_id: str, to: str, *needs: str, **more: Any) -> dict[str, Any]:
    return step(step_id, "pay", *needs, parameters={"to": to}, **more)


BROKEN = pay("broken", "nobody")
LATE = step("late", "look", parameters={"to": "x"})
"""It answers when the round has been called off already."""
KEPT = {
    "by what is read": [LATE, pay("a", "Ann", "late"), pay("b", "Bob", "late")],
    "one after the other": [LATE, pay("a", "Ann", "late"), pay("b", "Bob", "a")],
    "a list": [LATE, pay("ab", "${item}", "late", for_each=list(WHOM))],
    "actions": [LATE, {"step_id": "ab", "name": "ab", "dependencies": ["late"],
                       "actions": [action("x", "pay", to="Ann"), action("y", "pay", to="Bob")]}],
    "by what failed": [pay("a", "Ann", "broken"), pay("b", "Bob", "broken")],
    "both": [LATE, pay("a", "Ann", "late"), pay("b", "Bob", "broken")],
}  # fmt: skip


def run(steps: list[dict[str, Any]], word: str, judge: Any, **policy: Any) -> tuple[Ran, Ran]:
    """How it stood when somebody was asked, and after that one's word."""

    async def main() -> tuple[Ran, Ran]:
        tools = {
            "pay": FakeTool(output=_pay, parameters=TO, effect="once"),
            "look": FakeTool(output="seen", delay_secs=1, parameters=TO, effect="reads"),
        }
        answers = {
            "execution_plan": plan(
                *([] if any(one["step_id"] == "broken" for one in steps) else [BROKEN]), *steps
            ),
            "step_reflection": OFF,
            "overall_reflection": overall(False),
            "evaluation": judge,
        }
        made = await bench(tools, answers)
        task_id = await made.submit(interactive=True, **policy)
        asked = await made.drive(task_id)
        await made.service.answer(task_id, word, asked.result.waiting_for[0].id)
        return asked, (await made.drive(task_id)).check()

    return virtual_time(main())


def names(text: str, steps: list[dict[str, Any]]) -> bool:
    due = {one["step_id"] for one in steps} - {"late"}
    return all(repr(name) in text for name in due)


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("evaluation", ["model", "steps"])
def test_each_effect_that_was_not_had_is_in_the_question_and_in_the_shortfall(
    kept: str, evaluation: str
) -> None:
    steps = KEPT[kept]
    asked, ran = run(steps, "done", verdict(), evaluation=evaluation)
    assert names(asked.result.waiting_for[0].background, steps)
    assert ran.result.status == "succeeded"
    assert names("\n".join(ran.result.shortfall), [BROKEN, *steps])
    assert not ran.events("call_completed", tool_id="pay")


@pytest.mark.parametrize("kept", KEPT)
def test_they_are_named_where_nobody_could_judge(kept: str) -> None:
    _, ran = run(KEPT[kept], "done", {"nothing": "of use"})
    assert ran.result.status == "succeeded"
    assert ran.result.shortfall[0] == "the result was not judged"
    assert names("\n".join(ran.result.shortfall), [BROKEN, *KEPT[kept]])


@pytest.mark.parametrize("kept", KEPT)
def test_they_are_named_in_the_failure(kept: str) -> None:
    _, ran = run(KEPT[kept], "stop", verdict())
    assert ran.result.status == "failed"
    assert ran.result.failure is not None
    assert names(ran.result.failure.reason, KEPT[kept])


def test_what_turned_out_not_to_be_due_is_none_of_it() -> None:
    steps = [
        step("read", "look", parameters={"to": "x"}),
        pay("c", "Cid", "read", when="${read.output} == 'unseen'"),
        pay("d", "Dan", "c"),
        step("d2", "look", "read", parameters={"to": "y"}),
        pay("broken", "nobody", "d2"),
        pay("a", "Ann", "broken"),
    ]
    asked, ran = run(steps, "done", verdict())
    told = "\n".join([asked.result.waiting_for[0].background, *ran.result.shortfall])
    assert "'a'" in told
    assert "'c'" not in told
    assert "'d'" not in told
