"""A mark (`repeat`) on a whole list means each of its items once more: never one that was done where others failed, without a word."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, verdict
from test_run_left_out import ANEW, BY_STEPS_AND_MODEL, GIVE_UP, ONCE, TO, both, each, to
from test_run_recovery import READS, overall

from replan.testing import virtual_time

AGAIN: dict[str, Any] = {"repeat": True, "repeat_reason": "it is wanted again"}


def run(*plans: list[dict[str, Any]], **way: Any) -> tuple[Ran, list[str]]:
    """The task, and whom it has paid."""
    paid: list[str] = []

    def pay(parameters: Any) -> Any:
        if parameters["to"].startswith("Bad"):
            raise ValueError("there is no such account")
        paid.append(parameters["to"])
        return {"id": len(paid)}

    async def main() -> Ran:
        made = await bench(
            {
                "pay": FakeTool(output=pay, parameters=TO, **ONCE),
                "names": FakeTool(output=["Ann2", "Bob", "Cid"], **READS),
            },
            {
                "execution_plan": [plan(*steps) for steps in plans],
                "step_reflection": [GIVE_UP] * 9,
                "overall_reflection": [*[ANEW] * (len(plans) - 1), overall(False)],
                "evaluation": verdict(),
            },
        )
        return (await made.run(**way)).check()

    return virtual_time(main()), paid


FIRST = [each("p", "Bad", "Bob", "Cid")]


def marked(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, **AGAIN}


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(FIRST, [marked(each("x", "Ann2", "Bob", "Cid"))], id="a list"),
        pytest.param(FIRST, [marked(each("p", "Ann2", "Bob", "Cid"))], id="under its own id"),
        pytest.param(FIRST, [marked(each("x", "Bob", "Ann2"))], id="a part of it"),
        pytest.param(FIRST, [marked(both("x", "Ann2", "Bob"))], id="actions"),
        pytest.param([both("p", "Bad", "Bob")], [marked(both("x", "Ann2", "Bob"))], id="actions by actions"),
        pytest.param([both("p", "Bad", "Bob")], [marked(each("x", "Ann2", "Bob"))], id="actions by a list"),
        pytest.param(FIRST, [to("x", "pay", "${item.name}", for_each=[{"name": "Ann2"}, {"name": "Bob"}], **AGAIN)], id="by a field of the item"),
    ],
)  # fmt: skip
def test_a_plan_that_marks_what_was_done_where_others_failed_is_asked_what_it_means(
    first: list[dict[str, Any]], second: list[dict[str, Any]], way: dict[str, Any]
) -> None:
    ran, paid = run(first, second, [to("y", "pay", "Ann2")], **way)
    turns = [one.turns[-1].text for one in ran.model.requests if one.schema_name == "execution_plan"]
    assert any("step 'p' has made this call of 'pay', and failed at others" in text for text in turns)
    assert ran.result.is_success
    assert sorted(paid) == sorted({"Ann2", *paid})


@BY_STEPS_AND_MODEL
def test_what_shows_only_when_the_list_is_read_is_not_made_again_either(way: dict[str, Any]) -> None:
    second = [
        {"step_id": "l", "tool": "names", "parameters": {}},
        to("x", "pay", "${item}", for_each="${l.output}", **AGAIN),
    ]
    ran, paid = run(FIRST, second, **way)
    assert not ran.result.is_success
    assert sorted(paid) == ["Ann2", "Bob", "Cid"]
    [step] = [step for step in ran.result.steps if step.step_id == "x"]
    assert "leave out what is done" in str(step.error)


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    ("plans", "twice"),
    [
        pytest.param([FIRST, [to("y", "pay", "Ann2"), to("x", "pay", "Bob", **AGAIN)]], ["Bob"], id="a step alone says it"),
        pytest.param([FIRST, [each("y", "Ann2", "Bob", "Cid")]], [], id="no mark"),
        pytest.param([[each("p", "Bob", "Cid"), to("q", "pay", "Bad", "p")], [marked(each("x", "Bob", "Cid")), to("y", "pay", "Ann2")]], ["Bob", "Cid"],
                     id="a list of which all was done"),
        pytest.param([FIRST, [each("y", "Ann2", "Bob", "Cid"), to("q", "pay", "Bad2", "y")], [marked(each("x", "Bob", "Cid")), to("z", "pay", "Dan")]],
                     ["Bob", "Cid"], id="once the rest is done"),
        pytest.param([FIRST, [{**both("x", "Ann2", "Bob"), "actions": [
            {"action_id": "x0", "tool": "pay", "parameters": {"to": "Ann2"}},
            {"action_id": "x1", "tool": "pay", "parameters": {"to": "Bob"}, **AGAIN}]}]], ["Bob"], id="an action says it"),
    ],
)  # fmt: skip
def test_what_is_said_plainly_is_made_once_more(
    plans: list[list[dict[str, Any]]], twice: list[str], way: dict[str, Any]
) -> None:
    ran, paid = run(*plans, **way)
    assert ran.result.is_success
    assert sorted(name for name in set(paid) if paid.count(name) == 2) == twice
    assert len(paid) == len(set(paid)) + len(twice)
