"""Patterns of other people's schemas come to an end."""

from __future__ import annotations

import time
from typing import Any

import pytest

from replan.core.patterns import longest
from replan.core.schemas import problems

MANY = "a" * 5_000 + "!"


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "(a|a)*$", "^(a?){50,90}$", "^(?:(?:a{1,9})*)*$", "a*a*a*a*b", "(?=(a+)+$)x", "^(a|aa)+$"],
)
@pytest.mark.parametrize("where", ["value", "key"])
def test_matching_ends_in_time(pattern: str, where: str) -> None:
    schema: dict[str, Any] = {"additionalProperties": {"pattern": pattern}}
    value = {"k": MANY}
    if where == "key":
        schema, value = {"patternProperties": {pattern: {}}, "additionalProperties": False}, {MANY: "v"}
    begun = time.perf_counter()
    problems(schema, value)
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^[a-z]+$", MANY),
        ("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", MANY),
        (r"^\d{4}-\d\d?$", MANY),
        ("^(red|green)$", MANY),
        ("^[^@]+@[^@]+$", "nobody"),
        ("^[a-z]+(-[a-z]+)*$", "not a slug"),
    ],
)
def test_what_ends_by_itself_is_checked(pattern: str, text: str) -> None:
    assert len(text) <= longest(pattern)
    assert problems({"pattern": pattern}, text)


def test_a_bad_pattern_is_told() -> None:
    assert "cannot be applied" in problems({"pattern": "("}, "x")[0]
