"""Schemas of documents as JSON Schema 2020-12."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_schema_validator import OAS30Validator

from replan.tools.openapi.documents.document import Document, Unusable
from replan.tools.openapi.documents.schemas import CUT, Schemas
from thorough import examples


def schemas(
    use: Any = "request",
    version: str = "3.0.3",
    most: int = 500,
    is_open: bool = False,
    **components: Any,
) -> Schemas:
    root = {"openapi": version, "paths": {}, "components": {"schemas": components}}
    return Schemas(Document(root, place="test"), use, most=most, open=is_open)


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            {"type": "integer", "exclusiveMinimum": 1},
        ),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, {"type": "integer", "maximum": 9}),
        ({"type": "string", "example": "x"}, {"type": "string", "examples": ["x"]}),
        ({"type": "file"}, {"type": "string"}),
        ({"type": "any", "minimum": "0", "required": True}, {}),
        ({"type": "string", "pattern": r"\p{L}+"}, {"type": "string", "pattern": r"\p{L}+"}),
        ({"type": "object", "discriminator": {"propertyName": "x"}, "xml": {}, "x-y": 1}, {"type": "object"}),
        ({"allOf": [{"type": "string"}], "description": "d"}, {"type": "string", "description": "d"}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": "string", "enum": ["a"]}),
    ],
)
def test_the_dialect_of_3_0_is_converted(given_: Any, expected: Any) -> None:
    assert schemas().convert(given_) == expected


@pytest.mark.parametrize(
    "given_",
    [
        pytest.param({"nullable": True, "allOf": [ref("Pet")]}, id="a composition of one"),
        pytest.param({"nullable": True, "oneOf": [ref("Pet"), {"type": "string"}]}, id="of several"),
        pytest.param({**ref("Pet"), "nullable": True}, id="a reference"),
        pytest.param({**ref("Color"), "nullable": True}, id="a reference to a leaf"),
        pytest.param({"properties": {"pet": {"nullable": True, "allOf": [ref("Pet")]}}}, id="inside"),
    ],
)
def test_nullable_beside_a_reference_allows_null_in_requests_too(given_: Any) -> None:
    pet = {"type": "object", "properties": {"a": {"type": "array", "items": {}}}, "required": ["a"]}
    found = schemas(Pet=pet, Color={"type": "string", "enum": ["red"]})
    check = Draft202012Validator(found.closed(found.convert(given_)))
    value = {"pet": None} if "properties" in given_ else None
    assert check.is_valid(value)
    assert not check.is_valid({"pet": 3} if "properties" in given_ else 3)


def test_in_answers_nullable_is_believed_everywhere() -> None:
    found = schemas("answer", Pet={"type": "object", "properties": {"a": {"type": "array", "items": {}}}})
    assert found.convert({"type": "string", "enum": ["a"], "nullable": True})["enum"] == ["a", None]
    assert found.convert({"nullable": True, "allOf": [ref("Pet")]})["anyOf"][1] == {"type": "null"}
    assert found.convert({**ref("Pet"), "nullable": True})["anyOf"][1] == {"type": "null"}


def test_a_recursive_schema_stays_a_definition() -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": ref("Tree")}}}
    of = schemas(Tree=tree)
    found = of.closed(of.convert(ref("Tree")))
    assert found["$ref"] == "#/$defs/Tree"
    assert list(found["$defs"]) == ["Tree"]
    assert Draft202012Validator(found).is_valid({"children": [{"children": []}]})
    assert not Draft202012Validator(found).is_valid({"children": [1]})


def test_read_only_properties_are_no_part_of_requests_and_write_only_ones_of_answers() -> None:
    user = {
        "type": "object",
        "required": ["id", "name", "password"],
        "properties": {
            "id": ref("Id"),
            "name": {"type": "string"},
            "password": {"type": "string", "writeOnly": True},
        },
    }
    parts: dict[str, Any] = {"Id": {"type": "integer", "readOnly": True}, "User": user}
    sent = schemas("request", **parts).convert(user)
    assert (sorted(sent["properties"]), sent["required"]) == (
        ["id", "name", "password"],
        ["name", "password"],
    )
    assert "Read-only" in sent["properties"]["id"]["description"]
    got = schemas("answer", **parts).convert(user)
    assert (sorted(got["properties"]), got["required"]) == (["id", "name"], ["id", "name"])
    composed = {"allOf": [{"properties": {"id": ref("Id")}}, {"required": ["id", "name"]}]}
    made = schemas("request", **parts).convert(composed)
    assert made["allOf"][1] == {"required": ["name"]}
    assert sorted(made["properties"]) == ["id"]


READ_ONLY = {"type": "string", "readOnly": True}


@pytest.mark.parametrize(
    ("schema", "shown", "required"),
    [
        pytest.param({"properties": {"id": READ_ONLY, "a": {}}}, {"a"}, set(), id="not required: gone"),
        pytest.param(
            {"properties": {"id": READ_ONLY, "a": {}}, "required": ["id", "a"]},
            {"id", "a"},
            {"a"},
            id="required: may be given",
        ),
        pytest.param(
            {"allOf": [ref("Base"), {"properties": {"id": {"type": "string"}}, "required": ["id"]}]},
            {"id", "a"},
            {"id"},
            id="declared anew: as it is there",
        ),
        pytest.param(
            {"allOf": [ref("Base"), {"required": ["id", "a"]}]},
            {"id", "a"},
            {"a"},
            id="required by another part",
        ),
        pytest.param(
            {"allOf": [ref("Base"), {"properties": {"b": {}}}]}, {"a", "b"}, set(), id="in a part: gone"
        ),
    ],
)
def test_a_read_only_property_stays_where_the_object_wants_it(
    schema: Any, shown: set[str], required: set[str]
) -> None:
    base = {"type": "object", "properties": {"id": READ_ONLY, "a": {}}}
    body = {"type": "object", **schema}
    for is_open in (False, True):
        of = schemas(is_open=is_open, Base=base)
        parts = _all_parts(of.convert(body), of)
        found = {name for part in parts for name in part.get("properties", ())}
        assert found == shown | ({"id"} if is_open else set())
        assert {name for part in parts for name in part.get("required", ())} == required


def _all_parts(schema: Any, of: Schemas) -> list[Any]:
    whole = of.resolved(schema)
    return [whole, *(each for part in whole.get("allOf", ()) for each in _all_parts(part, of))]


def test_past_the_limit_a_schema_says_less() -> None:
    parts = {f"S{n}": {"type": "object", "properties": {"next": ref(f"S{n + 1}")}} for n in range(50)}
    of = schemas(most=11, S50={"type": "object"}, **parts)
    found = of.closed(of.convert(ref("S0")))
    assert found["$defs"]["S0"]["properties"]
    (cut,) = [each for each in found["$defs"].values() if each.get("title") == CUT]
    assert cut == {"type": "object", "title": CUT}
    Draft202012Validator.check_schema(found)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (ref("Nowhere"), "no 'Nowhere'"),
        ({"$ref": "other.yaml#/X"}, "another file"),
        ({"$ref": "https://example.org/x.json"}, "another address"),
        ({"$ref": "#anchor"}, "anchor"),
        ({"properties": {"a": 5}}, "an object"),
        (ref("Loop"), "leads to itself"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_and_an_answer_left_open(bad: Any, reason: str) -> None:
    loop = {"Loop": ref("Loop")}
    of = schemas(**loop)
    with pytest.raises(Unusable, match=reason):
        of.closed(of.convert(bad))
    assert schemas("answer", **loop).convert(bad) in ({}, {"properties": {"a": {}}})


def test_a_property_that_is_required_and_not_allowed_is_not_required() -> None:
    slip = {"type": "object", "required": ["a", "b"], "properties": {"a": {}}, "additionalProperties": False}
    assert schemas().convert(slip)["required"] == ["a"]


def test_3_1_keeps_what_is_json_schema() -> None:
    given_ = {
        "type": ["object", "null"],
        "properties": {"a": {"const": 1}, "b": {"$ref": "#/components/schemas/B", "description": "of b"}},
        "patternProperties": {"^x": False},
        "unevaluatedProperties": False,
        "if": {"required": ["a"]},
        "then": {"required": ["b"]},
    }
    of = schemas(version="3.1.0", B={"type": "array", "prefixItems": [{"type": "string"}], "items": False})
    found = of.closed(of.convert(given_))
    check = Draft202012Validator(found)
    assert check.is_valid({"a": 1, "b": ["x"]})
    assert not check.is_valid({"a": 1})
    assert not check.is_valid({"b": ["x", 1]})
    assert not check.is_valid({"x1": 1})
    assert check.is_valid(None)


def test_what_discriminates_has_to_be_given() -> None:
    given_ = {"oneOf": [{"type": "object"}, {"type": "array"}], "discriminator": {"propertyName": "kind"}}
    assert schemas().convert(given_)["required"] == ["kind"]
    assert "required" not in schemas("answer").convert(given_)


def test_a_leaf_is_shown_in_its_place() -> None:
    of = schemas(Color={"type": "string", "enum": ["red"], "description": "its color"})
    assert of.convert({"properties": {"c": ref("Color")}})["properties"]["c"]["enum"] == ["red"]


simple = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "boolean", "number"])},
        optional={"nullable": st.booleans(), "minimum": st.integers(0, 3), "exclusiveMinimum": st.booleans()},
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner}, optional={"nullable": st.booleans()}
        ),
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            },
            optional={
                "required": st.lists(st.sampled_from("abc"), min_size=1, unique=True),
                "nullable": st.booleans(),
            },
        ),
    ),
    max_leaves=6,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 4) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(300), deadline=None)
@given(simple, values)
def test_a_converted_schema_allows_what_the_3_0_one_does(schema: Any, value: Any) -> None:
    found = schemas().convert(schema)
    Draft202012Validator.check_schema(found)
    assert Draft202012Validator(found).is_valid(value) == OAS30Validator(schema).is_valid(value)
