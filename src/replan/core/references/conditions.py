"""Conditions: one JMESPath over `{step_id: {output, status}, …, metadata}`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from replan.core.masked import holds_lost, holds_masked
from replan.core.references.braces import replaced
from replan.core.references.evaluate import OfASecret, is_empty, said
from replan.core.references.loose import as_meant
from replan.core.references.meter import Meter
from replan.core.references.paths import Missing, PathError, check_path, select
from replan.core.references.refs import (
    WORDS,
    Expression,
    Reference,
    alone,
    gives_output,
    inside,
    is_plain,
    parse,
    with_those_inside,
)
from replan.core.references.trees import braces_at_root, filled, parsed
from replan.core.words import kind_of


def read_condition(text: str) -> str:
    """The condition as JMESPath: references as in parameters, and the words of other languages, are read as what they mean."""
    return as_meant(_without_braces(text))


def _without_braces(text: str) -> str:
    if is_plain(text) or any(isinstance(one, Expression) for one in parse(text)):
        return text.strip()
    if not check_path(text, refers=True):  # braces that stand in quotes are a text, whatever it says
        places = braces_at_root(text)
        names = [_name(alone(text[begin:end])) for begin, end in places]
        if "" in names:
            return text
        return replaced(text, zip(places, names, strict=True)).strip()
    out = ""
    for segment in parse(text):
        name = segment if isinstance(segment, str) else _name(segment)
        if not name:
            return text
        out += name
    return out.strip()


def _name(ref: Reference | Expression | None) -> str:
    """What a reference is in a condition, without its braces; empty for what is nothing there."""
    if not isinstance(ref, Reference) or ref.problem or ref.action:
        return ""
    names = ref.head.split(".")
    head = ".".join(name if name.isidentifier() else json.dumps(name) for name in names)
    if gives_output(ref.head):
        head += ".output"
    path = ref.path
    return head + (f".{path}" if path and path[0] not in "[@" else path.removeprefix("@"))


def expression(text: str) -> Expression | None:
    """What the condition is where it is not a JMESPath: one expression, whose references are written as in parameters."""
    found = None if is_plain(text) else alone(text.strip())
    return found if isinstance(found, Expression) else None


def check_condition(text: str) -> str:
    """Why the condition cannot be read, in words; empty if it can."""
    computed = expression(text)
    if computed is None:
        if problem := check_path(text, refers=True):
            return problem
        if braces_at_root(text):
            return f"a step is named without braces, as step_1.output.total > `0`, not {text!r}"
        return next(
            (
                one.problem or f"{one.raw} is no reference"
                for one in inside(text)
                if one.problem or isinstance(one, Expression)
            ),
            "",
        )
    return computed.problem or next((one.problem for one in computed.references if one.problem), "")


def roots(text: str) -> list[tuple[str, str | None]]:
    """Each name that the condition starts from, with the field that is taken of it; none if it cannot be read."""
    if check_condition(text):
        return []
    if (computed := expression(text)) is not None:
        return _heads(computed.references)
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
    found.update(dict.fromkeys(_heads(_inside(text))))
    return list(found)


def _heads(references: Iterable[Reference]) -> list[tuple[str, str | None]]:
    every = (ref for one in references for ref in with_those_inside(one))
    return [(ref.head, "output" if gives_output(ref.head) else None) for ref in every]


def _inside(text: str) -> list[Reference]:
    """What stands in braces in a condition that is a path."""
    return [one for one in inside(text) if isinstance(one, Reference)]


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
        found = select(_filled(text, _inside(text), full, meter), full, meter)
    except Missing:
        return False
    return bool(said(found, meter)) and not is_empty(found, meter)


def check_tells_nothing(text: str, shown: dict[str, Any]) -> None:
    """`OfASecret` if the condition compares, counts or computes with what is masked in `shown`: its answer would tell of it."""
    try:
        holds(text, shown)
    except OfASecret:
        raise
    except PathError:
        return  # which is told of the values as they are


def _worked_out(computed: Expression, scope: dict[str, Any], meter: Meter) -> Any:
    from replan.core.references.expressions.work import work_out

    def given(at: int) -> Any:
        found = _given(computed.references[at], scope, meter)
        if holds_masked(found) and not holds_lost(found):
            raise OfASecret
        return found

    if computed.tree is None:
        raise PathError(computed.problem)
    return work_out(computed.tree, given, meter)


def _given(ref: Reference, scope: dict[str, Any], meter: Meter) -> Any:
    """What a reference gives of what the condition starts from."""
    found: Any = scope
    for name in (*ref.head.split("."), *(["output"] if gives_output(ref.head) else [])):
        found = found.get(name) if isinstance(found, dict) else None
    if ref.action is not None:
        found = _of_action(meter.opened(found), ref.action)
    return select(_filled(ref.path, ref.within, scope, meter), found, meter) if ref.path else found


def _filled(path: str, within: Iterable[Reference], scope: dict[str, Any], meter: Meter) -> str:
    """The path with the values of what stands in it; what has none is a fault, and not null."""
    known = {ref.raw: ref for ref in within}

    def value(raw: str) -> Any:
        ref = known[raw]
        name, *parts = ref.head.split(".")
        if name not in scope or (gives_output(ref.head) and not parts and "output" not in scope[name]):
            raise PathError(f"{raw} has no value")
        try:
            return _given(ref, scope, meter)
        except Missing as error:
            raise PathError(f"{raw}: {error.why}", error.available) from None

    return filled(path, value) if known else path


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
