"""What a docstring says: the description, and a text for each parameter (Google, NumPy and reST styles)."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

_PARAMETERS = frozenset(
    ("args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters")
)
_RETURNS = frozenset(("returns", "return"))
# Of no use to whoever chooses and calls a tool.
_DROPPED = frozenset(("raises", "yields", "yield", "see also", "references", "attributes", "todo", "warns"))
_KNOWN = _PARAMETERS | _RETURNS | _DROPPED

_GOOGLE_ITEM = re.compile(r"^\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?$")
_NUMPY_ITEM = re.compile(r"^(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_REST_ITEM = re.compile(
    r"^:(?:(param|parameter|arg|argument|key|keyword)\s+(?:[^:]*?\s)?\*{0,2}(\w+)|(\w+)(?:\s+[^:]*)?):\s*(.*)$"
)
_REST_FIELDS = frozenset(
    (
        "return",
        "returns",
        "rtype",
        "type",
        "raise",
        "raises",
        "except",
        "exception",
        "var",
        "ivar",
        "cvar",
        "yields",
    )
)


class Docstring(NamedTuple):
    description: str = ""
    parameters: dict[str, str] = {}


def parse(text: str | None) -> Docstring:
    """Read a docstring in any of the three styles; what is in none of them is description."""
    if not text or not text.strip():
        return Docstring()
    lines = inspect.cleandoc(text).split("\n")
    prose: list[str] = []
    returns = ""
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if section := _section(lines, at):
            kind, start, numpy = section
            end = _end_of_section(lines, start, numpy)
            body = lines[start:end]
            if kind in _PARAMETERS:
                parameters.update(_numpy_items(body) if numpy else _google_items(body))
            elif kind in _RETURNS:
                returns = _joined(body[1:] if numpy and len(body) > 1 else body)
            at = end
        elif (item := _REST_ITEM.match(line)) and (item[2] or item[3] in _REST_FIELDS):
            end = at + 1
            while end < len(lines) and lines[end][:1].isspace():
                end += 1
            said = _joined([item[4], *lines[at + 1 : end]])
            if item[2]:
                parameters[item[2]] = said
            elif item[3] in _RETURNS:
                returns = said
            at = end
        else:
            prose.append(line)
            at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(prose)).strip()
    if returns:
        description = f"{description}\n\nReturns: {returns}".strip()
    return Docstring(description, {name: said for name, said in parameters.items() if said})


def _section(lines: list[str], at: int) -> tuple[str, int, bool] | None:
    """The kind of section that begins at this line, where its body starts, and whether it is NumPy's."""
    heading = lines[at].rstrip()
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if re.fullmatch(r"-{3,}\s*", following) and heading.strip().lower() in _KNOWN:
        return heading.strip().lower(), at + 2, True
    if (
        heading.endswith(":")
        and heading[:-1].lower() in _KNOWN
        and (not following or following[:1].isspace())
    ):
        return heading[:-1].lower(), at + 1, False
    return None


def _end_of_section(lines: list[str], start: int, numpy: bool) -> int:
    end = start
    while end < len(lines):
        line = lines[end]
        if numpy:
            following = lines[end + 1] if end + 1 < len(lines) else ""
            if line.strip() and re.fullmatch(r"-{3,}\s*", following):
                break
        elif line.strip() and not line[0].isspace():
            break
        end += 1
    return end


def _google_items(body: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    items = [line for line in body if line.strip()]
    indent = min((_indent(line) for line in items), default=0)
    name = ""
    for line in items:
        item = _GOOGLE_ITEM.match(line.strip()) if _indent(line) == indent else None
        if item:
            name = item[1]
            found[name] = [item[2] or ""]
        elif name:
            found[name].append(line)
    return {name: _joined(said) for name, said in found.items()}


def _numpy_items(body: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in body:
        if line and not line[0].isspace() and (item := _NUMPY_ITEM.match(line.rstrip())):
            names = [name.strip().lstrip("*") for name in item[1].split(",")]
            for name in names:
                found[name] = []
        else:
            for name in names:
                found[name].append(line)
    return {name: _joined(said) for name, said in found.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
