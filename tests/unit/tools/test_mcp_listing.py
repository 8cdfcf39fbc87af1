"""When a result counts as wrapped."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from replan.core.references.kept import TAKES_FILE
from replan.tools.mcp.listing import WRAPPED, Override, listed

VALUE = {"title": "Result", "$ref": "#/$defs/Fruit"}
DEFS = {"Fruit": {"type": "string", "enum": ["plum"]}}


def wrapping(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"result": VALUE}, "required": ["result"], "$defs": DEFS, **more}


@pytest.mark.parametrize(
    ("output", "wrapped"),
    [
        pytest.param(wrapping(title="pickOutput"), True, id="the title of the Python SDK"),
        pytest.param(wrapping(title="pick_implOutput"), True, id="of a function with another name"),
        pytest.param(wrapping(title="_pOutput"), True, id="of a private one"),
        pytest.param(wrapping(title="PickOutput"), False, id="a model's class"),
        pytest.param(wrapping(title="Output"), False, id="no name before it"),
        pytest.param(wrapping(title="the Output"), False, id="no function's name"),
        pytest.param(wrapping(**{WRAPPED: True}), True, id="the mark of FastMCP"),
        pytest.param(wrapping(), False, id="neither"),
        pytest.param(wrapping(title="Pick"), False, id="a title of its own"),
        pytest.param({**wrapping(title="pickOutput"), "required": []}, False, id="not always there"),
        pytest.param(
            {**wrapping(title="pickOutput"), "properties": {"result": VALUE, "more": {}}},
            False,
            id="two fields",
        ),
        pytest.param(None, False, id="no schema"),
    ],
)
def test_a_value_is_unwrapped_where_the_convention_is_certain(output: Any, wrapped: bool) -> None:
    tool = types.Tool(name="pick", input_schema={"type": "object"})
    made = listed(tool, output, source="s", trust_annotations=True, override=Override(), timeout_secs=None)
    assert made.wrapped is wrapped
    assert made.spec.output_schema == ({"$ref": "#/$defs/Fruit", "$defs": DEFS} if wrapped else output)


def test_a_server_that_says_that_it_takes_files_has_none_of_the_tasks() -> None:
    inner = {"type": "string", TAKES_FILE: True}
    schema = {
        "type": "object",
        "properties": {"a": inner, "b": {"type": "array", "items": inner}, TAKES_FILE: {"type": "string"}},
        "anyOf": [{"properties": {"c": inner}}],
    }
    tool = types.Tool(name="take", input_schema=schema)
    made = listed(tool, None, source="s", trust_annotations=True, override=Override(), timeout_secs=None)
    plain = {"type": "string"}
    assert made.spec.parameters == {
        "type": "object",
        "properties": {"a": plain, "b": {"type": "array", "items": plain}, TAKES_FILE: plain},
        "anyOf": [{"properties": {"c": plain}}],
    }
