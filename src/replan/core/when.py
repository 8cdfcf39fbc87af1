"""Conditions: one JMESPath over `{step_id: {output, status}, …, metadata}`."""

from __future__ import annotations

from typing import Any

from replan.core.paths import PathError, _compile, check_path, select
from replan.core.refs import Reference, is_plain, parse


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
        elif segment.head in ("metadata", "task", "item", "index"):
            out += ".".join(part for part in (segment.head, segment.path) if part)
        else:
            path = segment.path
            out += f"{segment.head}.output" + (path if path.startswith("[") else f".{path}" if path else "")
    return out.strip()


def steps_in_condition(text: str) -> list[str]:
    """The names that the condition starts from: step ids, and `metadata`."""
    if check_path(text):
        return []
    names: dict[str, None] = {}

    def visit(node: Any, *, root: bool) -> None:
        kind = node["type"]
        children = node.get("children", [])
        if kind == "field" and root:
            names[node["value"]] = None
        elif kind in ("subexpression", "index_expression", "pipe", "projection", "filter_projection",
                      "value_projection", "flatten"):  # fmt: skip
            for at, child in enumerate(children):
                visit(child, root=root and at == 0)
        else:
            for child in children:
                visit(child, root=root)

    visit(_compile(text).parsed, root=True)
    return list(names)


def holds(text: str, scope: dict[str, Any]) -> bool:
    """True if the condition selects something that is not false, null, 0 or empty."""
    try:
        return bool(select(text, scope))
    except PathError:
        return False
