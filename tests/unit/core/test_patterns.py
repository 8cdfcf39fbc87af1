"""Patterns of other people's schemas mean what ECMA-262 says, and come to an end."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.data.schema.patterns import ecma
from replan.core.data.validation import faults, unread_patterns

HOSTILE = [
    "^(a+)+$",
    "(a|a)*$",
    "^(a?){50,90}$",
    "^(a?){60000}b",
    "(a{0,3}){0,500}b",
    "^(?:(?:a{1,9})*)*$",
    "a*a*a*a*b",
    "(?=(a+)+$)x",
    "(?!(a+)+$)",
    "^(a|aa)+$",
    r"((a+)\2)+b",
    "^(a+?)+?b",
    "^(a|a+b)+c",
    "^" + "a?" * 30 + "a" * 30 + "$",
    "^" + "a{0,4}" * 20 + "$",
    "(a.{0,9}){200}!$",
    "((a{1,1000}){1,1000}){1,1000}",
    "^" + "(?:" * 60 + "a" + ")+" * 60 + "$",
]
needs_timer = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="only POSIX has a timer of CPU time (setitimer)"
)


def fits(schema: dict[str, Any], value: Any) -> bool:
    return not faults(schema, value)


@needs_timer
@pytest.mark.parametrize("pattern", HOSTILE)
@pytest.mark.parametrize("text", ["a" * 200_000 + "!", "a" * 200_000, "é" * 200_000])
def test_matching_ends_with_the_longest_text(pattern: str, text: str) -> None:
    with cpu(5.0):
        faults({"additionalProperties": {"pattern": pattern}}, {"k": text})
        faults({"patternProperties": {pattern: {}}, "additionalProperties": False}, {text: "v"})


@needs_timer
def test_fifty_hostile_patterns_of_one_schema_end() -> None:
    schema = {
        "allOf": [{"pattern": f"^(a+)+{'b' * n}$"} for n in range(25)]
        + [{"pattern": f"(a.{{0,{n}}}){{{n}}}c$"} for n in range(25)]
    }
    with cpu(5.0):
        assert faults(schema, "a" * 100_000)


@pytest.mark.parametrize(
    ("pattern", "fit", "unfit"),
    [
        pytest.param("^a[^]b$", ["a\nb", "axb"], ["ab"], id="any sign"),
        pytest.param("^(a|[])$", ["a"], ["", "[]"], id="no sign"),
        pytest.param(r"^\0$", ["\0"], ["0", ""], id="NUL"),
        pytest.param(r"^[\0a]+$", ["a\0"], ["0"], id="NUL in a class"),
        pytest.param(r"^\\0$", ["\\0"], ["\0"], id="a backslash and a nought"),
        pytest.param(r"^[\[^]+$", ["[^"], ["a"], id="a bracket in a class"),
    ],
)
def test_what_only_ecma_262_writes_so_is_read_as_it_means(
    pattern: str, fit: list[str], unfit: list[str]
) -> None:
    assert unread_patterns({"pattern": pattern}) == ()
    assert all(fits({"pattern": pattern}, text) for text in fit)
    assert not any(fits({"pattern": pattern}, text) for text in unfit)


@pytest.mark.parametrize(
    "pattern", ["(", "[", "*", "[^", "a{2,1}", r"^(\d)\1$", "(?=a)", "((a{1,999}){1,999}){1,999}"]
)
def test_what_is_no_pattern_or_none_that_ends_is_not_enforced_and_told(pattern: str) -> None:
    assert unread_patterns({"pattern": pattern}) == (pattern,)
    assert fits({"pattern": pattern}, "anything")


_ATOMS = st.sampled_from(["a", "[ab]", ".", r"\w"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2,}", "{0,7}", "{3}", "*?", "+?"])).map(
            lambda made: f"(?:{made[0]}){made[1]}"
        ),
    ),
    max_leaves=8,
)


@needs_timer
@settings(max_examples=60, deadline=None)
@given(_PATTERNS, st.booleans())
def test_matching_ends_whatever_is_repeated(pattern: str, anchored: bool) -> None:
    whole = f"^{pattern}$" if anchored else f"{pattern}!!"
    with cpu(5.0):
        faults({"pattern": whole}, "a" * 20_000 + "!")
    assert not unread_patterns({"pattern": whole})


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        (r"^\p{L}+$", "Zoë", "R2"),
        (r"^(?<year>\d{4})-\d\d$", "2026-01", "26-01"),
        (r"^[\w-\.]+@[\w-]+$", "ann-b.c@x-y", "ann b@x"),
        (r"^[\d-x]+$", "1-x", "y"),
        (r"^[x-\d]+$", "1-x", "y"),
        (r"^\d+$", "12", "١٢"),
        (r"^\/[a-z-]+$", "/a-b", "a"),
        (r"^[a-z]+$", "a", "a\n"),
        ("^(red|green)$", "red", "blue"),
        ("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "0" * 8 + "-0000" * 3 + "-" + "0" * 12, "0"),
        ("^(https?)://[^\\s/$.?#].[^\\s]*$", "https://x.y", "ftp://x.y"),
        (r"^[a-z]{1,63}(\.[a-z]{1,63}){1,5}$", "a.b", "this is no host"),
        ("^.{1,255}$", "x", ""),
    ],
)
def test_a_pattern_means_what_ecma_262_says(pattern: str, fitting: str, other: str) -> None:
    schema = {"pattern": pattern}
    assert unread_patterns(schema) == ()
    assert fits(schema, fitting)
    assert [fault.message for fault in faults(schema, other)] == [
        f"{other!r} does not match {ecma(pattern)!r}"
    ]


@pytest.mark.parametrize("pattern", ["(", "[", "(?=x)y", r"(a)\1", "a{", r"\Z"])
def test_what_cannot_be_read_is_told_and_not_enforced(pattern: str) -> None:
    schema = {
        "properties": {"a": {"type": "string", "pattern": pattern}, "b": {"pattern": "^b$"}},
        "patternProperties": {pattern: {"type": "integer"}},
        "additionalProperties": False,
    }
    assert unread_patterns(schema) == (pattern,)
    assert fits(schema, {"a": "anything", "more": 1}), "what the pattern of names may allow is not forbidden"
    assert [fault.path for fault in faults(schema, {"a": 1, "b": "c"})] == [("a",), ("b",)]


def test_what_only_looks_like_a_pattern_is_none() -> None:
    schema = {"properties": {"pattern": {"const": {"pattern": "("}}}, "default": {"pattern": "["}}
    assert unread_patterns(schema) == ()
    assert fits(schema, {"pattern": {"pattern": "("}})
