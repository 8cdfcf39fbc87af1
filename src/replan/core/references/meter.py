"""How much one set of references may take: steps of evaluation, and what is made of what is there.

A path of a hundred characters can double a value twenty times, and a text can name a large output two hundred times.
So everything that is put together while the references of one call are filled in is counted by one meter.
"""

from __future__ import annotations

import json
import re
from typing import Any

from replan.core.json_reader import read_finite
from replan.core.masked import Masked, lost

MOST_STEPS = 100_000
"""Looks at a value; some tens of milliseconds."""
MOST_MADE = 16_000_000
"""What may be made: characters of texts, and so many for each value around them."""
_MOST_SEEN = 4 * MOST_MADE
"""The size of one value that is gone through for the sake of something else than its copy, parts that are shared counted each time."""
_EACH = 128
"""Characters that a value counts for, whatever it holds."""
_PARTS_A_STEP = 16
_OPENED = 200
"""Characters of a text that are read as JSON in one step."""


class PathError(Exception):
    """The path gives nothing. `available`: what there is instead, where it went wrong."""

    def __init__(self, why: str = "", available: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.why = why
        self.available = available


class Missing(PathError):
    """What the path leads to is not there; `||`, `!` and `not_null` take that for null."""


class Meter:
    """Counts for one call's references; `PathError` where it is too much."""

    __slots__ = ("_kept", "_left", "_opened", "_room", "_seen", "_weights")

    def __init__(self) -> None:
        self._left = MOST_STEPS
        self._room = MOST_MADE
        self._weights: dict[int, int] = {}
        self._opened: dict[int, Any] = {}
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        """What the three above know by identity: none of it may go while they do."""

    def step(self, count: int = 1) -> None:
        self._left -= count
        if self._left < 0:
            raise PathError(
                f"it takes more than {MOST_STEPS:,} steps to work out; take a part of the value, or a tool for it"
            )

    def make(self, size: int) -> None:
        """So many characters are put together."""
        self._room -= size
        if self._room < 0:
            raise PathError(
                f"what the references make is larger than {MOST_MADE:,} characters; take a part of the value"
            )

    def make_value(self, value: Any) -> None:
        """A value is put somewhere: it counts with everything in it, each time anew."""
        if value is None or isinstance(value, bool | int | float):
            self._room -= _EACH
            return
        weight = self._weights.get(id(value))
        if weight is None:
            weight = self._weigh(value, self._room)
            self._weights[id(value)] = weight
            self._kept.append(value)
        self.make(weight)

    def looked_at(self, value: Any) -> None:
        """The whole of a value is gone through."""
        if isinstance(value, list | dict):
            self.step(self._weigh(value, self._left * _EACH) // _EACH)

    def read_through(self, text: str) -> None:
        """A text is gone through from its beginning to its end, quickly."""
        self.step(len(text) // (_EACH * _PARTS_A_STEP))

    def seen_through(self, value: Any) -> None:
        """The whole of a value is about to be gone through, quickly: many parts in a step. The same value is measured once."""
        if not isinstance(value, list | dict):
            return
        if (weight := self._seen.get(id(value))) is None:
            weight = self._seen[id(value)] = self._weigh(value, _MOST_SEEN)
            self._kept.append(value)
        if weight > _MOST_SEEN:
            raise PathError(
                f"it goes through more than {_MOST_SEEN:,} characters, parts that are named again counted again; take a part of the value"
            )
        self.step(weight // (_EACH * _PARTS_A_STEP))

    def _weigh(self, value: Any, most: int) -> int:
        """The size of a value with everything in it, parts that are shared counted each time; left where it passes `most`."""
        try:
            return self._weight(value, most, {})
        except RecursionError:
            raise PathError("the value is nested too deep") from None

    def _weight(self, value: Any, most: int, known: dict[int, int]) -> int:
        if isinstance(value, str):
            return _EACH + len(value)
        if not isinstance(value, list | dict):
            return _EACH
        if (size := known.get(id(value))) is not None:
            return size
        size = _EACH + (sum(map(len, value)) if isinstance(value, dict) else 0)
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, str):
                size += _EACH + len(item)
            elif isinstance(item, list | dict):
                size += self._weight(item, most - size, known)
            else:
                size += _EACH
            if size > most:
                break
        known[id(value)] = size
        return size

    def opened(self, data: Any) -> Any:
        """The data, or what it says if it is a text that holds a JSON object or list; read once."""
        if not isinstance(data, str) or data[:64].lstrip()[:1] not in ("{", "["):
            return data
        if isinstance(data, Masked):  # what it says is masked, too
            return lost(_read(str(data)))
        if len(data) < _OPENED:
            return _read(data)
        if id(data) not in self._opened:
            self.step(len(data) // _OPENED)
            self._opened[id(data)] = _read(data)
            self._kept.append(data)
        return self._opened[id(data)]


def opened(data: Any) -> Any:
    """The same where nothing else has to be counted; a text that is too large to be read stays one."""
    try:
        return Meter().opened(data)
    except PathError:
        return data


def plain_value(text: str) -> Any:
    """What a text says that holds a JSON number, truth value or null and nothing else; any other text itself."""
    return json.loads(text) if len(text) < 64 and _PLAIN.fullmatch(text) else text


_PLAIN = re.compile(r"\s*(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)\s*")


def _read(text: str) -> Any:
    try:
        return read_finite(text)
    except (ValueError, RecursionError):
        return text
