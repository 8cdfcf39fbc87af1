"""The line of each key of a TOML text: the standard parser gives values without places."""

from __future__ import annotations

import re

_KEY_PART = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*""")


def line_numbers(text: str) -> dict[tuple[str, ...], int]:
    """The 1-based line of every header and key of `text`, which must be valid TOML.

    Keys inside inline tables are not listed; they lie in the statement of their table.
    """
    found: dict[tuple[str, ...], int] = {}
    header: tuple[str, ...] = ()
    at, line = 0, 1
    while at < len(text):
        char = text[at]
        if char == "\n":
            line += 1
            at += 1
        elif char in " \t\r":
            at += 1
        elif char == "#":
            at = _end_of_line(text, at)
        elif char == "[":
            header, at = _path(text, at + 2 if text.startswith("[[", at) else at + 1)
            for size in range(1, len(header) + 1):
                found.setdefault(header[:size], line)
            at = _end_of_line(text, at)
        else:
            path, after = _path(text, at)
            if after == at:
                return found  # not TOML: the parser has its own words for that
            for size in range(1, len(path) + 1):
                found.setdefault(header + path[:size], line)
            end = _end_of_value(text, after)
            line += text.count("\n", at, end)
            at = end
    return found


def _path(text: str, at: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while match := _KEY_PART.match(text, at):
        parts.append(next(part for part in match.groups() if part is not None))
        at = match.end()
        if at >= len(text) or text[at] != ".":
            break
        at += 1
    return tuple(parts), at


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _end_of_value(text: str, at: int) -> int:
    """Where the statement ends: a line's end outside strings and brackets."""
    depth = 0
    while at < len(text):
        char = text[at]
        if char == "\n" and depth <= 0:
            return at
        if char in "\"'":
            at = _end_of_string(text, at)
            continue
        if char == "#":
            at = _end_of_line(text, at)
            continue
        depth += (char in "[{") - (char in "]}")
        at += 1
    return at


def _end_of_string(text: str, at: int) -> int:
    quote = text[at]
    fence = quote * 3 if text.startswith(quote * 3, at) else quote
    at += len(fence)
    while at < len(text):
        if quote == '"' and text[at] == "\\":
            at += 2
        elif text.startswith(fence, at):
            at += len(fence)
            while len(fence) == 3 and text.startswith(quote, at):  # up to two quotes may precede the fence
                at += 1
            return at
        else:
            at += 1
    return at
