"""What the prompts tell of the calls of a step that makes several: what each was made with, and what stood in for it."""

from __future__ import annotations

import re
from typing import Any

from run_tasks import FakeTool, plan, step, verdict
from test_run_history import prompts, run
from test_run_recovery import READS, overall, reflection

from replan.core.types import Action

SALES = {
    "type": "object",
    "properties": {"shop": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["shop"],
}


def _sales(parameters: dict[str, Any]) -> Any:
    if parameters["shop"] == "Oslo" and "year" not in parameters:
        raise ValueError("Oslo: a year is needed")
    return float(len(parameters["shop"]))


TOOLS: dict[str, Any] = {
    "sales": FakeTool(output=_sales, parameters=SALES, description="Sales of a shop.", **READS),
    "sales_of": FakeTool(output=1.0, parameters=SALES, description="Sales of a shop in a year.", **READS),
    "add_up": FakeTool(output=87.0, **READS),
}
SHOPS = ["Rome", "Paris", "Oslo"]


def _block(prompt: str, step_id: str) -> list[str]:
    """The lines about the step among what was run."""
    told = re.search(rf"~~~ steps\n(?:.*\n)*?({step_id}[ :](?:.+\n)*)", prompt)
    assert told is not None
    return told[1].splitlines()


def test_a_judge_and_a_reflection_see_the_constants_of_a_list() -> None:
    answers = {
        "execution_plan": plan(
            step("a", "sales", parameters={"shop": "${item}", "year": 2024}, for_each=SHOPS),
            step("b", "add_up", "a"),
        ),
        "evaluation": verdict(30, False),
        "overall_reflection": overall(),
    }
    ran = run(TOOLS, answers)
    for schema in ("evaluation", "overall_reflection"):
        (asked,) = prompts(ran, schema)
        told = _block(asked, "a")
        assert '  every item: sales {"year": 2024}' in told
        assert '  item 2: {"shop": "Paris"}' in told


def test_a_judge_sees_what_each_action_was_called_with() -> None:
    actions = [
        Action(action_id=shop.lower(), tool="sales", parameters={"shop": shop, "year": 2024}).model_dump()
        for shop in SHOPS
    ]
    ran = run(TOOLS, {"execution_plan": plan(step("a", None, actions=actions))})
    (asked,) = prompts(ran, "evaluation")
    assert """  action 'rome': sales {"shop": "Rome", "year": 2024} -> succeeded""" in _block(asked, "a")


def test_what_stood_in_for_an_item_is_told_first_and_as_what_it_was() -> None:
    answers = {
        "execution_plan": plan(step("a", "sales", parameters={"shop": "${item}"}, for_each=SHOPS)),
        "step_reflection": reflection(
            "retry_with_tool",
            {"tool_id": "sales_of", "parameters": {"shop": "Oslo", "year": 2022}},
            "tool_error",
        ),
    }
    (asked,) = prompts(run(TOOLS, answers), "evaluation")
    told = _block(asked, "a")
    at = told.index('  item 3: sales_of {"shop": "Oslo", "year": 2022} -> succeeded; a stand-in for sales')
    assert told[at + 1 : at + 3] == ['  item 1: sales {"shop": "Rome"}', '  item 2: sales {"shop": "Paris"}']


def test_an_item_with_other_parameters_than_planned_is_told_so() -> None:
    answers = {
        "execution_plan": plan(step("a", "sales", parameters={"shop": "${item}"}, for_each=SHOPS)),
        "step_reflection": reflection("retry_with_params", {"shop": "Oslo", "year": 2022}),
    }
    (asked,) = prompts(run(TOOLS, answers), "evaluation")
    want = (
        '  item 3: sales {"shop": "Oslo", "year": 2022} -> succeeded; with other parameters than were planned'
    )
    assert want in _block(asked, "a")


def test_of_a_long_list_the_odd_item_and_what_all_have_are_told_in_few_words() -> None:
    shops = [*(f"Shop {number}" for number in range(300)), "Oslo"]
    answers = {
        "execution_plan": plan(
            step("a", "sales", parameters={"shop": "${item}"}, for_each=shops),
            step("b", "sales", parameters={"shop": "${item}", "year": 2031}, for_each=shops),
        ),
        "step_reflection": reflection("retry_with_params", {"shop": "Oslo", "year": 2022}),
    }
    (asked,) = prompts(run(TOOLS, answers), "evaluation")
    odd, alike = _block(asked, "a"), _block(asked, "b")
    assert any(line.startswith('  item 301: sales {"shop": "Oslo", "year": 2022}') for line in odd)
    assert '  every item: sales {"year": 2031}' in alike
    assert "  (261 more items, called in the same way)" in alike
    assert len("\n".join(alike)) < 6_000


def test_of_very_many_effects_those_unlike_the_others_are_told() -> None:
    def send(parameters: dict[str, Any]) -> Any:
        if parameters == {"shop": "Shop 90"}:
            raise ValueError("Shop 90: a year is needed")
        return "sent"

    tools = {"send": FakeTool(output=send, parameters=SALES, effect="once")}
    answers = {
        "execution_plan": plan(
            step(
                "a",
                "send",
                parameters={"shop": "${item}"},
                for_each=[f"Shop {number}" for number in range(100)],
                allow_failed_items=True,
            )
        ),
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
        "overall_reflection": overall(),
    }
    asked = prompts(run(tools, answers), "evaluation")[0]
    assert any(
        line.startswith('  item 91: send {"shop": "Shop 90"} -> failed') for line in _block(asked, "a")
    )
