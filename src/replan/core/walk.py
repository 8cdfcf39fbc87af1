"""What stands inside a JSON value, however deep, in the order in which it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def every(value: Any, *, keys: bool = False) -> Iterator[Any]:
    """The value and all that stands in it; with `keys` also the names of fields, those of an object before its values."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, dict):
            waiting += reversed(one.values())
            if keys:
                waiting += reversed(one)
        elif isinstance(one, list | tuple):
            waiting += reversed(one)


def texts_in(value: Any) -> Iterator[str]:
    """Every text among the values."""
    return (one for one in every(value) if isinstance(one, str))


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every object."""
    return (one for one in every(value) if isinstance(one, dict))


def scalars(value: Any) -> list[str]:
    """Every text and number, as text."""
    plain = (one for one in every(value) if isinstance(one, str | int | float) and not isinstance(one, bool))
    return [str(one) for one in plain]
