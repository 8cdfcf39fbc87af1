"""Where the braces and quotes of a text end: references stand in braces, also inside the paths of others."""

from __future__ import annotations

import re
from collections.abc import Iterator

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`(?:[^`\\]|\\.)*`', re.DOTALL)
_STOPS = re.compile(r"[\"'`{}]")
_SIGNS = re.compile(r"[\"'`]")
_OPENS = re.compile(r"[\"'`]|\$\{|\{\{")
_IN_BRACKETS = re.compile(r"[\"'`]|\[\??|\]")

Span = tuple[int, int]


def closing(text: str, at: int, closer: str, lone: set[str]) -> int:
    """Where the closing braces of a reference begin; braces and quotes inside its path are passed over.

    `lone`: the quotes that nothing in the rest of the text closes. One that is not closed leaves only escaped ones
    of its kind behind it, so none of them is closed either.
    """
    depth = 0
    while found := _STOPS.search(text, at):
        at, char = found.start(), found.group()
        if char == "{":
            depth += 1
        elif char != "}":
            if past := _past_quoted(text, at, lone):
                at = past
                continue
        elif depth == 0 and text.startswith(closer, at):
            return at
        elif (depth := depth - 1) < 0:
            return -1
        at += 1
    return -1


def _past_quoted(text: str, at: int, lone: set[str]) -> int:
    """Where what is quoted here ends; 0 for a lone quote, which is just a character."""
    if text[at] not in lone:
        if quoted := _QUOTED.match(text, at):
            return quoted.end()
        lone.add(text[at])
    return 0


def quoted_at(text: str, at: int) -> str:
    """What is quoted here, with its quotes; empty where nothing is."""
    found = _QUOTED.match(text, at)
    return found[0] if found else ""


def in_quotes(text: str) -> list[Span]:
    """Where something is quoted."""
    found: list[Span] = []
    lone: set[str] = set()
    at = 0
    while sign := _SIGNS.search(text, at):
        at = _past_quoted(text, sign.start(), lone) or sign.end()
        if at > sign.end():
            found.append((sign.start(), at))
    return found


def in_braces(path: str) -> list[Span]:
    """Where references stand in a path, outside of its quotes: those of the outermost braces, up to one that is not closed."""
    found: list[Span] = []
    lone: set[str] = set()
    at = 0
    while "{" in path and (opening := _OPENS.search(path, at)):
        begins, at = opening.span()
        if opening[0] not in ("${", "{{"):
            at = _past_quoted(path, begins, lone) or at
            continue
        closer = "}" if opening[0] == "${" else "}}"
        end = closing(path, at, closer, lone)
        if end < 0:
            break
        at = end + len(closer)
        found.append((begins, at))
    return found


def in_filters(path: str) -> list[Span]:
    """Where the conditions of filters stand, `[?…]`, each with all that is inside it."""
    found: list[Span] = []
    opened: list[int | None] = []
    lone: set[str] = set()
    at = 0
    while "[?" in path and (sign := _IN_BRACKETS.search(path, at)):
        begins, at = sign.span()
        if sign[0] == "]":
            start = opened.pop() if opened else None
            if start is not None:
                found.append((start, begins))
        elif sign[0][0] == "[":
            opened.append(begins if sign[0] == "[?" else None)
        else:
            at = _past_quoted(path, begins, lone) or at
    return found


def replaced(text: str, parts: Iterator[tuple[Span, str]]) -> str:
    """The text with others in these places, which come in order."""
    out, at = "", 0
    for (begin, end), part in parts:
        out += text[at:begin] + part
        at = end
    return out + text[at:]
