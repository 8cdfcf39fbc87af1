from __future__ import annotations

import json
from typing import Any

import pytest

from cpu_time import cpu
from replan.core.types import JsonObject, ToolSpec
from replan.reasoning.prompting.describe import (
    shape,
    signature,
    task_data,
    today_text,
    tool_index,
    tool_lines,
)
from replan.reasoning.prompting.inlined import inline
from replan.reasoning.prompting.schemas import grammatical
from replan.reasoning.prompting.view import StepReport, TaskView


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"type": "string"}, "string", id="scalar"),
        pytest.param({"type": ["number", "null"]}, "number|null", id="several types"),
        pytest.param({"enum": ["a", 1]}, '"a"|1', id="enum"),
        pytest.param({"enum": list(range(20))}, "|".join(map(str, range(12))) + "|…", id="a long enum"),
        pytest.param({"const": "x"}, '"x"', id="const"),
        pytest.param({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string|integer", id="union"),
        pytest.param({"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}}, "[{id: integer}]", id="list of objects"),
        pytest.param({"type": "object", "additionalProperties": {"type": "number"}}, "{any key: number}", id="a map"),
        pytest.param({"type": "object"}, "object", id="any object"),
        pytest.param({}, "any", id="anything"),
        pytest.param(True, "any", id="a schema that is true"),
    ],
)  # fmt: skip
def test_a_schema_is_written_as_a_short_type(schema: Any, expected: str) -> None:
    assert shape(schema) == expected


FORECAST = ToolSpec(
    id="forecast",
    description="Weather\n to come.",
    parameters={
        "$defs": {"Unit": {"enum": ["C", "F"]}},
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "a city's  name"},
            "unit": {"$ref": "#/$defs/Unit"},
        },
        "required": ["city"],
    },
    output_schema={"type": "object", "properties": {"degrees": {"type": "number", "description": "at noon"}}},
)


def test_a_tool_is_written_as_a_signature() -> None:
    expected = 'forecast(city: string (a city\'s name), unit?: "C"|"F") -> {degrees: number}'
    assert signature(FORECAST) == expected
    assert tool_lines([FORECAST], style="small", limit=1000) == f"{expected}: Weather to come."
    assert tool_index([FORECAST], limit=1000) == "forecast(city, unit): Weather to come."
    looking = FORECAST.model_copy(update={"effect": "reads"})
    paying = FORECAST.model_copy(update={"id": "pay", "effect": "once"})
    told = tool_index([looking, paying], limit=1000, effects=True).splitlines()
    assert [line.split(":")[0] for line in told] == ["forecast(city, unit)", "pay(city, unit) [effect]"]


def test_a_strong_model_sees_the_whole_schema_and_what_the_output_means() -> None:
    text = tool_lines([FORECAST], style="standard", limit=1000)
    assert '"unit": {"enum": ["C", "F"]}' in text
    assert "output: {degrees: number}\noutput fields: degrees: at noon" in text
    assert "each call does it once more" in text
    paying = FORECAST.model_copy(update={"effect": "once", "unique_by": ("city", "unit")})
    assert "once for each 'city' and 'unit'" in tool_lines([paying], style="standard", limit=1000)
    bare = tool_lines([ToolSpec(id="x")], style="standard", limit=1000)
    assert "output: not declared" in bare


def test_a_parameter_that_is_called_title_is_kept() -> None:
    tool = ToolSpec(
        id="x", parameters={"type": "object", "title": "X", "properties": {"title": {"type": "string"}}}
    )
    text = tool_lines([tool], style="standard", limit=1000)
    assert 'parameters: {"type": "object", "properties": {"title": {"type": "string"}}}' in text


def test_without_tools_and_data_the_prompt_says_so() -> None:
    assert tool_lines([], style="small", limit=10) == "(there are no tools)"
    assert task_data(TaskView(description="x"), limit=10) == ""


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            {"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}, {"type": "string"}, id="at the root"
        ),
        pytest.param(
            {
                "properties": {"a": {"$ref": "#/$defs/a~1b", "description": "d"}},
                "$defs": {"a/b": {"enum": [1]}},
            },
            {"properties": {"a": {"enum": [1], "description": "d"}}},
            id="escaped, with a word of its own",
        ),
        pytest.param(
            {"$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}}}}, "items": {"$ref": "#/$defs/N"}},
            {"items": {"properties": {"next": {}}}},
            id="one that refers to itself",
        ),
        pytest.param({"items": {"$ref": "#/nowhere"}}, {"items": {}}, id="to nothing"),
        pytest.param({"items": {"$ref": "https://example.org/s"}}, {"items": {}}, id="elsewhere"),
    ],
)
def test_references_in_schemas_are_replaced_by_what_they_name(schema: Any, expected: Any) -> None:
    assert inline(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"type": "integer", "minimum": 3, "title": "N"}, {"type": "integer"}, id="bounds"),
        pytest.param({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, id="oneOf"),
        pytest.param({"anyOf": [{"type": "string"}, {"not": {}}]}, {}, id="a branch that cannot be told"),
        pytest.param({"type": "array"}, {"type": "array", "items": {}}, id="any list"),
        pytest.param({"type": "object"}, {"type": "object"}, id="any object"),
        pytest.param(False, {}, id="no schema"),
    ],
)  # fmt: skip
def test_only_what_a_grammar_can_hold_is_left(schema: Any, expected: Any) -> None:
    assert grammatical(schema) == expected


