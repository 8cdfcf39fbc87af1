"""YAML and JSON as plain values, each with the line where it stands.

YAML is read as what JSON has: no anchors (a few can stand for millions of values), no tags, no dates, each key once. It is
read event by event, so that no depth of nesting is gone into before it is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from replan.core.kinds.written import Place
from replan.files import MOST_DIGITS, MOST_LEVELS

MOST_VALUES = 20_000
"""Of one file."""
_WHOLE = re.compile(r"[-+]?[0-9]{1,400}")
_NUMBER = re.compile(
    r"[-+]?(?:[0-9]{1,400}\.[0-9]{0,400}|\.[0-9]{1,400}|[0-9]{1,400})(?:[eE][-+]?[0-9]{1,3})?"
)
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}


class Marked(NamedTuple):
    """A value, and the lines of its parts."""

    value: Any
    lines: dict[Place, int]

    def line(self, at: Place) -> int:
        """The line of what stands there, or of what it would stand in."""
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at, 1)


class Unreadable(ValueError):
    """The text holds no such value."""

    def __init__(self, line: int, text: str) -> None:
        self.line = line
        super().__init__(text)


def read_marked(text: str, first: int = 1) -> Marked:
    """The one value that the text holds. `first`: the number of its first line."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Reading(first).of(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        told = " ".join(filter(None, (error.problem, error.context)))
        raise Unreadable(first + (mark.line if mark else 0), f"no valid YAML: {told}") from None
    except yaml.YAMLError as error:
        raise Unreadable(first, f"no valid YAML: {str(error).splitlines()[0]}") from None


class _Open(NamedTuple):
    """A list or an object that has not ended yet."""

    value: Any
    at: Place
    keys: list[str]
    """The key whose value is awaited, if one is."""


class _Reading:
    def __init__(self, first: int) -> None:
        self._first = first
        self._open: list[_Open] = []
        self._lines: dict[Place, int] = {}
        self._count = 0
        self._found: list[Any] = []

    def of(self, events: Iterator[Any]) -> Marked:
        for event in events:
            line = self._first + event.start_mark.line
            match type(event).__name__:
                case "AliasEvent":
                    raise Unreadable(line, f"*{event.anchor}: aliases are not taken; write the value out")
                case "ScalarEvent":
                    self._plain(event, line)
                    self._scalar(event, line)
                case "MappingStartEvent" | "SequenceStartEvent" as kind:
                    self._plain(event, line)
                    self._begin({} if kind == "MappingStartEvent" else [], line)
                case "MappingEndEvent" | "SequenceEndEvent":
                    self._open.pop()
                case "DocumentStartEvent" if self._found:
                    raise Unreadable(line, "a second document begins here; one file holds one")
                case _:
                    pass
        return Marked(self._found[0] if self._found else None, self._lines)

    def _plain(self, event: Any, line: int) -> None:
        if event.anchor:
            raise Unreadable(
                line, f"&{event.anchor}: anchors are not taken; write the value out where it is needed"
            )
        if event.tag not in (None, "!"):
            raise Unreadable(line, f"{event.tag}: tags are not taken; leave it out")
        self._count += 1
        if self._count > MOST_VALUES:
            raise Unreadable(line, f"more than {MOST_VALUES:,} values")

    def _scalar(self, event: Any, line: int) -> None:
        quoted = event.style in ('"', "'", "|", ">") or event.tag == "!"
        if self._open and isinstance(self._open[-1].value, dict) and not self._open[-1].keys:
            self._key(event.value, line)
        else:
            self._put(event.value if quoted else _plain_value(event.value, line), line)

    def _key(self, name: str, line: int) -> None:
        top = self._open[-1]
        if name in top.value:
            raise Unreadable(line, f"the key {name[:100]!r} is there twice")
        if name == "<<":
            raise Unreadable(line, "<<: merging is not taken; write the keys out")
        top.keys.append(name)
        self._lines[(*top.at, name)] = line

    def _begin(self, value: Any, line: int) -> None:
        if self._open and isinstance(self._open[-1].value, dict) and not self._open[-1].keys:
            raise Unreadable(line, "a key is a text, not a list or an object")
        if len(self._open) >= MOST_LEVELS:
            raise Unreadable(line, f"it is nested more than {MOST_LEVELS} levels deep")
        self._open.append(_Open(value, self._put(value, line), []))

    def _put(self, value: Any, line: int) -> Place:
        if not self._open:
            self._found.append(value)
            self._lines[()] = line
            return ()
        top = self._open[-1]
        if isinstance(top.value, dict):
            name: str | int = top.keys.pop()
            top.value[name] = value
        else:
            name = len(top.value)
            top.value.append(value)
            self._lines[(*top.at, name)] = line
        return (*top.at, name)


def _plain_value(text: str, line: int) -> Any:
    """What stands without quotes, as JSON has it; `no` and `2026-01-01` are texts."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if len(text) > MOST_DIGITS and text.lstrip("-+").isdecimal():
        raise Unreadable(line, f"a number of more than {MOST_DIGITS:,} digits cannot be worked with")
    if _WHOLE.fullmatch(text) and text.lstrip("-+")[:1] != "0":
        return int(text)
    if text.lstrip("-+") == "0":
        return 0
    if _NUMBER.fullmatch(text) and not (text.lstrip("-+").isdecimal()):
        found = float(text)
        if found in (float("inf"), -float("inf")):
            raise Unreadable(line, f"{text[:40]} is larger than any number that can be worked with")
        return found
    return text


def write_json(value: Any) -> str:
    """The one JSON text of a value that was read."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
