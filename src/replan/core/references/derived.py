"""Texts that a path makes out of what is secret: `reverse(token)` gives away as much as the token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replan.core.references.evaluate import OfASecret
from replan.core.references.meter import Meter
from replan.core.references.paths import PathError, select
from replan.core.walk import every


def derived(path: str, seen: Any, real: Any) -> Iterator[str]:
    """The texts in what the path gives of `real` that come out otherwise of `seen`, the same with its secrets masked.

    A text that stands in the value as it is, secret or not, is not made. `OfASecret` if the path compares or counts one.
    """
    try:
        shown = _texts(select(path, seen, Meter()))
    except OfASecret:
        raise
    except PathError:
        shown = set()
    try:
        made = _texts(select(path, real, Meter()))
    except PathError:
        return
    yield from made - shown - _texts(real)


def _texts(value: Any) -> set[str]:
    return {str(one) for one in every(value, keys=True) if isinstance(one, str)}
