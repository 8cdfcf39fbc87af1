"""What of a result is the output: the structured value, and whatever else says more than that."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.tools.mcp.listing import WRAPPED, Override, listed
from replan.tools.mcp.results import value_of

ANY = {"type": "object", "properties": {"result": {}}, "required": ["result"], WRAPPED: True}
IMAGE = types.ImageContent(data="iVBORw0KGgo=", mime_type="image/png")
SHOWN = {"type": "image", "mimeType": "image/png", "data": "data:image/png;base64,iVBORw0KGgo="}


def given_as(value: Any, *content: Any) -> Any:
    """What comes of a wrapped value with that content beside it."""
    tool = types.Tool(name="pick", input_schema={"type": "object"})
    made = listed(tool, ANY, source="s", trust_annotations=True, override=Override(), timeout_secs=None)
    blocks = [types.TextContent(text=each) if isinstance(each, str) else each for each in content]
    return value_of(types.CallToolResult(content=blocks, structured_content={"result": value}), made)


@pytest.mark.parametrize(
    ("value", "content", "expected"),
    [
        pytest.param("plum", ["plum"], "plum", id="a text, as it is"),
        pytest.param(3, ["3"], 3, id="a number"),
        pytest.param([{"a": 1}, {"a": 2}], ['{"a": 1}', '{"a": 2}'], [{"a": 1}, {"a": 2}], id="item by item"),
        pytest.param(["x", "y"], ["x", "y"], ["x", "y"], id="texts, item by item"),
        pytest.param(3, ['{"result": 3}'], 3, id="as it is wrapped"),
        pytest.param(3, ["3", IMAGE], {"result": 3, "content": [SHOWN]}, id="an image beside"),
        pytest.param(
            [1, 2], ["two numbers"], {"result": [1, 2], "content": ["two numbers"]}, id="other words"
        ),
    ],
)
def test_what_only_repeats_the_value_goes_and_all_else_stays(
    value: Any, content: list[Any], expected: Any
) -> None:
    assert given_as(value, *content) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.lists(st.text(min_size=1) | st.just(IMAGE), max_size=3))
def test_no_part_is_lost(value: Any, content: list[Any]) -> None:
    found = given_as(value, *content)
    told = json.dumps(found, ensure_ascii=False)
    for each in content:
        if each is IMAGE:
            assert SHOWN["data"] in told
        elif each.strip() and each != value:
            assert json.dumps(each, ensure_ascii=False) in told or json.loads(each) in (
                value,
                {"result": value},
            )
