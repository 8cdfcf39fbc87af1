"""Paths as they are written: read, checked, and what can be told of them beforehand. `core.references.evaluate` works them out.

The language is JMESPath (jmespath.org); `["key"]` is read as `."key"` as well, and a reference in braces stands for its value
(`core.references.trees`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from jmespath import exceptions, functions

from replan.core.references.braces import in_braces
from replan.core.references.evaluate import evaluate
from replan.core.references.meter import Meter
from replan.core.references.meter import Missing as Missing
from replan.core.references.meter import PathError as PathError
from replan.core.references.trees import parsed

MAX_LENGTH = 2_000
"""Characters of a path."""


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


MOST_INSIDE = 20
"""References in one path, those in the paths of others counted too."""


def check_path(path: str, *, refers: bool = False) -> str:
    """Why the path cannot be read, in words; empty if it can. `refers`: references in braces may stand in it."""
    if len(path) > MAX_LENGTH:
        return f"the path {path[:40]!r}… has {len(path)} characters; at most {MAX_LENGTH} are allowed"
    if "{" in path and (inside := in_braces(path)):
        if not refers:
            return f"the path {path!r} is no JMESPath: nothing is filled in for the braces in it"
        if sum(len(_MARKS.findall(path[begin:end])) for begin, end in inside) > MOST_INSIDE:
            return f"the path {path[:40]!r}… has more than {MOST_INSIDE} references in it"
    try:
        return _misread(path) or _unknown_function(parsed(path))
    except (RecursionError, _TooDeep):
        return f"the path {path[:40]!r}… is nested too deep"
    except exceptions.JMESPathError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return f"the path {path!r} is no JMESPath ({reason}){_hint(path)}"


_MARKS = re.compile(r"\$\{|\{\{")
_COMPARED = r"(?:[=!<>]=|[<>])\s*"


OF_LENGTH = re.compile(r"\w\.length\s*" + _COMPARED)
"""The length of a list as JavaScript has it, or a field of that name."""


def _hint(path: str) -> str:
    if OF_LENGTH.search(path):
        return "; how many items a list has is written length(step_1.output.items)"
    if re.search(_COMPARED + r"[-\d]", path):
        return "; a number to compare with is written in backticks: > `5`"
    if re.search(r"(^|\.)\d+(\.|$|\[)", path):
        return "; an item of a list is written [0]"
    if re.search(r"[A-Za-z0-9_]-[A-Za-z0-9_]", path) or " " in path.strip():
        return '; a name with other characters is written in double quotes: "like-this"'
    return ""


LITERALS = {name: name.lower() for name in ("true", "false", "null", "True", "False")} | {"None": "null"}
"""Words for values, and how JSON writes them."""
_MISREAD = re.compile(
    _COMPARED
    + r"""(?:(?P<text>"(?:[^"\\]|\\.)*+")(?!\s*+[.\[])|(?P<word>[tT]rue|[fF]alse|null|None)(?![\w.\[(-]))|"""
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
            value = LITERALS[word]
            return f"the path {path!r} compares with a field named {word}; the value is written `{value}`"
    return ""


MAX_NESTED = 200
"""Levels of a path's tree: what goes through it goes no deeper into the stack than that, wherever it is called."""


class _TooDeep(Exception):
    """More than `MAX_NESTED` levels."""


def _unknown_function(node: Any, depth: int = 0) -> str:
    if depth > MAX_NESTED:
        raise _TooDeep
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
    for child in node.get("children", ()):
        if problem := _unknown_function(child, depth + 1):
            return problem
    return ""


def select(path: str, data: Any, meter: Meter | None = None) -> Any:
    """What the path selects; `PathError` if that is nothing. An empty projection is `[]`."""
    try:
        return evaluate(parsed(path), data, meter or Meter())
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


def chains(path: str) -> list[tuple[str, ...]]:
    """The names with which every chain of fields begins that starts where the path does: beside `||`, in functions, compared."""
    return list(_chains(parsed(path)))


def _chains(node: Any) -> Iterator[tuple[str, ...]]:
    match node["type"]:
        case "field":
            yield (node["value"],)
        case "subexpression":
            first, second = node["children"][:2]
            for chain in _chains(first):
                yield (*chain, second["value"]) if second["type"] == "field" else chain
        case "expref" | "literal":
            return
        case (
            "pipe" | "index_expression" | "projection" | "filter_projection" | "value_projection" | "flatten"
        ):
            yield from _chains(node["children"][0])
        case _:
            for child in node.get("children", ()):
                yield from _chains(child)


def filters(path: str) -> list[tuple[Any, list[str]]]:
    """The filters of a path that stand where it starts: what each goes through, as a tree, and the fields that it looks at."""
    found: list[tuple[Any, list[str]]] = []

    def visit(node: Any) -> None:
        if node["type"] == "filter_projection":
            found.append((node["children"][0], [chain[0] for chain in _chains(node["children"][2])]))
            visit(node["children"][0])
        elif node["type"] in ("pipe", "index_expression", "projection", "value_projection", "flatten"):
            visit(node["children"][0])
        elif node["type"] not in ("expref", "literal"):
            for child in node.get("children", ()):
                visit(child)

    visit(parsed(path))
    return found


def gives_list(path: str) -> bool:
    """True if the path can select nothing but a list."""
    return parsed(path)["type"] in (*_PROJECTIONS, "multi_select_list")


_PROJECTIONS = ("projection", "value_projection", "flatten", "filter_projection")
