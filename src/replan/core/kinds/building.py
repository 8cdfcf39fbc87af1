"""The plan that a workflow comes to once its slots are filled.

What a slot is filled with is data: it is written so that the plan reads it as itself, whatever is in it. It can become no
reference, no name of a tool, and no part of a condition but a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from replan.core.kinds.workflow import Workflow
from replan.core.references.braces import in_braces, replaced
from replan.core.references.conditions import expression
from replan.core.references.expressions.grammar import literal
from replan.core.references.meter import PathError
from replan.core.references.paths import check_path, select
from replan.core.references.refs import (
    ID,
    Expression,
    Reference,
    Segment,
    changed,
    escape,
    is_plain,
    meaning,
    parse,
    references,
    whole,
)
from replan.core.types import JsonObject
from replan.core.waits.tools import WAIT_FOR_CONDITION

SLOTS = "slots"
"""What references to slots begin with."""
TEXTS = ("for_each", "when")
"""The fields of a step, beside its parameters, in which slots may stand."""


class SlotRef(NamedTuple):
    """A reference to a slot, or to a part of what it is filled with."""

    name: str
    path: str = ""
    problem: str = ""


class NotGiven(Exception):
    """A slot that may stay empty, and did."""


class Unwritable(Exception):
    """What a slot is filled with cannot stand where the workflow puts it."""


Value = Callable[[SlotRef], Any]
"""What a slot is filled with; `NotGiven` if with nothing."""


def slot_of(ref: Reference) -> SlotRef | None:
    """The slot that a reference names; None if it is no reference to a slot."""
    return _slot(ref.raw) if ref.head == SLOTS else None


def _slot(raw: str) -> SlotRef | None:
    inner = raw[2 : -1 if raw.startswith("$") else -2].strip()
    found = ID.match(inner)
    if found is None or found.group() != SLOTS:
        return None
    rest = inner[found.end() :].strip()
    named = ID.match(rest[1:].strip()) if rest.startswith(".") else None
    if named is None:
        return SlotRef("", "", f"{raw[:80]}: a slot is written ${{slots.NAME}}")
    path = rest[1:].strip()[named.end() :].strip()
    if path.startswith("."):
        path = path[1:].strip()
    elif path and not path.startswith("["):
        return SlotRef(
            named.group(), "", f"{raw[:80]}: what follows a slot is a path, as in ${{slots.NAME.field}}"
        )
    problem = check_path(path) if path else ""
    return SlotRef(named.group(), path, f"{raw[:80]}: {problem}" if problem else "")


def slots_in(value: Any) -> list[SlotRef]:
    """Every reference to a slot in a value, in keys too."""
    return [found for ref in references(value) if (found := slot_of(ref)) is not None]


def build(workflow: Workflow, slots: Mapping[str, Any]) -> JsonObject:
    """The plan with these values, in the form in which plans are given; `Unwritable` where one cannot stand where it should."""

    def value(ref: SlotRef) -> Any:
        if ref.name not in slots:
            raise NotGiven
        if not ref.path:
            return slots[ref.name]
        try:
            return select(ref.path, slots[ref.name])
        except PathError as error:
            raise Unwritable(f"slot {ref.name!r}: {ref.path}: {error}") from None

    return {"steps": [with_slots(step, value) for step in workflow.steps]}


def with_slots(step: JsonObject, value: Value) -> JsonObject:
    """One step with its slots filled in."""
    made = dict(step)
    where = f"step {step.get('step_id')!r}"
    try:
        if "parameters" in step:
            made["parameters"] = _parameters(step, value)
        if isinstance(step.get("actions"), list):
            made["actions"] = [{**one, "parameters": _parameters(one, value)} for one in step["actions"]]
        if "when" in step:
            made["when"] = _condition(step["when"], value)
        if "for_each" in step:
            made["for_each"] = _items(step["for_each"], value)
    except Unwritable as error:
        raise Unwritable(f"{where}: {error}") from None
    return made


def _parameters(call: JsonObject, value: Value) -> Any:
    """The parameters of one call. What waits for a condition has one among them."""
    given = call.get("parameters") or {}
    named = str(call.get("tool", "")).strip().casefold().replace("-", "_").replace(" ", "_")
    if named != WAIT_FOR_CONDITION.id or not isinstance(given, dict) or "condition" not in given:
        return _filled(given, value)
    rest = {name: part for name, part in given.items() if name != "condition"}
    return {**_filled(rest, value), "condition": _condition(given["condition"], value)}


def _condition(text: Any, value: Value) -> str:
    written = _in_paths(str(text), value)
    if expression(written) is not None:
        return changed(written, lambda raw: _in_expression(raw, value))
    return changed(written, lambda raw: _literal(raw, value))


def _filled(item: Any, value: Value) -> Any:
    """A parameter, or what is in one. What is nothing but a slot that was not filled is left out."""
    if isinstance(item, dict):
        kept = ((key, part) for key, part in item.items() if not _is_empty(part, value))
        return {key: _filled(part, value) for key, part in kept}
    if isinstance(item, list):
        return [_filled(part, value) for part in item if not _is_empty(part, value)]
    return _text(item, value) if isinstance(item, str) else item


def _is_empty(item: Any, value: Value) -> bool:
    alone = whole(item) if isinstance(item, str) else None
    ref = slot_of(alone) if alone is not None else None
    if ref is None:
        return False
    try:
        value(ref)
    except NotGiven:
        return True
    return False


def _text(text: str, value: Value) -> Any:
    if is_plain(text):
        return text
    text = _in_paths(text, value)
    if any(isinstance(part, Expression) and slots_in(part.raw) for part in parse(text)):
        text = _computed(text, value)
    parts = parse(text)
    refs = [slot_of(part) if isinstance(part, Reference) else None for part in parts]
    if not any(refs):
        return text
    if len(parts) == 1 and refs[0] is not None:
        return as_text(value(refs[0]))
    wanted: list[Segment] = []
    for part, ref in zip(parts, refs, strict=True):
        piece: Segment = part
        if ref is not None:
            try:
                piece = _in_text(value(ref))
            except NotGiven:
                piece = ""
        if isinstance(piece, str) and wanted and isinstance(wanted[-1], str):
            wanted[-1] += piece
        elif piece != "":
            wanted.append(piece)
    return _written(wanted)


def _in_paths(text: str, value: Value) -> str:
    """The text with the slots inside the paths of its references filled in, as literals there; the others stay."""
    if not any(slots_in(ref.raw) for one in references(text) for ref in one.within):
        return text

    def filled(raw: str) -> str:
        if _slot(raw) is not None:
            return raw
        inner = raw[2:]
        places = in_braces(inner)
        return raw[:2] + replaced(inner, ((place, literal_of(inner[slice(*place)])) for place in places))

    def literal_of(raw: str) -> str:
        return _literal(raw, value) if _slot(raw) is not None else filled(raw)

    return changed(text, filled)


def _computed(text: str, value: Value) -> str:
    """The text with the slots in its expressions filled in, as literals of those; the others stay."""
    inside = {ref.raw for part in parse(text) if isinstance(part, Expression) for ref in part.references}

    def filled(raw: str) -> str:
        return _in_expression(raw, value) if raw in inside else raw

    return changed(text, filled)


def _in_expression(raw: str, value: Value) -> str:
    """A slot in an expression, as a literal of it; what is no slot stays."""
    ref = _slot(raw)
    if ref is None:
        return raw
    try:
        found = value(ref)
    except NotGiven:
        found = None
    written = literal(found)
    if written is None:
        raise Unwritable(
            f"slot {ref.name!r} is an object, which nothing is computed with: take a field of it"
        )
    return written


def _in_text(found: Any) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _written(wanted: list[Segment]) -> str:
    """The text that is read as these pieces and nothing else."""
    written = "".join(escape(piece) if isinstance(piece, str) else _reference(piece) for piece in wanted)
    if [_meant(part) for part in parse(written)] != [_meant(piece) for piece in wanted]:
        raise Unwritable(
            "what a slot is filled with has braces, or ends in `$`, in one text with a reference, and would change what that means: "
            "fill it otherwise, or give the two parameters of their own"
        )
    return written


def _reference(ref: Reference | Expression) -> str:
    """In the form before which a brace may stand."""
    return ref.raw if ref.raw.startswith("$") else "${" + ref.raw[2:-2].strip() + "}"


def _meant(part: Segment) -> Any:
    if isinstance(part, Expression):
        return part.meaning(meaning), part.problem == ""
    return part if isinstance(part, str) else (part.head, part.action, part.path, part.problem == "")


def as_text(value: Any) -> Any:
    """The value as a plan holds it: nothing in it refers to anything, its keys neither."""
    if isinstance(value, str):
        return value if is_plain(value) else escape(value)
    if isinstance(value, dict):
        return {escape(str(key)): as_text(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_text(part) for part in value]
    return value


def _literal(raw: str, value: Value) -> str:
    """A slot in a condition, as a literal of JMESPath; what is no slot stays."""
    ref = _slot(raw)
    if ref is None:
        return raw
    try:
        found = value(ref)
    except NotGiven:
        found = None
    text = json.dumps(found)  # the signs that mean something to conditions stand within its texts alone
    for sign, written in _WRITTEN.items():
        text = text.replace(sign, written)
    return f"`{text}`"


_WRITTEN = {"`": "\\u0060", "$": "\\u0024", "{{": "{\\u007b"}


def _items(given: Any, value: Value) -> Any:
    """A list that a slot gives; else as it is written, with slots in the items of a list, or in an expression, filled in."""
    if isinstance(given, list):
        return _filled(given, value)
    given = _in_paths(given, value) if isinstance(given, str) else given
    if isinstance(given, str) and expression(given) is not None:
        return _computed(given, value)
    alone = whole(given) if isinstance(given, str) else None
    ref = slot_of(alone) if alone is not None else None
    if ref is None:
        return given
    try:
        found = value(ref)
    except NotGiven:
        return []
    if not isinstance(found, list):
        raise Unwritable(f"`for_each` needs a list, and slot {ref.name!r} is none")
    return as_text(found)
