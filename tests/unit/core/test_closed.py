"""A schema with no other fields than it names takes all that it names, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replan.core.data.schemas import closed, problems

ID: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}}
NAME: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
NICK: dict[str, Any] = {"properties": {"nick": {"type": "string"}}}
DEFS: dict[str, Any] = {
    "$defs": {"name": NAME, "both": {"allOf": [{"$ref": "#/$defs/name"}, NICK]}, "alone": NICK}
}


@pytest.mark.parametrize(
    ("schema", "more"),
    [
        (ID, {}),
        (ID | {"allOf": [NAME]}, {"name": "Ann"}),
        (ID | DEFS | {"allOf": [{"$ref": "#/$defs/name"}]}, {"name": "Ann"}),
        (ID | DEFS | {"allOf": [{"$ref": "#/$defs/both"}]}, {"name": "Ann", "nick": "An"}),
        (ID | DEFS | {"$ref": "#/$defs/both"}, {"name": "Ann"}),
        (ID | {"anyOf": [NAME, NICK]}, {"nick": "An"}),
        (ID | {"oneOf": [NAME | {"required": ["name"]}, NICK | {"required": ["nick"]}]}, {"nick": "An"}),
        (ID | {"if": {"required": ["name"]}, "then": NAME}, {"name": "Ann"}),
        (ID | {"patternProperties": {"^x-": {}}}, {"x-a": 1}),
        (ID | {"properties": {"id": {}, "in": ID | {"allOf": [NAME]}}}, {"in": {"id": "2", "name": "Ann"}}),
        ({"anyOf": [ID, NAME | {"required": ["name"]}]}, {}),
    ],
)
def test_what_is_described_is_taken_and_nothing_else(schema: dict[str, Any], more: dict[str, Any]) -> None:
    value = {"id": "1", **more}
    assert problems(schema, value) == []
    assert problems(closed(schema), value) == []
    assert problems(closed(schema), {**value, "other": 1})


@pytest.mark.parametrize(
    "value",
    [{"in": {"name": "Ann", "other": 1}}, {"list": [{"nick": "An", "other": 1}]}, {"one": {"nick": "An", "other": 1}}],
)  # fmt: skip
def test_it_is_closed_inside_too(value: dict[str, Any]) -> None:
    shared = {
        "properties": {
            "in": NAME,
            "list": {"items": {"$ref": "#/$defs/alone"}},
            "one": {"anyOf": [NICK, {"type": "null"}]},
        },
        **DEFS,
    }
    schema = json.loads(json.dumps(shared))  # no two places are one object
    assert problems(schema, value) == []
    assert problems(closed(schema), value)
    assert problems(closed(schema), {**value, "other": 1})
