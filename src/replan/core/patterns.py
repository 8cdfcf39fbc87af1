"""How long a text a pattern of somebody else's schema may be held against, so that matching comes to an end.

Python's matching cannot be stopped, and `^(a+)+$` takes twice as long for each further letter. So the ways are counted
in which a backtracking matcher may divide a text, as if each character fitted each place of the pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

_MOST_STEPS = 1e8
"""Some tenths of a second."""
_COUNTED = 64
"""Characters up to which the ways are counted; beyond, they grow as a power."""
_MOST_TURNS = 200
_REPEATS = frozenset(("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"))
_ONCE = frozenset(("ATOMIC_GROUP", "POSSESSIVE_REPEAT"))
_ASIDE = frozenset(("ASSERT", "ASSERT_NOT"))
_Counts = list[float]
"""Of `_COUNTED + 1` numbers, one for each length of text."""


class _Ways(NamedTuple):
    """How a part of a pattern meets a text that fits everywhere."""

    ends: _Counts
    """By length: the ways of taking exactly so many characters."""
    steps: _Counts
    """By length: the steps until every way on a text so long is tried."""


class _TooMany(Exception):
    """It repeats more often than can be counted."""


@lru_cache(maxsize=4096)
def longest(pattern: str) -> float:
    """Characters of the longest text; infinite for a pattern of one length, below zero for one that takes none."""
    try:
        parsed: Any = re._parser.parse(pattern)  # type: ignore[attr-defined]
    except (re.error, OverflowError, RecursionError):
        return float("inf")  # it raises before it matches anything
    try:
        steps = _of_sequence(parsed).steps
    except (_TooMany, RecursionError):
        return -1
    degree = sum(_is_long(op, arg) for op, arg in _parts(parsed))
    if not pattern.startswith(("^", r"\A")):
        steps = [count * (length + 1) for length, count in enumerate(steps)]
        degree += 1
    fitting = sum(count <= _MOST_STEPS for count in steps) - 1
    if fitting < _COUNTED:
        return fitting
    return float("inf") if degree == 0 else _COUNTED * (_MOST_STEPS / steps[-1]) ** (1 / degree)


def _of_sequence(parts: Any) -> _Ways:
    ends, steps = _no_text(), [1.0] * (_COUNTED + 1)
    for op, arg in parts:
        part = _of_part(str(op), arg)
        steps = _sum(steps, _folded(ends, part.steps))
        ends = _folded(ends, part.ends)
    return _Ways(ends, steps)


def _of_part(op: str, arg: Any) -> _Ways:
    if op in _REPEATS:
        low, high, body = arg
        found = _of_repetition(_of_sequence(body), int(low), int(high))
    elif op == "AT":
        return _Ways(_no_text(), [1.0] * (_COUNTED + 1))
    elif op == "GROUPREF":  # as long as the group was
        return _Ways([1.0] * (_COUNTED + 1), [1.0] * (_COUNTED + 1))
    elif inner := _inner(arg):
        ways = [_of_sequence(each) for each in inner]
        found = _Ways(_sum(*(each.ends for each in ways)), _sum(*(each.steps for each in ways)))
        if op == "GROUPREF_EXISTS" and len(inner) == 1:
            found = _Ways(_sum(found.ends, _no_text()), found.steps)
    else:  # one character
        return _Ways([0.0, 1.0, *[0.0] * (_COUNTED - 1)], [1.0] * (_COUNTED + 1))
    if op in _ASIDE:
        return _Ways(_no_text(), found.steps)
    return _Ways([min(count, 1.0) for count in found.ends], found.steps) if op in _ONCE else found


def _of_repetition(body: _Ways, low: int, high: int) -> _Ways:
    """Past the least number, a turn that takes nothing is the last."""
    more = [0.0, *body.ends[1:]]
    turns = _no_text()
    ends, steps = [0.0] * (_COUNTED + 1), [1.0] * (_COUNTED + 1)
    for turn in range(high):
        if turn == _MOST_TURNS:
            raise _TooMany
        if turn >= low:
            ends = _sum(ends, turns)
        steps = _sum(steps, _folded(turns, body.steps))
        turns = _folded(turns, body.ends if turn < low else more)
        if not any(turns):
            break
    else:
        ends = _sum(ends, turns)
    return _Ways(ends, steps)


def _no_text() -> _Counts:
    return [1.0, *[0.0] * _COUNTED]


def _sum(*counts: _Counts) -> _Counts:
    return [sum(each) for each in zip(*counts, strict=True)]


def _folded(first: _Counts, then: _Counts) -> _Counts:
    """By length: what comes of every way to divide the text between the two."""
    found = [0.0] * (_COUNTED + 1)
    for taken, ways in enumerate(first):
        if ways:
            for left in range(_COUNTED + 1 - taken):
                found[taken + left] += ways * then[left]
    return found


def _is_long(op: Any, arg: Any) -> bool:
    return str(op) in _REPEATS and arg[0] != arg[1] and arg[1] > _COUNTED


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
