"""Texts that a path makes out of what is secret: `reverse(token)` gives away as much as the token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replan.core.references.meter import Meter
from replan.core.references.paths import PathError, select


def derived(path: str, seen: Any, real: Any) -> Iterator[str]:
    """The texts in what the path gives of `real` that come out otherwise of `seen`, the same with its secrets masked.

    A text that stands in the value as it is, secret or not, is not made.
    """
    try:
        made = set(_texts(select(path, real, Meter())))
    except PathError:
        return
    try:
        shown = set(_texts(select(path, seen, Meter())))
    except PathError:
        shown = set()
    yield from made - shown - set(_texts(real))


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield str(one)
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            waiting += one
