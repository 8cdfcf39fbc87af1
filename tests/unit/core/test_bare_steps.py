"""A plan that is only its list of steps is read as one; what might be something else is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.data.answers import all_meant, form_of
from replan.core.data.read_json import candidates

FIELDS = ("steps",)
STEP = {"step_id": "a", "tool": "pay", "parameters": {}}
OTHER = {"id": "b", "actions": [{"tool": "pay", "parameters": {}}]}


def read(text: str) -> list[Any]:
    return all_meant(candidates(text), FIELDS)


@pytest.mark.parametrize("steps", [[STEP], [STEP, OTHER], [{"step_id": "c", "tool_name": "pay", "args": {}}]])
@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "Here is the plan:\n{}"])
def test_a_list_of_steps_is_a_plan(steps: list[Any], around: str) -> None:
    text = around.replace("{}", json.dumps(steps))
    assert read(text) == [{"steps": steps}]
    assert form_of(text, FIELDS) == "good"


@pytest.mark.parametrize(
    "value",
    [
        [],
        [STEP, "and then"],
        [{"name": "pay", "arguments": {}}, "and then"],
        [{"name": "pay", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}}],
        [{"name": "pay", "description": "pays", "parameters": {}}],
        {"name": "Ann"},
        [{"tool": "pay", "description": "pays"}],
        [{"step_id": "a"}],
        STEP,
    ],
)
def test_what_may_be_something_else_is_no_plan(value: Any) -> None:
    assert read(json.dumps(value)) == [value]
    assert form_of(json.dumps(value), FIELDS) == "none"


def test_a_list_beside_the_plan_is_not_taken_for_another() -> None:
    text = f"First {json.dumps([OTHER])}, but then {json.dumps({'steps': [STEP]})}"
    assert read(text)[-1] == {"steps": [STEP]}
    assert [value for value in read(text) if isinstance(value, dict)] == [{"steps": [STEP]}]


def test_only_what_asks_for_steps_gets_some() -> None:
    assert all_meant([[STEP]], ("tools",)) == [[STEP]]
    assert all_meant([[STEP]], ()) == [STEP], "a list of one is that one"


CALLED = {"tool": "pay", "parameters": {"to": "Ann"}}


@pytest.mark.parametrize(
    "call",
    [
        {"name": "pay", "arguments": {"to": "Ann"}},
        {"type": "tool_use", "id": "a", "name": "pay", "input": {"to": "Ann"}},
        {"type": "function", "id": "a", "function": {"name": "pay", "arguments": {"to": "Ann"}}},
    ],
)
@pytest.mark.parametrize("around", ["{}", "[{}]", "[{}, {}]", '{"tool_calls": [{}]}', "<tool_call>\n{}\n</tool_call>", "{}\n{}"])  # fmt: skip
def test_calls_as_models_make_them_are_steps(call: Any, around: str) -> None:
    text = around.replace("{}", json.dumps(call))
    (plan,) = read(text)
    assert {one["tool"] for one in plan["steps"]} == {"pay"}
    assert all(CALLED.items() <= one.items() for one in plan["steps"])
    assert form_of(text, FIELDS) == "good"


@given(st.lists(st.sampled_from([STEP, OTHER]), min_size=1, max_size=5))
def test_it_is_the_same_plan_with_or_without_what_is_around_it(steps: list[Any]) -> None:
    assert read(json.dumps(steps)) == read(json.dumps({"steps": steps}))
