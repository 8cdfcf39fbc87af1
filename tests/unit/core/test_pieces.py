"""A large value goes into JSON and back piece by piece, and nothing of it is another one then."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from replan.core.data.pieces import PIECE, in_pieces, is_large, weight
from replan.core.data.strict_json import NotStorable, read_strictly
from replan.core.json_reader import read_in_pieces
from thorough import examples

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    LEAVES | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=25,
)
SIZES = st.integers(300, 900)
"""Of pieces and windows: small ones, so that every value has many."""
TEXTS = ["x", 'ü\n"\\', "日本", "\U0001f680", "\\\\"]


@st.composite
def large(draw: st.DrawFn) -> Any:
    """A value of many pieces: long texts, long lists, and what is nested."""
    part: Any = draw(VALUES)
    for _ in range(draw(st.integers(1, 4))):
        match draw(st.sampled_from(["list", "object", "text"])):
            case "list":
                part = [part, *([draw(VALUES)] * draw(st.integers(0, 30))), draw(VALUES)]
            case "object":
                part = {f"f{n}": draw(LEAVES) for n in range(draw(st.integers(0, 9)))} | {"in": part}
            case _:
                part = [draw(st.sampled_from(TEXTS)) * draw(st.integers(0, 900)), part]
    return part


def one(piece: Any, depth: int) -> tuple[Any, bytes]:
    data = to_json(piece, inf_nan_mode="constants")
    return read_strictly(data, depth), data


@settings(max_examples=examples(150), deadline=None)
@given(large(), SIZES)
def test_what_is_written_in_pieces_is_what_is_written_at_once(value: Any, size: int) -> None:
    most = 0

    def measured(piece: Any, depth: int) -> tuple[Any, bytes]:
        nonlocal most
        most = max(most, weight(piece, 10 * size))
        return one(piece, depth)

    plain, parts = in_pieces(value, measured, piece=size)
    assert most <= 2 * size + 200, "no piece is large itself"
    written = b"".join(parts)
    assert written == to_json(value)
    assert plain == value
    assert read_in_pieces(written.decode(), size) == value


@settings(max_examples=examples(150), deadline=None)
@given(large(), st.sampled_from([None, 2]), SIZES)
def test_json_text_is_read_in_pieces_as_it_is_read_at_once(value: Any, indent: int | None, size: int) -> None:
    text = f" \n{json.dumps(value, indent=indent)}\t"
    assert read_in_pieces(text, size) == json.loads(text)


@settings(max_examples=examples(100), deadline=None)
@given(large(), st.data(), SIZES)
def test_a_text_that_is_cut_or_followed_by_more_is_refused_as_at_once(
    value: Any, data: st.DataObject, size: int
) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text) - 1))] if data.draw(st.booleans()) else text + " x"
    try:
        meant = json.loads(cut)
    except ValueError:
        with pytest.raises(json.JSONDecodeError):
            read_in_pieces(cut, size)
    else:
        assert read_in_pieces(cut, size) == meant


SIGNS = [
    "a",
    "é",
    "😀",
    "u",
    "d83d",
    "x" * 30,
    r"\\",
    r"\"",
    r"\n",
    r"\/",
    r"\u0041",
    r"\ud83d",
    r"\ude00",
    r"\ud83d\ude00",
]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from([*SIGNS, "\x01"]), min_size=60, max_size=200), SIZES, st.integers(0, 3))
def test_a_long_text_is_read_in_parts_whatever_stands_where_they_end(
    signs: list[str], size: int, cut: int
) -> None:
    text = f'["{"".join(signs)}", 1]'
    text = text[: len(text) - cut]
    try:
        meant = json.loads(text)
    except ValueError:
        with pytest.raises(json.JSONDecodeError):
            read_in_pieces(text, size)
    else:
        assert read_in_pieces(text, size) == meant


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    "form", ['["{text}", %s]', '{"a": {"b": [1, %s], "c": "{text}"}}', "[[%s, 1]]", "%s"]
)
def test_what_is_no_number_of_json_is_refused_in_a_large_text_as_in_a_small_one(word: str, form: str) -> None:
    def refused(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    text = (form % word).replace("{text}", "x" * 300)
    with pytest.raises(ValueError, match=f"{word} is not JSON"):
        read_in_pieces(text, 50 if len(text) > 60 else 5, constant=refused)
    quoted = text.replace(word, f'"{word}"')
    assert read_in_pieces(quoted, 50, constant=refused) == json.loads(quoted)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param([{"p": 1.0}] * 20_000 + [{"p": math.nan}], "NaN at [20000].p is no number", id="item"),
        pytest.param(
            {"rows": [[0] * 9_000, [0] * 9_000 + [math.inf]]}, "Infinity at rows[1][9000] is no", id="inner"
        ),
        pytest.param(
            {"a": "x" * PIECE, "b": math.nan}, "NaN at b is no number", id="field beside a large one"
        ),
        pytest.param({"a": "x" * PIECE, 1: 0, "1": 2}, 'both written "1"', id="like keys in one piece"),
        pytest.param({1: "x" * PIECE, "1": "y" * PIECE}, 'both written "1"', id="like keys in two pieces"),
    ],
)
def test_what_json_cannot_hold_is_named_with_its_place_in_the_whole(value: Any, says: str) -> None:
    with pytest.raises(NotStorable) as caught:
        in_pieces(value, one)
    assert says in str(caught.value)


def test_how_deep_a_value_may_be_does_not_depend_on_its_size() -> None:
    def deep(levels: int, core: Any) -> Any:
        for _ in range(levels):
            core = [core]
        return core

    for core in (1, "x" * (2 * PIECE), ["x" * PIECE, [1] * 20]):
        in_pieces(deep(150, core), one)
        with pytest.raises((ValueError, RecursionError)):
            in_pieces(deep(220, [core, deep(2, 1)]), one)


@pytest.mark.parametrize(
    "value", [None, True, 10**30, 1.5, "text", b"bytes", [1, {"a": [2]}], {"k": "v"}, object()]
)
def test_small_values_are_small(value: Any) -> None:
    assert not is_large(value)


@pytest.mark.parametrize(
    "value",
    [
        "x" * PIECE,
        [[]] * 10_000,
        {str(n): n for n in range(10_000)},
        {"k" * PIECE: 1},
        [["x" * 1000] * 50] * 10,
        ({},) * 10_000,
    ],
)
def test_large_values_are_found_without_going_through_all_of_them(value: Any) -> None:
    assert is_large(value)
    assert weight(value, 100) > 100


def test_a_value_that_contains_itself_is_large_and_no_value() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert is_large(loop)
    with pytest.raises((ValueError, RecursionError)):
        in_pieces(loop, one)
