"""Values of models in the form that a schema wants: only where that leaves one reading, and nothing is lost by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.as_meant import as_meant, step_as_meant
from replan.core.data.schemas import problems
from replan.core.types import Step, ToolSpec

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "cents": {"type": "integer", "minimum": 1},
        "rate": {"type": "number"},
        "loud": {"type": "boolean"},
        "text": {"type": "string"},
        "code": {"type": ["string", "integer"], "pattern": "^A"},
        "either": {"anyOf": [{"type": "string", "pattern": "^A"}, {"type": "integer"}]},
        "level": {"enum": [1, 2]},
        "note": {"type": "string"},
        "maybe": {"type": ["integer", "null"]},
        "numbers": {"type": "array", "items": {"type": "number"}},
        "place": {"$ref": "#/$defs/place"},
        "open": {},
    },
    "required": ["cents"],
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "name": {"type": "string"}},
            "required": ["x"],
        }
    },
}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"cents": "4500"}, {"cents": 4500}),
        ({"cents": 1, "rate": "-0.25"}, {"cents": 1, "rate": -0.25}),
        ({"cents": 1, "rate": "200"}, {"cents": 1, "rate": 200}),
        ({"cents": 1, "loud": "true"}, {"cents": 1, "loud": True}),
        ({"cents": 1, "level": "2"}, {"cents": 1, "level": 2}),
        ({"cents": 1, "maybe": "7"}, {"cents": 1, "maybe": 7}),
        ({"cents": 1, "numbers": ["1", 2, "3.5"]}, {"cents": 1, "numbers": [1, 2, 3.5]}),
        ({"cents": 1, "place": {"x": "3", "name": None}}, {"cents": 1, "place": {"x": 3}}),
        ({"cents": 1, "note": None, "rate": None}, {"cents": 1}),
    ],
)
def test_what_leaves_one_reading_is_read(written: dict[str, Any], meant: dict[str, Any]) -> None:
    assert as_meant(SCHEMA, written) == meant
    assert not problems(SCHEMA, meant)


@pytest.mark.parametrize(
    "written",
    [
        {"cents": "4,500"},
        {"cents": "45.0"},
        {"cents": "0"},
        {"cents": "007"},
        {"cents": " 5 "},
        {"cents": "1e3"},
        {"cents": None},
        {"cents": "${a.output}"},
        {"cents": 1, "rate": "0.1234567890123456789"},
        {"cents": 1, "rate": "true"},
        {"cents": 1, "loud": "1"},
        {"cents": 1, "loud": "yes"},
        {"cents": 1, "text": 5},
        {"cents": 1, "code": "4500"},
        {"cents": 1, "either": "4500"},
        {"cents": 1, "maybe": None},
        {"cents": 1, "numbers": [None]},
        {"cents": 1, "place": {"x": None}},
        {"cents": 1, "open": None},
        {"cents": 1, "unknown": None},
    ],
)
def test_what_could_be_meant_otherwise_or_is_no_such_value_stays(written: dict[str, Any]) -> None:
    assert as_meant(SCHEMA, written) is written


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9))
def test_a_number_as_a_text_is_that_very_number(number: Any) -> None:
    made = as_meant(SCHEMA, {"cents": 1, "rate": f"{number:f}"})["rate"]
    assert made == float(number) or (made == f"{number:f}" and str(made).startswith("-0"))


def test_a_call_of_a_plan_is_formed_by_its_tool_and_what_was_given_stays() -> None:
    tool = ToolSpec(id="pay", parameters=SCHEMA)
    step = Step(step_id="a", tool="pay", parameters={"cents": "4500", "note": None})
    made = step_as_meant(step, {"pay": tool}.get)
    assert made.parameters == {"cents": 4500}
    assert step.parameters == {"cents": "4500", "note": None}
    assert step_as_meant(made, {"pay": tool}.get) is made
    assert step_as_meant(step, {}.get) is step
