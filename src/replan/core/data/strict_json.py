"""Reading JSON that was just written, without losing anything: what JSON cannot hold is named, with its place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json, to_json

from replan.core.data.schemas import place


class NotStorable(ValueError):
    """A value that JSON has no place for, where it is, and what would be right."""


def read_strictly(text: bytes) -> Any:
    """What `to_json(…, inf_nan_mode="constants")` has written, as plain values; raises `NotStorable`.

    NaN and the infinities are no JSON, and of two keys that are written alike (`1` and `"1"`) only one would be left.
    """
    plain = from_json(text)
    if len(to_json(plain, inf_nan_mode="constants")) != len(text):
        json.loads(text, object_pairs_hook=_each_key_once)
    if b"NaN" in text or b"Infinity" in text:
        for path, number in _numbers(plain, ()):
            if not math.isfinite(number):
                raise not_finite(number, path)
    return plain


def not_finite(number: float, path: tuple[str | int, ...]) -> NotStorable:
    """The error for NaN or an infinity at that place."""
    name = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    where = f" at {place(path)}" if path else ""
    return NotStorable(f"{name}{where} is no number that JSON has; give null (None) where a value is missing")


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


def _numbers(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], float]]:
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _numbers(item, (*path, index))
