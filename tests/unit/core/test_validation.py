"""Whether a value fits a schema, and the words in which it does not."""

from __future__ import annotations

import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.data.schemas import problems
from replan.core.data.validation import SHOWN, faults, quick_check, schema_problem
from thorough import examples

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "x", "2"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "enum": st.lists(VALUES, max_size=2),
            "contains": inner,
            "format": st.just("date"),
            "minimum": st.integers(-1, 1),
            "maxLength": st.integers(0, 1),
            "uniqueItems": st.booleans(),
            "not": inner,
        },
    )


SCHEMAS = st.recursive(st.booleans() | schemas(st.booleans()), schemas, max_leaves=6)


@settings(max_examples=examples(100), deadline=None)
@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_what_passes_the_quick_check_has_no_faults(schema: Any, value: Any) -> None:
    fits = quick_check(schema)
    try:
        passes = fits is not None and fits(value)
    except (ValueError, UnicodeError):
        passes = False
    if passes:
        assert faults(schema, value) == []


@settings(max_examples=examples(500), deadline=None)
@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_it_finds_faults_where_another_validator_finds_some(schema: dict[str, Any], value: Any) -> None:
    there = jsonschema.Draft202012Validator(schema)
    found = faults(schema, value)
    assert bool(found) is not there.is_valid(value)
    assert all(str(fault) for fault in found)
    for fault in found:
        at = value
        for part in fault.path:
            at = at[part]
        assert fault.instance == at


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"properties": {"n": {"type": "integer"}}}, {"n": "x"}, "n: 'x' is not of type 'integer'"),
        ({"type": ["string", "null"]}, 1, "1 is not of type 'null', 'string'"),
        ({"properties": {"n": {"type": "integer"}}}, {"n": None}, "n: null is not of type 'integer'"),
        ({"type": "integer"}, True, "true is not of type 'integer'"),
        ({"required": ["a"]}, {}, "'a' is a required property"),
        ({"additionalProperties": False}, {"b": 1}, "Additional properties are not allowed ('b' was unexpected)"),
        ({"items": {"enum": [1, 2]}}, [3], "[0]: 3 is not one of [1, 2]"),
        ({"anyOf": [{"type": "null"}]}, 1, "1 is not valid under any of the given schemas"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 1, "1 is valid under more than one of the given schemas"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "'ab' is too long (more than 1 characters)"),
        ({"contains": {"const": 1}, "minContains": 2}, [1], "[1] does not contain enough items matching the given schema"),
        ({"properties": {"a": False}}, {"a": 1}, "a: nothing is allowed here, 1 was given"),
    ],
)  # fmt: skip
def test_each_fault_is_told_with_its_place(schema: dict[str, Any], value: Any, message: str) -> None:
    assert problems(schema, value) == [message]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "#/$defs/none"}, "does not exist"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "disabled"),
        ({"$ref": "file:///etc/hosts"}, "disabled"),
        ({"type": "objekt"}, "objekt"),
        ({"properties": []}, "[]"),
    ],
)
def test_a_schema_that_cannot_be_applied_fits_nothing(schema: dict[str, Any], reason: str) -> None:
    (found,) = problems(schema, {})
    assert found.startswith("the schema cannot be applied (")
    assert reason in found


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_is_no_number(value: float) -> None:
    assert problems({"type": "number"}, value)


@pytest.mark.parametrize("value", [{1: 2}, [{1, 2}], b"x", object(), "\ud800"])
def test_what_is_no_json_is_told(value: Any) -> None:
    assert (
        "no JSON" in problems({"type": ["object", "array", "string"], "items": {"type": "array"}}, value)[0]
    )


@pytest.mark.parametrize(
    "named",
    [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "http://acme.example/own",
    ],
)
def test_a_draft_is_taken_from_its_name_and_format_and_contents_say_nothing(named: str) -> None:
    schema = {"$schema": named, "type": "string", "format": "date", "contentEncoding": "base64"}
    assert problems(schema, "no date!") == []
    assert problems(schema, 1)
    assert schema_problem(schema) == ""


def test_an_exclusive_bound_of_draft_4_is_a_truth() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    assert problems(schema, 1)
    assert schema_problem(schema) == ""
    assert schema_problem({"minimum": 1, "exclusiveMinimum": True})


