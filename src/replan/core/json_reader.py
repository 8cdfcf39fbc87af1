"""JSON text read part by part: one call of the reader in C stops every thread until it is done."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

from pydantic_core import from_json

_WINDOW = 65_536
"""Characters that are read at once."""


def read_in_pieces(text: str, window: int = _WINDOW) -> Any:
    """What JSON text says, as `json.loads` reads it."""
    if len(text) <= window:
        return json.loads(text)
    try:
        value, end = _Reader(text, window).value(_skip(text, 0), 0)
    except IndexError:
        raise json.JSONDecodeError("Expecting value", text, len(text)) from None
    if _skip(text, end) != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


_DECODE = json.JSONDecoder().raw_decode
_BLANK = re.compile(r"[ \t\n\r]*")
_MOST_DEPTH = 400


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


class _Reader:
    """Reads values that fit into a window at once, and those that do not part by part."""

    def __init__(self, text: str, size: int) -> None:
        self._text = text
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
                found, end = _DECODE(self._window, at - self._from)
            except ValueError:
                continue
            # A number may go on behind the window, also where that ends within its exponent.
            if end < len(self._window) - len("e+") or self._from + end == len(self._text):
                return found, self._from + end
        first = self._text[at]
        if first == '"':
            return self._long_text(at)
        if first not in "[{" or depth > _MOST_DEPTH:
            return _DECODE(self._text, at)
        return self._fields(at, depth) if first == "{" else self._items(at, depth)

    def _long_text(self, at: int) -> tuple[str, int]:
        """A text that is longer than the window: pydantic's reader is quick enough for all of it."""
        text, end = self._text, at
        while (end := text.find('"', end + 1)) >= 0:
            escapes = end
            while text[escapes - 1] == "\\":
                escapes -= 1
            if (end - escapes) % 2 == 0:
                break
        with contextlib.suppress(ValueError):  # half a surrogate pair, say
            if end >= 0:
                found: str = from_json(text[at : end + 1])
                return found, end + 1
        return _DECODE(text, at)

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
