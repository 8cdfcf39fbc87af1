"""What was made from a value once, found again by the value's identity: a schema is compiled once, not once a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MOST = 500


class ByIdentity(Generic[T]):
    """The latest of what `make` gave. Each entry holds its value, so that no other can have its identity."""

    __slots__ = ("_known", "_make", "_most")

    def __init__(self, make: Callable[[Any], T], most: int = MOST) -> None:
        self._make = make
        self._most = most
        self._known: dict[int, tuple[Any, T]] = {}

    def __call__(self, value: Any) -> T:
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        made = self._make(value)
        while len(self._known) >= self._most:
            self._known.pop(next(iter(tuple(self._known)), 0), None)  # a copy: other threads add to it
        self._known[id(value)] = (value, made)
        return made

    def __len__(self) -> int:
        return len(self._known)
