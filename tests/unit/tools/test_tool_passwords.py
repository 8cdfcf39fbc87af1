"""Passwords in schemas that others wrote."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from replan.tools.mcp.listing import Override, listed
from replan.tools.passwords import password_names

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
