"""How long a text a pattern of somebody else's schema may be held against, so that matching comes to an end.

Python's matching cannot be stopped, and `^(a+)+$` takes twice as long for each further letter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_MOST_STEPS = 1e8
_NESTED = 20
"""Characters for a pattern that repeats what may be divided in several ways."""
_REPEATS = frozenset(("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"))
_FEW = 4


@lru_cache(maxsize=4096)
def longest(pattern: str) -> float:
    """Characters of the longest text; infinite for a pattern that takes each character once."""
    try:
        parsed: Any = re._parser.parse(pattern)  # type: ignore[attr-defined]
    except (re.error, OverflowError, RecursionError):
        return float("inf")  # it raises before it matches anything
    if _is_nested(parsed, False):
        return _NESTED
    degree = sum(_is_long(op, arg) for op, arg in _parts(parsed))
    if degree and not pattern.startswith(("^", r"\A")):
        degree += 1
    return float("inf") if degree < 2 else _MOST_STEPS ** (1 / degree)


def _is_nested(parsed: Any, inside: bool) -> bool:
    """True if a repetition of many holds one of a varying number, or a choice."""
    for op, arg in parsed:
        if inside and (str(op) == "BRANCH" or (str(op) in _REPEATS and arg[0] != arg[1])):
            return True
        if any(_is_nested(part, inside or _is_long(op, arg)) for part in _inner(arg)):
            return True
    return False


def _is_long(op: Any, arg: Any) -> bool:
    return str(op) in _REPEATS and arg[0] != arg[1] and arg[1] > _FEW


def _parts(parsed: Any) -> Any:
    for op, arg in parsed:
        yield op, arg
        for part in _inner(arg):
            yield from _parts(part)


def _inner(arg: Any) -> list[Any]:
    """The patterns that one part of a pattern is made of."""
    if type(arg).__name__ == "SubPattern":
        return [arg]
    if isinstance(arg, list | tuple):
        return [found for each in arg for found in _inner(each)]
    return []
