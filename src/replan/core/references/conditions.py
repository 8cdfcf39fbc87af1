"""Conditions: one JMESPath over `{step_id: {output, status}, …, metadata}`."""

from __future__ import annotations

import json
from typing import Any

from replan.core.references.evaluate import is_empty, said
from replan.core.references.loose import as_meant
from replan.core.references.meter import Meter
from replan.core.references.paths import Missing, PathError, check_path, parsed, select
from replan.core.references.refs import WORDS, Expression, alone, gives_output, is_plain, parse
from replan.core.words import kind_of


def read_condition(text: str) -> str:
    """The condition as JMESPath: references as in parameters, and the words of other languages, are read as what they mean."""
    return as_meant(_without_braces(text))


def _without_braces(text: str) -> str:
    if is_plain(text) or any(isinstance(one, Expression) for one in parse(text)):
        return text.strip()
    if not check_path(text):  # braces that stand in quotes: a text, whatever it says
        return text
    out = ""
    for segment in parse(text):
        if isinstance(segment, Expression):
            return text.strip()
        if isinstance(segment, str):
            out += segment
        elif segment.problem or segment.action:
            return text
        else:
            names = segment.head.split(".")
            head = ".".join(name if name.isidentifier() else json.dumps(name) for name in names)
            if gives_output(segment.head):
                head += ".output"
            path = segment.path
            out += head + (f".{path}" if path and path[0] not in "[@" else path.removeprefix("@"))
    return out.strip()


def expression(text: str) -> Expression | None:
    """What the condition is where it is not a JMESPath: one expression, whose references are written as in parameters."""
    found = None if is_plain(text) else alone(text.strip())
    return found if isinstance(found, Expression) else None


def check_condition(text: str) -> str:
    """Why the condition cannot be read, in words; empty if it can."""
    computed = expression(text)
    if computed is None:
        return check_path(text)
    return computed.problem or next((one.problem for one in computed.references if one.problem), "")


def roots(text: str) -> list[tuple[str, str | None]]:
    """Each name that the condition starts from, with the field that is taken of it; none if it cannot be read."""
    if check_condition(text):
        return []
    if (computed := expression(text)) is not None:
        return [(one.head, "output" if gives_output(one.head) else None) for one in computed.references]
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
    """True if the condition selects something that is not false, null, 0 or empty; what is not there is null.

    `PathError` if it cannot be computed: values that do not compare, or a field that is computed with and not there. An expression is true
    or false, and nothing that it counts on is missing.
    """
    full = {
        name: {**value, "outputs": value["output"]}
        if isinstance(value, dict) and "output" in value
        else value
        for name, value in scope.items()
    }
    meter = Meter()
    if (computed := expression(text)) is not None:
        found = _worked_out(computed, full, meter)
        if not isinstance(found, bool):
            raise PathError(f"it gives {kind_of(found)}, and a condition is true or false")
        return found
    try:
        found = select(text, full, meter)
    except Missing:
        return False
    return bool(said(found, meter)) and not is_empty(found, meter)


def _worked_out(computed: Expression, scope: dict[str, Any], meter: Meter) -> Any:
    from replan.core.references.expressions.work import work_out

    def given(at: int) -> Any:
        ref = computed.references[at]
        found: Any = scope
        for name in (*ref.head.split("."), *(["output"] if gives_output(ref.head) else [])):
            found = found.get(name) if isinstance(found, dict) else None
        if ref.action is not None:
            found = _of_action(meter.opened(found), ref.action)
        return select(ref.path, found, meter) if ref.path else found

    if computed.tree is None:
        raise PathError(computed.problem)
    return work_out(computed.tree, given, meter)


def _of_action(output: Any, action: str) -> Any:
    """What one action of a step has given: of a step over a list, for each item."""
    if isinstance(output, list):
        return [_of_action(one, action) for one in output]
    if not isinstance(output, dict) or action not in output:
        raise PathError(f"there is no output of an action {action!r}")
    return output[action]


STATUSES = ("succeeded", "failed", "skipped")
"""The status words that a condition may look for: the steps that it looks at have come to an end."""


def unknown_statuses(text: str) -> list[str]:
    """What the condition compares a step's status with that is no status."""
    found: dict[str, None] = {}
    if expression(text) is not None:
        return []

    def visit(node: Any) -> None:
        children = [child for child in node.get("children") or () if isinstance(child, dict)]
        if node["type"] == "comparator" and any(map(_is_status, children)):
            found.update(dict.fromkeys(_words(children)))
        elif node.get("value") == "contains" and len(children) == 2 and _is_status(children[1]):
            found.update(dict.fromkeys(_words(children[:1])))
        for child in children:
            visit(child)

    visit(parsed(text))
    return [word for word in found if word not in STATUSES]


def waits_for_failure(text: str) -> list[str]:
    """The steps of which the condition asks whether they have failed: a step that has stops those that need it."""
    found: dict[str, None] = {}
    if expression(text) is not None:
        return []

    def visit(node: Any) -> None:
        children = [child for child in node.get("children") or () if isinstance(child, dict)]
        if (
            node["type"] == "comparator"
            and node.get("value") == "eq"
            and _words(children) == ["failed"]
            and (status := next(filter(_is_status, children), None)) is not None
        ):
            found[status["children"][0]["value"]] = None
        for child in children:
            visit(child)

    visit(parsed(text))
    return list(found)


def _is_status(node: Any) -> bool:
    """True for `step.status`."""
    children: list[Any] = list(node.get("children") or ())
    return (
        node["type"] == "subexpression"
        and len(children) == 2
        and all(child["type"] == "field" for child in children)
        and children[1]["value"] == "status"
        and children[0]["value"] not in WORDS
    )


def _words(nodes: list[Any]) -> list[str]:
    """The texts that stand in these nodes as literals, also in lists."""
    out: list[str] = []
    for node in nodes:
        if node["type"] == "literal":
            values = node["value"] if isinstance(node["value"], list) else [node["value"]]
            out += [str(value) for value in values if value is not None]
        elif node["type"] == "multi_select_list":
            out += _words(node["children"])
    return out
