"""What of a call may be seen, and outputs on their way into the log."""

from __future__ import annotations

import enum
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.data.strict_json import storable, storable_value
from replan.core.secrets import KnownSecrets, secrets_in
from replan.core.types import ToolSpec
from replan.errors import ToolCallError
from replan.run.calls.shown import shown
from replan.run.session.outputs import pack

PASSWORD = {"type": "string", "format": "password"}
TOOL = ToolSpec(
    id="t",
    parameters={
        "type": "object",
        "properties": {
            "plain": {"type": "string"},
            "pin": PASSWORD,
            "list": {"type": "array", "items": {"type": "object", "properties": {"key": PASSWORD}}},
        },
    },
    secrets=("token",),
)


@pytest.mark.parametrize(
    ("parameters", "seen", "secrets"),
    [
        pytest.param({"plain": "x"}, {"plain": "x"}, set(), id="nothing secret"),
        pytest.param({"token": "abc"}, {"token": "***"}, {"abc"}, id="by the tool's word"),
        pytest.param({"token": {"a": ["x", 7]}}, {"token": "***"}, {"x", "7"}, id="a whole object"),
        pytest.param({"pin": "1234"}, {"pin": "***"}, {"1234"}, id="by its schema"),
        pytest.param(
            {"list": [{"key": "k", "o": 1}]}, {"list": [{"key": "***", "o": 1}]}, {"k"}, id="inside a list"
        ),
        pytest.param({"pin": None}, {"pin": "***"}, set(), id="null"),
    ],
)
def test_secrets_are_masked_where_they_are(parameters: Any, seen: Any, secrets: set[str]) -> None:
    assert shown(TOOL, parameters, 1_000, KnownSecrets()) == seen
    assert {str(value) for _, value in secrets_in(TOOL, parameters)} == secrets


def test_what_is_large_is_shown_in_few_words() -> None:
    seen = shown(TOOL, {"plain": "x" * 5_000, "rows": list(range(5_000)), "n": 1}, 1_000, KnownSecrets())
    assert seen["n"] == 1
    assert all(len(str(seen[name])) < 300 for name in ("plain", "rows"))
    assert "(5000 characters)" in seen["plain"]


class Grade(enum.IntEnum):
    GOOD = 1


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        pytest.param((1, 2), [1, 2], id="a tuple"),
        pytest.param({1: "a"}, {"1": "a"}, id="a number as key"),
        pytest.param(Grade.GOOD, 1, id="an enum"),
        pytest.param("ü 你好 😀", "ü 你好 😀", id="any script"),
        pytest.param(10**30, 10**30, id="a large whole number"),
        pytest.param(True, True, id="true"),
    ],
)
def test_an_output_is_kept_as_plain_json_values(value: Any, kept: Any) -> None:
    packed = pack(value, 1_000)
    assert (packed.value, packed.artifact, packed.stored) == (kept, None, None)
    assert type(packed.value) is type(kept)


@pytest.mark.parametrize(
    "value",
    [object(), "\ud800", {"a": {1, object()}}, math.nan, [math.inf], {1: "a", "1": "b"}],
    ids=["object", "half a sign", "inside", "no number", "an infinite one", "a key twice"],
)
def test_an_output_that_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ToolCallError, match="cannot be kept as JSON") as refused:
        pack(value, 1_000)
    assert refused.value.kind == "output"


def test_a_packed_output_is_independent_of_who_made_it() -> None:
    made = {"rows": [1]}
    packed = pack(made, 1_000)
    made["rows"].append(2)
    assert packed.value == {"rows": [1]}


def test_an_output_is_an_artifact_past_the_limit_only() -> None:
    assert pack("x" * 98, 100).artifact is None
    packed = pack("x" * 99, 100)
    assert packed.artifact is not None
    assert packed.stored is not None
    assert packed.artifact.size == len(packed.stored.data) == 101
    assert packed.value == "x" * 99


@given(
    st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_storable_values_can_be_stored_and_others_stay(value: Any) -> None:
    made = storable_value(value)
    pack(made, 10**9)
    assert storable_value(made) == made


@given(st.text())
def test_text_that_can_be_stored_stays(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        storable(text).encode()
    else:
        assert storable(text) == text
