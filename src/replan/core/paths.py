"""JMESPath with existence: tells a present `null` from a path that selects nothing.

The language is JMESPath (jmespath.org); two things are added: `["key"]` is read as `."key"`, and a text
that holds JSON is read into when the path goes on from it.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import jmespath
from jmespath import exceptions, visitor


class PathError(Exception):
    """The path selects nothing. `available`: what there is instead, where it went wrong."""

    def __init__(self, why: str = "", available: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.why = why
        self.available = available


_BRACKET_KEY = re.compile(r"""\[\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]""")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`(?:[^`\\]|\\.)*`')


def quote_keys(path: str) -> str:
    """The path with `["key"]`, as JSON and most languages write it, turned into `."key"`."""
    if "[" not in path or ('"' not in path and "'" not in path):
        return path
    out: list[str] = []
    at = 0
    while at < len(path):
        found = _BRACKET_KEY.match(path, at)
        # at the start, after a name, or after another bracket: elsewhere `[…]` is a list of its own
        if found and (not out or re.search(r"""[\w\]")]$""", out[-1])):
            key = found.group(1)
            if key[0] == "'":
                key = json.dumps(key[1:-1].replace("\\'", "'"), ensure_ascii=False)
            out.append(("." if out else "") + key)
            at = found.end()
            continue
        if quoted := _QUOTED.match(path, at):
            out.append(quoted.group())
            at = quoted.end()
            continue
        out.append(path[at])
        at += 1
    return "".join(out)


@lru_cache(maxsize=4096)
def _compile(path: str) -> Any:
    return jmespath.compile(path)


def check_path(path: str) -> str:
    """Why the path cannot be read, in words; empty if it can."""
    try:
        _compile(path)
    except exceptions.JMESPathError as error:
        hint = ""
        if re.search(r"(^|\.)\d+(\.|$|\[)", path):
            hint = "; an item of a list is written [0]"
        elif re.search(r"[A-Za-z0-9_]-[A-Za-z0-9_]", path) or " " in path.strip():
            hint = '; a name with other characters is written in double quotes: ."like-this"'
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return f"the path {path!r} is no JMESPath ({reason}){hint}"
    return ""


def select(path: str, data: Any) -> Any:
    """What the path selects; `PathError` if that is nothing. An empty projection is `[]`."""
    return _walk(_compile(path).parsed, data)


def static_steps(path: str) -> list[str | int] | None:
    """The path as plain keys and indexes, or None where it is more than that."""
    out: list[str | int] = []

    def visit(node: Any) -> bool:
        match node["type"]:
            case "field":
                out.append(node["value"])
                return True
            case "index":
                out.append(node["value"])
                return True
            case "subexpression" | "index_expression":
                return all(visit(child) for child in node["children"])
            case "identity" | "current":
                return True
            case _:
                return False

    return out if visit(_compile(path).parsed) else None


_INTERPRETER = visitor.TreeInterpreter()


def _walk(node: Any, data: Any) -> Any:
    kind = node["type"]
    if kind in ("subexpression", "index_expression", "pipe"):
        for child in node["children"]:
            data = _walk(child, data)
        return data
    if kind == "field":
        return _field(node["value"], _opened(data))
    if kind == "index":
        return _index(node["value"], _opened(data))
    if kind in ("identity", "current"):
        return data
    if kind in ("projection", "value_projection", "flatten", "filter_projection"):
        return _project(node, kind, data)
    if kind == "or_expression":
        return _either(node["children"], data)
    try:
        return _INTERPRETER.visit(node, _opened(data))
    except exceptions.JMESPathError as error:
        raise PathError(str(error)) from None


def _project(node: Any, kind: str, data: Any) -> Any:
    base = _opened(_walk(node["children"][0], data))
    wanted: type = dict if kind == "value_projection" else list
    if kind == "flatten" and isinstance(base, list):
        base = [_opened(item) for item in base]
    if not isinstance(base, wanted):
        raise PathError(f"[*] needs a {'object' if wanted is dict else 'list'}, and there is {_kind(base)}")
    rewritten: Any = {**node, "children": [{"type": "literal", "value": base, "children": []}, *node["children"][1:]]}
    try:
        return _INTERPRETER.visit(rewritten, base)
    except exceptions.JMESPathError as error:
        raise PathError(str(error)) from None


def _either(children: list[Any], data: Any) -> Any:
    try:
        left = _walk(children[0], data)
    except PathError:
        return _walk(children[1], data)
    empty = left is None or left is False or left in ("", [], {})
    return _walk(children[1], data) if empty else left


def _opened(data: Any) -> Any:
    """The data, or what it says if it is a text that holds a JSON object or list."""
    if isinstance(data, str) and data.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(data)
        except ValueError:
            return data
    return data


def _field(name: str, data: Any) -> Any:
    if isinstance(data, dict):
        if name in data:
            return data[name]
        raise PathError(f"there is no {name!r}", tuple(str(key) for key in data))
    raise PathError(f"{name!r} needs an object, and there is {_kind(data)}")


def _index(at: int, data: Any) -> Any:
    if isinstance(data, list):
        try:
            return data[at]
        except IndexError:
            raise PathError(f"there is no item [{at}] in a list of {len(data)}") from None
    raise PathError(f"[{at}] needs a list, and there is {_kind(data)}")


def _kind(data: Any) -> str:
    match data:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
