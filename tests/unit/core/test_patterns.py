"""Patterns of other people's schemas come to an end."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from cpu_time import cpu
from hypothesis import given, settings
from hypothesis import strategies as st

from replan.core.patterns import longest
from replan.core.schemas import problems

MANY = "a" * 5_000 + "!"
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
    r"^(a)?(?(1)(a+)+|b)$",
    "^(a+?)+?b",
    "^(a|a+b)+c",
    "^" + "a?" * 30 + "a" * 30 + "$",
    "^" + "a{0,4}" * 20 + "$",
]
needs_timer = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="only POSIX has a timer of CPU time (setitimer)"
)


def texts_for(pattern: str) -> list[str]:
    """As long as may be, and hard to be done with; and far too long."""
    most = int(min(longest(pattern), 5_000))
    return ["a" * max(most - 1, 0) + "!", "a" * max(most, 0), MANY]


@needs_timer
@pytest.mark.parametrize("pattern", HOSTILE)
def test_matching_ends_with_the_longest_text(pattern: str) -> None:
    for text in texts_for(pattern):
        with cpu(20.0):
            problems({"additionalProperties": {"pattern": pattern}}, {"k": text})
            problems({"patternProperties": {pattern: {}}, "additionalProperties": False}, {text: "v"})


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
    for text in texts_for(whole):
        with cpu(20.0):
            problems({"pattern": whole}, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^[a-z]+$", MANY),
        ("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", MANY),
        (r"^\d{4}-\d\d?$", MANY),
        ("^(red|green)$", MANY),
        ("a+b", MANY),
        ("^[^@]+@[^@]+$", MANY),
        (r"^[\w.+-]+@[\w-]+\.[\w.-]+$", "a" * 300),
        ("^(https?)://[^\\s/$.?#].[^\\s]*$", MANY),
        ("^[a-z]+(-[a-z]+)*$", "not a slug, but nearly as long"),
        (r"^[a-z]{1,63}(\.[a-z]{1,63}){1,5}$", "this.is.not.a.host.of.ours.as.it.has.many"),
        (".*foo.*bar.*", "b" * 100),
    ],
)
def test_what_ends_by_itself_is_checked(pattern: str, text: str) -> None:
    assert len(text) <= longest(pattern)
    assert problems({"pattern": pattern}, text)


def test_a_bad_pattern_is_told() -> None:
    assert "cannot be applied" in problems({"pattern": "("}, "x")[0]


def test_what_is_nested_too_deep_to_be_counted_is_held_against_nothing() -> None:
    schema: dict[str, Any] = {"pattern": "^" + "(?:" * 60 + "a" + ")+" * 60 + "$"}
    with cpu(20.0):
        problems(schema, MANY)
        problems(schema, "a" * 9 + "!")
