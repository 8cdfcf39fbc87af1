"""What of a result is the output: the structured value, and whatever else says more than that."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import example, given
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
        pytest.param(False, ["0"], {"result": False, "content": ["0"]}, id="a number that is no truth value"),
        pytest.param([True], ["1"], {"result": [True], "content": ["1"]}, id="the same, item by item"),
        pytest.param({"a": 0}, ['{"a": false}'], {"a": 0, "content": ['{"a": false}']}, id="and within"),
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


def repeats(value: Any, content: list[Any]) -> bool:
    """True if the texts are the items of the value, one by one."""
    texts = [each for each in content if each is not IMAGE]
    return isinstance(value, list) and len(value) == len(texts) and all(map(says, texts, value))


def says(text: str, *values: Any) -> bool:
    try:
        return json.dumps(json.loads(text), sort_keys=True) in [
            json.dumps(one, sort_keys=True) for one in values
        ]
    except ValueError:
        return False


@given(JSON, st.lists(st.text(min_size=1) | st.just(IMAGE), max_size=3))
@example([0], ["0"])
@example([False], ["0"])
def test_no_part_is_lost(value: Any, content: list[Any]) -> None:
    found = given_as(value, *content)
    told = json.dumps(found, ensure_ascii=False)
    for each in content:
        if each is IMAGE:
            assert SHOWN["data"] in told
        elif each.strip() and each != value and not repeats(value, content):
            assert json.dumps(each, ensure_ascii=False) in told or says(each, value, {"result": value})
