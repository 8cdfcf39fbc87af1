"""JMESPath with existence: tells a present `null` from a path that selects nothing.

The language is JMESPath (jmespath.org); two things are added: `["key"]` is read as `."key"`, and a text
that holds JSON is read into when the path goes on from it.
"""

from __future__ import annotations

import json
import re
import warnings
from functools import lru_cache
from itertools import islice
from typing import Any

import jmespath
from jmespath import exceptions, functions, visitor

MAX_LENGTH = 2_000
"""Characters of a path."""


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
    with warnings.catch_warnings():  # `text` for a text is deprecated there, and common
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return jmespath.compile(path)


def parsed(path: str) -> Any:
    """The syntax tree of a path that passes `check_path`."""
    return _compile(path).parsed


def check_path(path: str) -> str:
    """Why the path cannot be read, in words; empty if it can."""
    if len(path) > MAX_LENGTH:
        return f"the path {path[:40]!r}… has {len(path)} characters; at most {MAX_LENGTH} are allowed"
    try:
        return _misread(path) or _unknown_function(parsed(path))
    except RecursionError:
        return f"the path {path[:40]!r}… is nested too deep"
    except exceptions.JMESPathError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return f"the path {path!r} is no JMESPath ({reason}){_hint(path)}"


_COMPARED = r"(?:[=!<>]=|[<>])\s*"


def _hint(path: str) -> str:
    if re.search(_COMPARED + r"[-\d]", path):
        return "; a number to compare with is written in backticks: > `5`"
    if re.search(r"(^|\.)\d+(\.|$|\[)", path):
        return "; an item of a list is written [0]"
    if re.search(r"[A-Za-z0-9_]-[A-Za-z0-9_]", path) or " " in path.strip():
        return '; a name with other characters is written in double quotes: "like-this"'
    return ""


_MISREAD = re.compile(
    _COMPARED
    + r"""(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>true|false|null)(?![\w.\[(-]))|"""
    + _QUOTED.pattern  # what stands in quotes is passed over
)


def _misread(path: str) -> str:
    """Right in form, but JMESPath reads it as a field where a value is meant, and would quietly find nothing."""
    for found in _MISREAD.finditer(path):
        if text := found["text"]:
            return (
                f"the path {path!r} compares with the field {text}; a text is written in single quotes: "
                f"'{text[1:-1]}' (and a field: @.{text})"
            )
        if word := found["word"]:
            return f"the path {path!r} compares with a field named {word}; the value is written `{word}`"
    return ""


def _unknown_function(node: Any) -> str:
    if not isinstance(node, dict):
        return ""
    if node["type"] == "function_expression":
        table = functions.Functions.FUNCTION_TABLE
        known = table.get(node["value"])
        if known is None:
            return f"JMESPath has no function {node['value']}(); it has: {', '.join(sorted(table))}"
        wanted, given = len(known["signature"]), len(node["children"])
        if given < wanted or (given > wanted and not known["signature"][-1].get("variadic")):
            return f"{node['value']}() takes {wanted} arguments, not {given}"
    return next((found for child in node.get("children", ()) if (found := _unknown_function(child))), "")


def select(path: str, data: Any) -> Any:
    """What the path selects; `PathError` if that is nothing. An empty projection is `[]`."""
    try:
        return _walk(parsed(path), data)
    except RecursionError:
        raise PathError("it is nested too deep") from None


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

    return out if visit(parsed(path)) else None


def gives_list(path: str) -> bool:
    """True if the path can select nothing but a list."""
    return parsed(path)["type"] in (*_PROJECTIONS, "multi_select_list")


_PROJECTIONS = ("projection", "value_projection", "flatten", "filter_projection")
_INTERPRETER = visitor.TreeInterpreter()


def _walk(node: Any, data: Any) -> Any:
    kind = node["type"]
    children = node["children"]
    if kind in ("subexpression", "index_expression", "pipe"):
        for child in children:
            data = _walk(child, data)
        return data
    match kind:
        case "field":
            return _field(node["value"], _opened(data))
        case "index":
            return _index(node["value"], _opened(data))
        case "identity" | "current":
            return data
        case "projection" | "value_projection" | "flatten" | "filter_projection":
            return _project(node, kind, data)
        case "or_expression":
            return _either(children, data)
        case "and_expression":
            left = _walk(children[0], data)
            return left if _is_empty(left) else _walk(children[1], data)
        case "multi_select_list":
            return [_walk(child, data) for child in children]
        case "multi_select_dict":
            return {pair["value"]: _walk(pair["children"][0], data) for pair in children}
        case "function_expression" if node["value"] != "not_null":
            given = [
                child if child["type"] == "expref" else _literal(_argument(child, data)) for child in children
            ]
            return _interpret({**node, "children": given}, data)
        case _:
            return _interpret(node, _opened(data))


def _interpret(node: Any, data: Any) -> Any:
    """What JMESPath itself says: what is missing is null there."""
    try:
        return _INTERPRETER.visit(node, data)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise PathError(str(error).splitlines()[0] if str(error) else type(error).__name__) from None


def _literal(value: Any) -> Any:
    return {"type": "literal", "value": value, "children": []}


def _argument(node: Any, data: Any) -> Any:
    value = _walk(node, data)
    return _opened(value) if node["type"] == "current" else value


def _project(node: Any, kind: str, data: Any) -> Any:
    base = _opened(_walk(node["children"][0], data))
    wanted: type = dict if kind == "value_projection" else list
    if kind == "flatten" and isinstance(base, list):
        base = [_opened(item) for item in base]
    if not isinstance(base, wanted):
        sign = ".*" if wanted is dict else "[…]"
        raise PathError(
            f"{sign} needs {'an object' if wanted is dict else 'a list'}, and there is {kind_of(base)}"
        )
    return _interpret({**node, "children": [_literal(base), *node["children"][1:]]}, base)


def _either(children: list[Any], data: Any) -> Any:
    try:
        left = _walk(children[0], data)
    except PathError:
        return _walk(children[1], data)
    return _walk(children[1], data) if _is_empty(left) else left


def _is_empty(value: Any) -> bool:
    """What JMESPath takes for false: not the number 0."""
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


def _opened(data: Any) -> Any:
    """The data, or what it says if it is a text that holds a JSON object or list."""
    if isinstance(data, str) and data.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return data
    return data


def _field(name: str, data: Any) -> Any:
    if isinstance(data, dict):
        if name in data:
            return data[name]
        raise PathError(f"there is no {name!r}", tuple(str(key)[:80] for key in islice(data, 21)))
    raise PathError(f"{name!r} needs an object, and there is {kind_of(data)}")


def _index(at: int, data: Any) -> Any:
    if isinstance(data, list):
        try:
            return data[at]
        except IndexError:
            raise PathError(f"there is no item [{at}] in a list of {len(data)}") from None
    raise PathError(f"[{at}] needs a list, and there is {kind_of(data)}")


def kind_of(data: Any) -> str:
    """The kind of a JSON value in words."""
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
