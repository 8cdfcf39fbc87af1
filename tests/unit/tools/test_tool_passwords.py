"""Passwords in schemas that others wrote."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from replan.tools.mcp.listing import Override, listed
from replan.tools.passwords import password_names
from replan.tools.remote.messages import specs_from_wire

PASSWORD = {"type": "string", "format": "password"}
DEFS = {
    "User": {"type": "object", "properties": {"name": {"type": "string"}, "word": PASSWORD}},
    "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}},
    "a/b": PASSWORD,
}


@pytest.mark.parametrize(
    ("part", "secret"),
    [
        (PASSWORD, True),
        ({"anyOf": [PASSWORD, {"type": "null"}]}, True),
        ({"type": "array", "items": PASSWORD}, True),
        ({"$ref": "#/$defs/User"}, True),
        ({"type": "array", "items": {"allOf": [{"$ref": "#/$defs/User"}]}}, True),
        ({"$ref": "#/$defs/a~1b"}, True),
        ({"$ref": "#/definitions/Word"}, True),
        ({"$ref": "#/$defs/User/properties/word"}, True),
        ({"$ref": "#/$defs/Node"}, False),
        ({"$ref": "#/$defs/Nothing"}, False),
        ({"type": "string"}, False),
        (True, False),
    ],
)
def test_a_parameter_is_secret_that_has_a_password_anywhere(part: Any, secret: bool) -> None:
    schema = {"type": "object", "properties": {"a": part, "b": {"type": "string"}}, "$defs": DEFS}
    schema["definitions"] = {"Word": PASSWORD}  # as in drafts before 2019-09, which many servers still write
    assert password_names(schema) == (("a",) if secret else ())
    tool = types.Tool(name="t", input_schema=schema)
    made = listed(tool, None, source="s", trust_annotations=True, override=Override(), timeout_secs=None)
    assert made.spec.secrets == password_names(schema)


INNER = {"properties": {"word": PASSWORD, "name": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"type": "object"}, INNER]},
        {"oneOf": [INNER, {"properties": {"key": {"type": "string"}}}]},
        {"anyOf": [{"allOf": [INNER]}]},
        {"if": {"required": ["name"]}, "then": INNER},
        {"dependentSchemas": {"name": INNER}},
        {"$ref": "#/$defs/Login", "$defs": {"Login": INNER}},
        {"allOf": [{"$ref": "#/$defs/Login"}], "$defs": {"Login": {"allOf": [{"$ref": "#"}, INNER]}}},
    ],
)
def test_it_is_found_wherever_the_object_is_described(schema: dict[str, Any]) -> None:
    assert password_names({"type": "object", **schema}) == ("word",)


def test_a_service_need_not_say_it_twice() -> None:
    schema = {"type": "object", "properties": {"word": {"anyOf": [PASSWORD, {"type": "null"}]}, "pin": {}}}
    said = [{"id": "a", "effect": "reads", "parameters": schema, "secrets": ["pin"]}]
    ((found,), problems) = specs_from_wire(said, source="s", keys_are_durable=False)
    assert (found.secrets, problems) == (("pin", "word"), [])
