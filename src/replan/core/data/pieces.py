"""Large values, written and read piece by piece.

What writes and reads JSON is one call into C, which nothing interrupts: for a value of 50 MB every thread of the process stands
still for a second. So a large value is taken in pieces that cost some milliseconds each.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pydantic_core import from_json

from replan.core.data.strict_json import NotStorable, check_keys

T = TypeVar("T")

PIECE = 500_000
"""The weight of a piece: characters of texts, and `_EACH` for every value around them."""
AT_ONCE = 65_536
"""Characters of somebody's JSON that are read and understood in the event loop, which is slower than to write and read ours."""
ANSWER_AT_ONCE = 16_384
"""The same of a model's answer, which may be no JSON: what reads it then takes some microseconds for each sign."""
PLAN_AT_ONCE = 2 * AT_ONCE
"""The same of a plan, which is made of short names: a hundred steps, each with ten before it, take some three milliseconds."""
PLAN_BYTES = 24_576
"""The same in bytes of its JSON, where that is at hand."""
MANY = 300
"""Steps, calls or events that are gone through in the event loop."""
_EACH = 64
_MOST_LEVELS = 200
_WINDOW = 65_536
"""Characters of JSON that are read at once."""
_Path = tuple[str | int, ...]


def weight(value: Any, most: int = PIECE) -> int:
    """Roughly the characters of the value's JSON; more than `most` if it is more. What is no plain value weighs nothing."""
    left = most - _EACH
    if isinstance(value, _TEXTS):
        left -= len(value)
    waiting = [value] if isinstance(value, _AROUND_OTHERS) else []
    while waiting and left >= 0:
        one = waiting.pop()
        if len(one) * _EACH > left:
            return most + 1
        left -= len(one) * _EACH
        try:
            left -= len("".join(one))  # the keys, or a list of texts, at once
        except TypeError:
            texts = [item for item in list(one) if isinstance(item, _TEXTS)]
            left -= sum(map(len, texts))
            if not isinstance(one, dict):
                waiting += [item for item in one if isinstance(item, _AROUND_OTHERS)]
        if isinstance(one, dict):
            for item in list(one.values()):
                kind = type(item)
                if kind is str:
                    left -= len(item)
                elif kind is list or kind is dict:
                    waiting.append(item)
                elif isinstance(item, _TEXTS):
                    left -= len(item)
                elif isinstance(item, _AROUND_OTHERS):
                    waiting.append(item)
    return most - left


_TEXTS, _AROUND_OTHERS = (str, bytes), (dict, list, tuple)


def is_large(value: Any) -> bool:
    """True if the value is more than one piece: whoever goes through all of it does so beside the event loop."""
    return value is not None and not isinstance(value, bool | int | float) and weight(value) > PIECE


One = Callable[[Any, int], tuple[Any, bytes]]
"""A piece as a plain value, and its JSON; told how deep in the whole it stands."""


def in_pieces(
    value: Any, one: One, path: _Path = (), *, piece: int = PIECE, around: frozenset[int] = frozenset()
) -> tuple[Any, list[bytes]]:
    """What `one` makes of the value, put together from its pieces; the JSON in parts that follow each other.

    `around`: the identities of the lists and objects that the value stands in.
    """
    if type(value) is str and len(value) > piece:
        made = [one(part, 0) for part in _parts_of_text(value, piece)]
        return "".join([part for part, _ in made]), [b'"', *(data[1:-1] for _, data in made), b'"']
    if not isinstance(value, list | tuple | dict) or weight(value, piece) <= piece:
        plain, data = _tried(one, value, path, 0)
        return plain, [data]
    if id(value) in around:
        raise NotStorable("it contains itself")
    around = around | {id(value)}
    if len(path) > _MOST_LEVELS:  # as pydantic's reader says of what is no deeper than that at once
        raise ValueError("recursion limit exceeded")
    parts: list[bytes] = []
    if isinstance(value, dict):
        fields: dict[Any, Any] = {}
        for _, batch, large in _batches(list(value.items()), piece):
            if large:
                [(name, item)] = batch
                plain, written = in_pieces(item, one, (*path, str(name)), piece=piece, around=around)
                named, head = _tried(one, {name: 0}, path, 0)
                fields.update(dict.fromkeys(named, plain))
                parts += [b",", head[1:-2], *written]
            else:
                plain, fields_written = _tried(one, dict(batch), path, 0)
                fields.update(plain)
                parts += [b",", fields_written[1:-1]]
        parts[:1] = [b"{"]
        parts.append(b"}")
        if len(fields) != len(value):
            check_keys(b"".join(parts))
        return fields, parts
    items: list[Any] = []
    for first, batch, large in _batches(list(value), piece):
        if large:
            plain, written = in_pieces(batch[0], one, (*path, first), piece=piece, around=around)
            items.append(plain)
            parts += [b",", *written]
        else:
            plain, items_written = _tried(one, batch, path, first)
            items += plain
            parts += [b",", items_written[1:-1]]
    parts[:1] = [b"["]
    parts.append(b"]")
    return items, parts


def _parts_of_text(text: str, piece: int) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = at + piece
        while "\ud800" <= text[end - 1 : end] < "\udc00":  # the first half of a sign goes with the second
            end += 1
        yield text[at:end]
        at = end


def _tried(one: One, piece: Any, path: _Path, first: int) -> tuple[Any, bytes]:
    try:
        return one(piece, len(path))
    except NotStorable as error:
        raise error.under(path, first) from None


def _batches(items: Iterable[T], piece: int) -> Iterator[tuple[int, list[T], bool]]:
    """The items, as many together as make a piece; one that is more than that comes alone. Each with the first one's place."""
    batch: list[T] = []
    first = left = 0
    for at, item in enumerate(items):
        size = weight(item, piece)
        if batch and size > left:
            yield first, batch, False
            batch = []
        if size > piece:
            yield at, [item], True
            continue
        if not batch:
            first, left = at, piece
        batch.append(item)
        left -= size
    if batch:
        yield first, batch, False


# ── reading ──


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
