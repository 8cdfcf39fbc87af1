"""Which of a call's parameters tell its effect from another one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan import tool
from replan.core.calls.telling import Telling, unique_problem, unique_text, without_credentials
from replan.core.types import ToolSpec
from replan.errors import ToolDefinitionError

WORDS = {"type": "string"}


def spec(*by: str, **properties: Any) -> ToolSpec:
    return ToolSpec(
        id="t", parameters={"type": "object", "properties": properties}, unique_by=by, secrets=("hidden",)
    )


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"title": "A", "auth": "x"}, {"title": "A"}),
        ({"a": [{"sessionId": 1, "b": 2}]}, {"a": [{"b": 2}]}),
        ("https://x/t?token=1&a=2", "https://x/t?a=2"),
        ("/t?a=2&api_key=${l.output.key}", "/t?a=2&"),
        ("what? token=1 & more", "what? token=1 & more"),
        ("token=1", "token=1"),
        ({"page_token": "p"}, {"page_token": "p"}),
        ({"Authorization": "x", "headers": {"a": 1}}, {}),
    ],
)
def test_credentials_are_left_out_wherever_they_stand(value: Any, left: Any) -> None:
    assert without_credentials(value) == left


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "token", "title", "sid"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(values)
def test_what_is_left_is_left_again_and_what_has_none_is_the_very_same(value: Any) -> None:
    left = without_credentials(value)
    assert without_credentials(left) == left
    if left == value:
        assert left is value


def test_a_tool_says_by_parameters_or_their_fields_what_one_effect_is() -> None:
    by = spec("a", "body.title", a=WORDS, body={"type": "object"}, c={"default": 1})
    one = unique_text(by, {"a": "1", "body": {"title": "T", "x": 1}, "c": 5})
    assert one == unique_text(by, {"a": "1", "body": {"title": "T"}})
    assert one != unique_text(by, {"a": "1", "body": {"title": "U"}})
    assert one != unique_text(by, {"a": "1"})
    assert unique_text(by, {"body": "${x.output}"}) != unique_text(by, {"body": "${y.output}"})
    with_default = spec("c", c={"default": 1})
    assert unique_text(with_default, {}) == unique_text(with_default, {"c": 1})


def test_where_every_parameter_is_a_credential_each_of_them_tells() -> None:
    assert Telling.of(spec(token=WORDS, session=WORDS)).parts({"token": "1"}) == {"token": "1"}
    assert Telling.of(spec(token=WORDS, a=WORDS)).parts({"token": "1", "a": "2"}) == {"a": "2"}


BODY = {"type": "object", "properties": {"title": WORDS, "more": {"$ref": "#/properties/body"}}}


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        ("b", "it has no parameter 'b'"),
        ("a.", "is no parameter"),
        ("hidden", "is a secret"),
        ("a.b", "is no parameter"),
        ("body.titel", "is no parameter"),
        ("many.title", "is no parameter"),
        ("either.titel", "is no parameter"),
        ("body.title", ""),
        ("body.more.more.title", ""),
        ("either.title", ""),
        ("free.any.thing", ""),
    ],
)
def test_what_is_said_of_no_parameter_is_told(by: str, problem: str) -> None:
    either = {"anyOf": [{"$ref": "#/properties/body"}, {"type": "null"}]}
    many = {"type": "array", "items": BODY}
    found = unique_problem(
        spec(by, a=WORDS, hidden=WORDS, body=BODY, many=many, either=either, free={"type": "object"})
    )
    assert problem in found
    assert bool(found) == bool(problem)


def test_a_function_that_says_it_of_no_parameter_is_refused() -> None:
    from replan.tools.functions.source import FunctionSource

    @tool(unique_by=["invoice"])
    def pay(to: str) -> str:
        """Pay."""
        return to

    with pytest.raises(ToolDefinitionError, match="no parameter 'invoice'"):
        FunctionSource([pay])
    with pytest.raises(ToolDefinitionError, match="effect='once'"):
        tool(effect="reads", unique_by=["to"])(lambda to: to)
