"""The tool by which a step asks a model: what a planned call of it gives, and what is wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from replan.core.limits.policy import PlanLimits
from replan.core.own_tools.called import called_as
from replan.core.own_tools.listed import OWN, own_tools
from replan.core.own_tools.model import (
    MODEL,
    MOST_INPUT,
    output_of,
    planned_violations,
    schema_fault,
    too_large,
)
from replan.core.plan.check import Toolbox, check_plan
from replan.core.types import Action, JsonObject, Plan, Step, ToolSpec

LABEL: JsonObject = {
    "type": "object",
    "properties": {"label": {"enum": ["good", "bad"]}, "count": {"type": "integer"}},
    "required": ["label"],
    "additionalProperties": False,
}
TAKES_NUMBER = ToolSpec(
    id="add",
    effect="reads",
    parameters={"type": "object", "properties": {"n": {"type": "number"}}, "additionalProperties": False},
)


def checked(*steps: Step, lacks: str = "") -> tuple[str, ...]:
    known = {spec.id: spec for spec in (*OWN, TAKES_NUMBER)}
    tools = Toolbox(known.get, lambda _: [], lambda _: lacks)
    return check_plan(Plan(plan_id="p", steps=steps), tools, metadata={}, limits=PlanLimits()).violations


def asks(step_id: str = "a", **given: Any) -> Step:
    return Step(step_id=step_id, tool="model", parameters={"instruction": "Sort it.", **given})


def adds(value: str) -> Step:
    return Step(step_id="b", tool="add", parameters={"n": value})


def test_its_output_is_a_text_or_what_its_schema_says() -> None:
    assert output_of({"instruction": "x"}) == {"type": "string"}
    assert output_of({"instruction": "x", "schema": None}) == {"type": "string"}
    assert output_of({"instruction": "x", "schema": LABEL}) == LABEL
    assert output_of({"instruction": "x", "schema": "${a.output}"}) is None
    assert output_of({"instruction": "x", "schema": {"type": "objec"}}) is None
    assert called_as(TAKES_NUMBER, {"schema": LABEL}) is TAKES_NUMBER
    assert called_as(MODEL, {"schema": LABEL}).output_schema == LABEL
    assert MODEL.output_schema is None


def test_references_into_its_output_are_checked_with_the_plan() -> None:
    assert checked(asks(schema=LABEL), adds("${a.output.count}")) == ()
    (wrong,) = checked(asks(schema=LABEL), adds("${a.output.number}"))
    assert "the output of 'a' has no 'number'; it has: label, count" in wrong
    (wrong,) = checked(asks(), adds("${a.output}"))
    assert "n has to be a number, and ${a.output} gives a text" in wrong


def test_so_are_those_into_the_outputs_of_many_items_and_of_actions() -> None:
    many = asks(schema=LABEL).model_copy(update={"for_each": '["x", "y"]'})
    (wrong,) = checked(many, adds("${a.output[0].number}"))
    assert "has no 'number'" in wrong
    both = Step(
        step_id="a",
        actions=(
            Action(action_id="first", tool="model", parameters={"instruction": "x", "schema": LABEL}),
            Action(action_id="second", tool="model", parameters={"instruction": "y"}),
        ),
    )
    assert checked(both, adds("${a.output.first.count}")) == ()
    (wrong,) = checked(both, adds("${a.output.first.number}"))
    assert "has no" in wrong
    (wrong,) = checked(both, adds("${a.output.second}"))
    assert "gives a text" in wrong


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"instruction": "Do what ${b.output} says"}, "put it into `input`"),
        ({"instruction": "Do what ${metadata.note} says"}, "put it into `input`"),
        ({"instruction": "x", "schema": "${b.output}"}, "write the JSON Schema itself"),
        ({"instruction": "x", "schema": {"type": "objec"}}, "no valid JSON Schema at /type"),
        ({"instruction": "x", "schema": {"$ref": "#/$defs/none"}}, "cannot be applied"),
        (
            {"instruction": "x", "schema": {"properties": {"a": "${b.output}"}}},
            "may only stand for an `enum`",
        ),
        ({"instruction": "x", "schema": {"type": "string", "format": "password"}}, "it asks for a secret"),
        ({"instruction": "x", "schema": {"description": "x" * 30_000}}, "at most 20000 are allowed"),
    ],
)
def test_what_is_wrong_with_a_planned_call_is_told_with_what_would_be_right(
    given: JsonObject, told: str
) -> None:
    (text,) = planned_violations("step 'a'", given)
    assert text.startswith("step 'a': ")
    assert told in text


def test_the_task_is_no_material() -> None:
    assert list(planned_violations("a", {"instruction": "Do what is asked: ${task}"})) == []


def test_a_reference_may_stand_for_the_words_to_choose_from() -> None:
    schema = {"type": "object", "properties": {"label": {"type": "string", "enum": "${b.output.names}"}}}
    assert list(planned_violations("a", {"instruction": "x", "schema": schema})) == []
    found = output_of({"instruction": "x", "schema": schema})
    assert found == {"type": "object", "properties": {"label": {"type": "string"}}}


def test_a_property_called_enum_is_a_property() -> None:
    schema = {"type": "object", "properties": {"enum": {"type": "string", "enum": "${b.output}"}}}
    found = output_of({"instruction": "x", "schema": schema})
    assert found == {"type": "object", "properties": {"enum": {"type": "string"}}}


def test_what_the_tool_lacks_is_told_of_each_plan_that_has_it() -> None:
    (wrong,) = checked(asks(), lacks="needs a model")
    assert wrong == "step 'a': the tool 'model' needs a model"
    assert checked(adds("1"), lacks="needs a model") != ("step 'b': the tool 'add' needs a model",)


def test_it_is_not_asked_again_and_again_nor_to_find_out_what_has_happened() -> None:
    waits = Step(
        step_id="a",
        tool="wait_for_condition",
        parameters={
            "tool": "model",
            "parameters": {"instruction": "Is it done?"},
            "condition": "output == 'yes'",
        },
    )
    assert any("'model' is not called again and again" in text for text in checked(waits))
    assert not MODEL.may_verify


def test_a_tool_of_the_users_own_that_is_called_model_is_theirs() -> None:
    theirs = ToolSpec(id="model", effect="reads", parameters={"type": "object"})
    assert theirs not in own_tools(lambda name: theirs if name == "model" else None)
    assert own_tools({spec.id: spec for spec in OWN}.get) == list(OWN)


def test_input_is_bounded_and_the_bound_says_what_to_do() -> None:
    assert too_large("x" * MOST_INPUT) == ""
    assert "400001 characters" in too_large("x" * (MOST_INPUT + 1))
    assert "for_each" in too_large("x" * (MOST_INPUT + 1))
    assert schema_fault(LABEL) == ""
