"""JSON text read part by part: one call of the reader in C stops every thread until it is done."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

_WINDOW = 65_536
"""Characters that are read at once."""


def read_in_pieces(
    text: str,
    window: int = _WINDOW,
    *,
    constant: Callable[[str], Any] | None = None,
    number: Callable[[str], float] | None = None,
) -> Any:
    """What JSON text says, as `json.loads` reads it; `constant` as its `parse_constant`, `number` as its `parse_float`."""
    if len(text) <= window:
        return json.loads(text, parse_constant=constant, parse_float=number)
    decode = _DECODE
    if constant is not None or number is not None:
        decode = json.JSONDecoder(parse_constant=constant, parse_float=number).raw_decode
    try:
        value, end = _Reader(text, window, decode).value(_skip(text, 0), 0)
    except IndexError:
        raise json.JSONDecodeError("Expecting value", text, len(text)) from None
    if _skip(text, end) != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def read_finite(text: str) -> Any:
    """What JSON text says. `ValueError` for a number that is none (NaN, Infinity) or that only an endless one would stand for (1e400)."""
    large = _MAY_BE_ENDLESS.search(text) is not None
    if len(text) <= _WINDOW and not large:
        return _STRICT.decode(text)
    return read_in_pieces(text, constant=no_number, number=_finite if large else None)


def no_number(name: str) -> Any:
    """For what some write where JSON has a number."""
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    found = float(text)
    return found if math.isfinite(found) else no_number(text[:20])


_MAY_BE_ENDLESS = re.compile(r"[0-9][eE][+]?[0-9]{3}|(?<![0-9])[0-9]{300}")
_STRICT = json.JSONDecoder(parse_constant=no_number)
_DECODE = json.JSONDecoder().raw_decode
_BLANK = re.compile(r"[ \t\n\r]*")
_MOST_DEPTH = 400


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


_ESCAPE = len("\\u0000")
_HIGH = re.compile(r"\\u[dD][89abAB]")
_LOW = re.compile(r"\\u[dD][c-fC-F]")
_LEAST = 64
"""Characters of a part of a text."""


def _marks_before(text: str, at: int, begin: int) -> int:
    """How many backslashes stand directly before a place."""
    first = at
    while first > begin and text[first - 1] == "\\":
        first -= 1
    return at - first


class _Reader:
    """Reads values that fit into a window at once, and those that do not part by part."""

    def __init__(self, text: str, size: int, decode: Callable[[str, int], tuple[Any, int]]) -> None:
        self._text = text
        self._decode = decode
        self._size = size
        self._window = text[:size]
        self._from = 0

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        """The value that begins at that place, and where it ends."""
        for fresh in (False, True):
            if fresh:
                if at == self._from:
                    break
                self._from, self._window = at, self._text[at : at + self._size]
            if not 0 <= at - self._from < len(self._window):
                continue
            try:
                found, end = self._decode(self._window, at - self._from)
            except ValueError:
                continue
            # A number may go on behind the window, also where that ends within its exponent.
            if end < len(self._window) - len("e+") or self._from + end == len(self._text):
                return found, self._from + end
        first = self._text[at]
        if first == '"':
            return self._long_text(at)
        if first not in "[{" or depth > _MOST_DEPTH:
            return self._decode(self._text, at)
        return self._fields(at, depth) if first == "{" else self._items(at, depth)

    def _long_text(self, at: int) -> tuple[str, int]:
        """A text that is longer than the window, in parts that end between two signs."""
        text, begin, parts = self._text, at + 1, list[str]()
        try:
            while True:
                end = self._between_signs(begin, min(begin + max(self._size, _LEAST), len(text)))
                quote = text.find('"', begin, end)
                while quote >= 0 and _marks_before(text, quote, begin) % 2:
                    quote = text.find('"', quote + 1, end)
                part = text[begin : quote if quote >= 0 else end]
                parts.append(_DECODE(f'"{part}"')[0])
                if quote >= 0:
                    return "".join(parts), quote + 1
                if end == len(text):
                    break
                begin = end
        except ValueError:
            pass
        return self._decode(text, at)  # it is no text, and is told so as ever

    def _between_signs(self, begin: int, end: int) -> int:
        """The last place up to `end` that is neither within an escape nor between the two of a pair (`\\ud83d\\ude00`)."""
        text = self._text
        if end == len(text):
            return end
        mark = text.rfind("\\", end - _ESCAPE + 1, end)
        if mark >= 0 and _marks_before(text, mark + 1, begin) % 2:
            length = _ESCAPE if text[mark + 1] == "u" else 2
            end = mark if mark + length > end else end
        pair = _LOW.match(text, end) and _HIGH.match(text, end - _ESCAPE)
        return end - _ESCAPE if pair and _marks_before(text, end - _ESCAPE + 1, begin) % 2 else end

    def _items(self, at: int, depth: int) -> tuple[list[Any], int]:
        text, found = self._text, list[Any]()
        at = _skip(text, at + 1)
        if text[at] == "]":
            return found, at + 1
        while True:
            item, end = self.value(at, depth + 1)
            found.append(item)
            at = _skip(text, end)
            if text[at] == "]":
                return found, at + 1
            if text[at] != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at = _skip(text, at + 1)

    def _fields(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        text, found = self._text, dict[str, Any]()
        at = _skip(text, at + 1)
        if text[at] == "}":
            return found, at + 1
        while True:
            if text[at] != '"':
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
            name, end = self.value(at, depth + 1)
            at = _skip(text, end)
            if text[at] != ":":
                raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
            found[name], end = self.value(_skip(text, at + 1), depth + 1)
            at = _skip(text, end)
            if text[at] == "}":
                return found, at + 1
            if text[at] != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at = _skip(text, at + 1)
