"""Reading JSON that was just written, without losing anything: what JSON cannot hold is named, with its place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json, to_json

from replan.core.data.schemas import place

_Path = tuple[str | int, ...]


class NotStorable(ValueError):
    """A value that JSON has no place for, where it is (`path`), and what would be right."""

    def __init__(self, what: str, path: _Path = (), right: str = "") -> None:
        where = f" at {place(path)}" if path else ""
        super().__init__(f"{what}{where} {right}".rstrip())
        self.what = what
        self.path = path
        self.right = right

    def under(self, path: _Path, first: int) -> NotStorable:
        """The same, where the value is a part of a larger one: of what is at `path`, from item `first` on if it is a list."""
        own = self.path
        if own and isinstance(own[0], int):
            own = (own[0] + first, *own[1:])
        return NotStorable(self.what, (*path, *own) if own else (), self.right)


def read_strictly(text: bytes, depth: int = 0) -> Any:
    """What `to_json(…, inf_nan_mode="constants")` has written, as plain values; raises `NotStorable`.

    NaN and the infinities are no JSON, and of two keys that are written alike (`1` and `"1"`) only one would be left.
    `depth`: so many lists and objects stand around it, which count for how deep a value may be.
    """
    plain = from_json(b"[" * depth + text + b"]" * depth if depth else text)
    for _ in range(depth):
        plain = plain[0]
    if len(to_json(plain, inf_nan_mode="constants")) != len(text):
        check_keys(text)
    if b"NaN" in text or b"Infinity" in text:
        for path, number in _numbers(plain, ()):
            if not math.isfinite(number):
                raise not_finite(number, path)
    return plain


def check_keys(text: bytes) -> None:
    """Raise `NotStorable` for two keys of one object that are written alike."""
    json.loads(text, object_pairs_hook=_each_key_once)


def not_finite(number: float, path: _Path) -> NotStorable:
    """The error for NaN or an infinity at that place."""
    name = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    right = "is no number that JSON has; give null (None) where a value is missing"
    return NotStorable(name, path, right)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotStorable(
                    f'two keys of one object are both written "{key[:80]}" (JSON has keys of text only, so 1 and "1" '
                    "are the same); give them different texts"
                )
            seen.add(key)
    return found


def _numbers(value: Any, path: _Path) -> Iterator[tuple[_Path, float]]:
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _numbers(item, (*path, index))
