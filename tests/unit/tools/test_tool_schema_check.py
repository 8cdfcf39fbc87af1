"""Schemas that a source gives: which can be used."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, SchemaError

from replan.tools.schema_check import problem_of
from thorough import examples


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


def looped() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["self"] = schema
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({}, id="anything"),
        pytest.param({"type": "object", "properties": {"a": {"type": "integer"}}}, id="plain"),
        pytest.param(
            {"properties": {"t": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"items": {"$ref": "#/$defs/T"}}}},
            id="a definition that refers to itself",
        ),
        pytest.param({"properties": {"a": {"$ref": "#"}}}, id="a reference to the whole"),
        pytest.param({"properties": {"a": {"$ref": "#b"}}, "$defs": {"B": {"$anchor": "b"}}}, id="an anchor"),
        pytest.param(
            {"$defs": {"a/b~c": {}}, "properties": {"x": {"$ref": "#/$defs/a~1b~0c"}}}, id="escapes"
        ),
        pytest.param(
            {"properties": {"pattern": {"type": "string"}, "$ref": {"type": "string"}}},
            id="parameters named so",
        ),
        pytest.param(
            {"properties": {"a": {"default": {"$ref": "http://x/"}}}}, id="data that looks like a schema"
        ),
        pytest.param({"properties": {"a": True, "b": False}}, id="schemas that are truths"),
        pytest.param(
            {"x-data": {"$ref": "#/no", "pattern": "("}}, id="an extension that looks like a schema"
        ),
        pytest.param({"dependentRequired": {"pattern": ["("]}}, id="lists of names"),
        pytest.param(
            {"properties": {"a": {"pattern": "("}}}, id="a pattern that is none: it is not enforced"
        ),
        pytest.param({"properties": {"名前": {"type": "string", "pattern": "^[ぁ-ん]+$"}}}, id="any script"),
    ],
)
def test_a_good_schema_has_no_problem(schema: Any) -> None:
    assert problem_of(schema, of_parameters=True) is None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        pytest.param(None, "it is a NoneType", id="none"),
        pytest.param([], "it is a list", id="a list"),
        pytest.param({"type": "string"}, "its type is 'string'", id="no object"),
        pytest.param({"type": "objekt"}, "its type is 'objekt'", id="a type that there is not"),
        pytest.param({"properties": {"a": {"type": "int"}}}, "#/properties/a/type: 'int'", id="deeper"),
        pytest.param({"properties": ["a"]}, "#/properties", id="a list of properties"),
        pytest.param({"required": "a"}, "#/required", id="required as text"),
        pytest.param(
            {"properties": {"a": {"$ref": "#/$defs/X"}}},
            "'#/$defs/X' leads nowhere",
            id="a dangling reference",
        ),
        pytest.param({"properties": {"a": {"$ref": "#x"}}}, "no such $anchor", id="a dangling anchor"),
        pytest.param(
            {"properties": {"a": {"$ref": "http://127.0.0.1/x"}}}, "nothing is fetched", id="a remote one"
        ),
        pytest.param({"properties": {"a": {"$ref": "file:///etc/x"}}}, "nothing is fetched", id="a file"),
        pytest.param(
            {"$ref": "#/required", "required": ["a"]}, "what is not a schema", id="a reference to data"
        ),
        pytest.param(nested(150), "nested more than", id="too deep"),
        pytest.param(looped(), "nested more than", id="in itself"),
    ],
)
def test_a_bad_schema_is_told_with_its_place(schema: Any, reason: str) -> None:
    assert reason in (problem_of(schema, of_parameters=True) or "")


KEYWORDS = [
    "type",
    "required",
    "enum",
    "const",
    "default",
    "examples",
    "multipleOf",
    "properties",
    "patternProperties",
    "$defs",
    "anyOf",
    "oneOf",
    "prefixItems",
    "items",
    "additionalProperties",
    "not",
    "if",
    "contains",
    "title",
    "description",
    "format",
    "pattern",
    "minimum",
    "exclusiveMaximum",
    "minLength",
    "maxItems",
    "uniqueItems",
    "readOnly",
    "$comment",
    "$anchor",
    "dependentRequired",
    "minContains",
    "x-extension",
]
SCHEMAS = st.recursive(
    st.booleans() | st.just({}) | st.sampled_from([{"type": "string"}, {"type": "odd"}]),
    lambda inner: st.dictionaries(
        st.sampled_from(KEYWORDS),
        inner
        | st.sampled_from(
            ["string", "object", "(", 1, 0, -1, 1.5, None, ["a", "b"], ["a", "a"], [], ["null", "array"]]
        )
        | st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        max_size=3,
    ),
    max_leaves=6,
)


@settings(max_examples=examples(300), deadline=None)
@given(SCHEMAS)
def test_the_quick_look_accepts_nothing_that_the_metaschema_refuses(schema: Any) -> None:
    found = problem_of(schema, of_parameters=False)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        assert found is not None
    else:
        assert found is None or isinstance(schema, bool)


def test_an_output_may_be_of_any_type() -> None:
    assert problem_of({"type": "array"}, of_parameters=False) is None
