"""Writing JSON and reading it back without losing anything: what JSON cannot hold is named, with its place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from replan.core.data.schemas import place

_Path = tuple[str | int, ...]
_MOST_DIGITS = 4300
"""Python reads no number that has more."""
_MOST_DEPTH = 200
_NO_TEXT = "is no text that UTF-8 has (a file's name in another encoding, say); give one that can be written and read again"


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


def read_strictly(text: bytes, depth: int = 0, *, of: Any = None) -> Any:
    """What `to_json(…, inf_nan_mode="constants")` has written, as plain values; raises `NotStorable`.

    NaN and the infinities are no JSON, and of two keys that are written alike (`1` and `"1"`) only one would be left.
    `depth`: so many lists and objects stand around it, which count for how deep a value may be. `of`: the object that was written,
    where it is one: what comes back equal has lost no key.
    """
    plain = from_json(b"[" * depth + text + b"]" * depth if depth else text)
    for _ in range(depth):
        plain = plain[0]
    written = text
    if not (type(of) is dict and plain == of):
        written = to_json(
            plain, inf_nan_mode="constants"
        )  # which also says what a number was too large for (`1e999`)
        if len(written) != len(text):
            check_keys(text)
    if b"NaN" in written or b"Infinity" in written:
        for path, number in _numbers(plain, ()):
            if not math.isfinite(number):
                raise not_finite(number, path)
    return plain


def write_strictly(value: Any) -> bytes:
    """The JSON of a value that somebody has given, which reads back as it is; raises `NotStorable`."""
    try:
        text = to_json(value, inf_nan_mode="constants")
        read_strictly(text, of=value)
    except (PydanticSerializationError, RecursionError, ValueError) as error:
        raise not_storable(value, error) from None
    return text


def not_storable(value: Any, error: Exception) -> NotStorable:
    """What in the value JSON cannot hold, where the library that writes it said only that it cannot."""
    if isinstance(error, NotStorable):
        return error
    return _first(value, ()) or NotStorable(str(error).removeprefix("Error serializing to JSON: "))


def storable(text: str) -> str:
    """The text without the lone halves of surrogate pairs, which nothing can store."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def storable_value(value: Any) -> Any:
    """The value with every text in it storable, keys too."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(name)): storable_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(item) for item in value]
    return value


def joined(text: str, path: _Path = ()) -> str:
    """The text with halves of a sign that stand side by side made one; raises `NotStorable` for a half that stands alone."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise NotStorable(ascii(text[:80]), path, _NO_TEXT) from None


def whole_text(value: Any, path: _Path = ()) -> Any:
    """Plain JSON values with every text in them `joined`, keys too."""
    if isinstance(value, str):
        return joined(value, path)
    if isinstance(value, list):
        return [whole_text(item, (*path, at)) for at, item in enumerate(value)]
    if isinstance(value, dict):
        return {joined(key, path): whole_text(item, (*path, key)) for key, item in value.items()}
    return value


def _first(value: Any, path: _Path) -> NotStorable | None:
    """The first thing in a value that JSON cannot hold; halves of one sign side by side are none where a value is given."""
    if len(path) > _MOST_DEPTH:
        return NotStorable(f"it contains itself, or is nested more than {_MOST_DEPTH} levels deep")
    if isinstance(value, str):
        return _not_text(value, path)
    if isinstance(value, float):
        return None if math.isfinite(value) else not_finite(value, path)
    if isinstance(value, int):
        if value.bit_length() > _MOST_DIGITS * math.log2(10):
            return NotStorable(
                f"a number of more than {_MOST_DIGITS} digits", path, "cannot be read again; give it as text"
            )
        return None
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str) and (found := _not_text(key, path)):
                return found
            if found := _first(item, (*path, str(key))):
                return found
        return None
    if isinstance(value, list | tuple):
        return next((found for at, item in enumerate(value) if (found := _first(item, (*path, at)))), None)
    try:
        to_json(value)
    except (PydanticSerializationError, ValueError, RecursionError):
        kind = type(value).__qualname__
        return NotStorable(
            f"a value of type {kind}", path, "has no form in JSON; give an object, list, text or number"
        )
    return None


def _not_text(text: str, path: _Path) -> NotStorable | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return NotStorable(ascii(text[:80]), path, _NO_TEXT)
    return None


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
