"""Conditions: one JMESPath over `{step_id: {output, status}, …, metadata}`."""

from __future__ import annotations

import json
from typing import Any

from replan.core.paths import PathError, check_path, parsed, select
from replan.core.refs import WORDS, Reference, is_plain, parse


def read_condition(text: str) -> str:
    """The condition with references written as in parameters turned into plain paths."""
    if is_plain(text):
        return text.strip()
    out = ""
    for segment in parse(text):
        if not isinstance(segment, Reference):
            out += segment
        elif segment.problem or segment.action:
            return text
        else:
            head = segment.head if segment.head.isidentifier() else json.dumps(segment.head)
            if segment.head not in WORDS:
                head += ".output"
            path = segment.path
            out += head + (f".{path}" if path and path[0] not in "[@" else path.removeprefix("@"))
    return out.strip()


def roots(text: str) -> list[tuple[str, str | None]]:
    """Each name that the condition starts from, with the field that is taken of it; none if it cannot be read."""
    if check_path(text):
        return []
    found: dict[tuple[str, str | None], None] = {}

    def visit(node: Any, *, at_root: bool) -> None:
        kind, children = node["type"], node.get("children", [])
        if kind == "field":
            if at_root:
                found[node["value"], None] = None
        elif kind in _CHAINS:
            for place, child in enumerate(children):
                following = children[place + 1] if place + 1 < len(children) else {}
                if at_root and child["type"] == "field" and kind == "subexpression":
                    found[
                        child["value"], following["value"] if following.get("type") == "field" else None
                    ] = None
                else:
                    visit(child, at_root=at_root)
                at_root = at_root and child["type"] in ("current", "identity")
        elif kind != "expref":  # `&name` looks at the items of a list
            for child in children:
                if isinstance(child, dict):
                    visit(child, at_root=at_root)

    visit(parsed(text), at_root=True)
    return list(found)


_CHAINS = (
    "subexpression",
    "index_expression",
    "pipe",
    "projection",
    "filter_projection",
    "value_projection",
    "flatten",
)


def steps_in_condition(text: str) -> list[str]:
    """The names that the condition starts from: step ids, and `metadata`."""
    return list(dict.fromkeys(name for name, _ in roots(text)))


def holds(text: str, scope: dict[str, Any]) -> bool:
    """True if the condition selects something that is not false, null, 0 or empty."""
    full = {
        name: {**value, "outputs": value["output"]}
        if isinstance(value, dict) and "output" in value
        else value
        for name, value in scope.items()
    }
    try:
        return bool(select(text, full))
    except PathError:
        return False