@pytest.mark.parametrize("levels", [201, 3_000, 200_000])
def test_a_value_that_is_very_deep_is_told(levels: int) -> None:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    schema = {"$ref": "#/$defs/l", "$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}}
    assert problems(schema, value) == ["it is nested more than 200 levels deep"]
    assert problems({"type": "array"}, value) == []
    assert problems({"type": "object"}, value)


def rows(first: int, **row: Any) -> list[dict[str, Any]]:
    good = {"id": 1, "name": "x", "price": 1.5}
    return [good if index < first else {**good, **row} for index in range(20_000)]


ROWS: dict[str, Any] = {
    "type": "array",
    "items": {"$ref": "#/$defs/Row"},
    "$defs": {
        "Row": {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "name": {"type": "string"},
                "price": {"type": "number"},
            },
            "required": ["id", "name"],
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (ROWS, rows(0, id="a", name=2), "[0].id: 'a' is not of type 'integer'"),
        ({**ROWS, "maxItems": 5}, rows(20_000), "is too long (more than 5 items)"),
        ({"anyOf": [ROWS | {"type": "array"}, {"type": "null"}], "$defs": ROWS["$defs"]}, rows(0, id="a"), "given schemas"),
        (ROWS, rows(15_000, id="a"), "past the first 20 items"),
    ],
)  # fmt: skip
def test_a_large_value_that_does_not_fit_is_told_in_few_words_and_soon(
    schema: dict[str, Any], value: Any, message: str
) -> None:
    with cpu(1.0):
        found = problems(schema, value)
    assert any(message in each for each in found)
    assert len(found) <= SHOWN
    assert max(map(len, found)) < 400


LIST_OR_NULL = {"anyOf": [{"type": "array", "minItems": 25}, {"type": "null"}]}


@pytest.mark.parametrize(
    "fits",
    [
        LIST_OR_NULL,
        {"oneOf": [{"maxItems": 22}, {"minItems": 25}]},
        {"not": {"maxItems": 24}},
        {"if": {"minItems": 25}, "then": {"maxItems": 5_000}, "else": {"maxItems": 3}},
        {"if": {"maxItems": 22}, "then": {"items": {"type": "string"}}},
        {"contains": {"const": 1_999}},
        {"const": list(range(2_000))},
        {"enum": [list(range(2_000))]},
    ],
)
def test_of_a_large_value_only_what_does_not_fit_is_told(fits: dict[str, Any]) -> None:
    schema = {"properties": {"rows": fits, "n": {"type": "integer"}}}
    value = {"rows": list(range(2_000)), "n": "five"}
    assert problems({"properties": {"rows": fits}}, value) == []
    assert problems(schema, value) == ["n: 'five' is not of type 'integer'"]


def test_items_are_told_in_their_order() -> None:
    found = problems({"items": {"type": "integer"}}, ["a" if at in (2, 10) else at for at in range(12)])
    assert [each.split(":")[0] for each in found] == ["[2]", "[10]"]


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"propertyNames": {"minLength": 2}}, {"b": 1}, "'b' is too short"),
        ({"properties": {"prices": {"propertyNames": {"minLength": 2}}}}, {"prices": {"b": 1}}, "prices: 'b' is too short"),
        ({"items": {"propertyNames": {"pattern": "^x"}}}, [{"x": 1}, {"b": 1}], "[1]: 'b' does not match '^x'"),
        ({"items": {"propertyNames": {"enum": ["a"]}}}, [{"b": {"b": 1}}], "[0]: 'b' is not one of ['a']"),
        ({"items": {"items": {"propertyNames": {"anyOf": [{"const": "a"}, {"maxLength": 0}]}}}}, [[{"b": 1}]], "[0][0]: 'b' is not valid"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_told_wherever_its_object_stands(
    schema: dict[str, Any], value: Any, told: str
) -> None:
    (found,) = problems(schema, value)
    assert found.startswith(told)


def test_a_large_value_that_fits_has_no_problem() -> None:
    assert problems(ROWS, rows(20_000)) == []


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"1001": {"7": 1}}, "1001.7: 1 is not of type 'string'"),
        ({"+1": {"b": 2}}, "+1.b: 2 is not of type 'string'"),
        ({"01": {"a": 1}, "1": {"a": "x"}}, "is not of type 'string'"),
        ({"": {"a": 1}}, "is not of type 'string'"),
        ({"a": {"": 1}}, "a: {'': 1} is not of type 'string'"),
        ({"5": ["x"]}, "5: ['x'] is not of type 'object'"),
        ({str(n): {"7": 1} for n in range(2_000)}, "0.7: 1 is not of type 'string'"),
    ],
)
def test_a_fault_below_a_name_of_digits_or_of_nothing_is_told(value: Any, told: str) -> None:
    schema = {
        "type": "object",
        "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    assert told in str(faults(schema, value)[0])


def test_what_many_alternatives_say_of_each_of_many_items_holds_nothing_up() -> None:
    one_of_many: dict[str, Any] = {"anyOf": [{"const": f"c{n}"} for n in range(80)]}
    schema = {"items": {"items": {"items": one_of_many}}}
    with cpu(3):
        (fault, *_) = faults(schema, [[["x"] * 20] * 20] * 20)
    assert "is not valid under any" in str(fault) or "as a whole" in str(fault)
    assert str(faults(schema, [[["c1", "x"]]])[0]).startswith("[0][0][1]: 'x' is not valid under any")
