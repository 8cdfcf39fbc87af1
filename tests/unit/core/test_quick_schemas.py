"""A quick yes is never wrong: what it lets pass, the whole validation lets pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from replan.core.quick_schemas import fits

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
            "title": st.just("T"),
            "format": st.just("date"),
            "minimum": st.integers(-1, 1),
            "not": inner,
        },
    )


SCHEMAS = st.recursive(st.booleans() | schemas(st.booleans()), schemas, max_leaves=6)


@settings(max_examples=1000, deadline=None)
@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_what_surely_fits_has_no_errors(schema: dict[str, Any], value: Any) -> None:
    if fits(schema, value):
        assert list(Draft202012Validator(schema).iter_errors(value)) == []


PLAIN = {
    "type": "object",
    "properties": {
        "i": {"type": "integer", "title": "I"},
        "n": {"type": ["number", "null"]},
        "l": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "d": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "any": {},
    },
    "required": ["i"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "surely"),
    [
        ({"i": 1}, True),
        ({"i": 1, "n": 1.5, "l": ["x", None], "d": {"k": True}, "any": [object()]}, True),
        ({"i": 1, "n": None}, True),
        ({}, False),
        ({"i": True}, False),
        ({"i": 1.0}, False),  # valid, but told by the whole validation
        ({"i": 1, "l": [1]}, False),
        ({"i": 1, "d": {"k": 1}}, False),
        ({"i": 1, "more": 1}, False),
        ("text", False),
    ],
)
def test_a_plain_schema_is_understood(value: Any, surely: bool) -> None:
    assert fits(PLAIN, value) is surely


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 1},
        {"$ref": "#/$defs/x", "$defs": {"x": {}}},
        {"properties": {"a": {"pattern": "x"}}},
        {"properties": []},
        {"required": "a"},
        {"items": [{}]},
        {"anyOf": []},
        {"type": "text"},
        {"additionalProperties": {"const": 1}},
    ],
)
def test_what_is_not_understood_is_no_yes(schema: dict[str, Any]) -> None:
    assert fits(schema, {"a": 1}) is False


def test_a_schema_that_is_nested_very_deep_is_no_yes() -> None:
    schema: dict[str, Any] = {}
    for _ in range(2000):
        schema = {"properties": {"a": schema}}
    assert fits(schema, {}) is False