@pytest.mark.parametrize(
    ("report", "text"),
    [
        pytest.param(StepReport(step_id="a", output={"é": [1]}), '{"é": [1]}', id="a value"),
        pytest.param(
            StepReport(step_id="a", output="two\nlines"), '"two\\nlines"', id="a text stays on one line"
        ),
        pytest.param(StepReport(step_id="a", output_text='{\n"a": 1}'), '{"a": 1}', id="JSON text"),
        pytest.param(StepReport(step_id="a", output_text="two\nlines"), '"two\\nlines"', id="plain text"),
        pytest.param(StepReport(step_id="a"), "null", id="nothing"),
    ],
)
def test_an_output_is_one_line(report: StepReport, text: str) -> None:
    assert report.text() == text


@pytest.mark.parametrize(
    ("today", "told"),
    [
        ("2026-11-29", "Today is 2026-11-29, a Sunday."),
        ("2024-02-29", "Today is 2024-02-29, a Thursday."),
        ("", ""),
    ],
)
def test_the_date_has_its_day_of_the_week(today: str, told: str) -> None:
    assert today_text(TaskView(description="x", today=today), "standard") == told


def test_the_built_in_model_is_told_the_date_as_in_its_recordings() -> None:
    assert today_text(TaskView(description="x", today="2026-11-29"), "small") == "Today is 2026-11-29."


def doubling(levels: int, names: str = "xyz") -> JsonObject:
    """A small schema that is huge without its references."""
    definitions: JsonObject = {
        f"d{n}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in names}}
        for n in range(levels)
    }
    last: JsonObject = {f"d{levels}": {"type": "string"}}
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "required": ["a"],
        "$defs": definitions | last,
    }


@pytest.mark.parametrize(("levels", "names"), [(11, "xyz"), (40, "wxyz"), (3, "abcdefghijklmnopqrstuvw")])
def test_definitions_that_use_each_other_twice_stay_small(levels: int, names: str) -> None:
    with cpu(2):
        made = inline(doubling(levels, names))
    assert len(json.dumps(made)) < 200_000
    assert "$ref" not in json.dumps(made)
    assert set(made["properties"]["a"]["properties"]) == set(names)  # the outer levels are told


def test_few_levels_are_told_to_the_end() -> None:
    made = inline(doubling(4, "xy"))
    assert json.dumps(made).count('"string"') == 16


@pytest.mark.parametrize("name", ["definitions", "$defs", "properties", "$ref", "enum"])
def test_a_parameter_may_be_called_like_a_keyword(name: str) -> None:
    inner: JsonObject = {"type": "object", "properties": {name: {"$ref": "#/$defs/word"}}, "required": [name]}
    schema: JsonObject = {
        "type": "object",
        "properties": {name: {"type": "array", "items": inner}},
        "required": [name],
        "$defs": {"word": {"type": "string"}},
    }
    told = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    assert inline(schema)["properties"] == {name: {"type": "array", "items": told}}
    tool = ToolSpec(id="define", parameters=schema)
    assert f"define({name}: [{{{name}: string}}])" in signature(tool)


def test_values_in_a_schema_are_data() -> None:
    schema: JsonObject = {"default": {"$ref": "#/a", "definitions": 1}, "enum": [{"$defs": 2}]}
    assert inline(schema) == schema


@pytest.mark.parametrize("style", ["standard", "small"])
def test_what_one_tool_takes_and_gives_takes_a_bounded_part_of_a_prompt(style: str) -> None:
    fields: JsonObject = {
        f"field_{n}": {"type": "string", "description": "x" * 60, "enum": [f"{n}-{k}" for k in range(9)]}
        for n in range(2_000)
    }
    schema: JsonObject = {"type": "object", "properties": fields}
    tool = ToolSpec(id="wide", description="d" * 9_000, parameters=schema, output_schema=schema)
    assert len(tool_lines([tool] * 20, style=style, limit=4_000)) < 20 * 6_000
    assert len(tool_index([tool] * 20, limit=4_000)) < 20 * 1_000
