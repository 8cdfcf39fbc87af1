"""Whether a planned call's parameters fit its tool's schema, as far as that can be told beforehand."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from replan.core.data import schemas
from replan.core.data.validation import Fault, faults
from replan.core.plan.check_references import (
    expression_problem,
    given_schema,
    given_types,
    types_of_items,
    types_worked_out,
)
from replan.core.plan.index import Draft, PlannedCall, metadata_name
from replan.core.plan.receivers import strays
from replan.core.references.expressions.kinds import Misfit
from replan.core.references.refs import (
    Expression,
    Reference,
    alone,
    expressions,
    has_references,
    is_plain,
    listed,
    references,
)
from replan.core.references.resolve import resolve
from replan.core.secrets import MASK
from replan.core.types import JsonObject, Step, ToolSpec
from replan.core.words import some
from replan.errors import UnresolvedReference

_OF_THE_FORM = frozenset(
    {"required", "additionalProperties", "type", "minProperties", "maxProperties", "minItems", "maxItems"}
)
"""What filling in references into an object or list does not change."""
_OF_AN_ITEM = ("item", "index")
_MOST_TOLD = 5
_OF_EVERY_CALL = ("required", "additionalProperties")
"""What is told of the call once, not of each item."""


def parameter_violations(draft: Draft, step: Step, call: PlannedCall) -> Iterator[str]:
    """What does not match, with its place: constants, what the metadata fills in, and referenced types."""
    tool = call.tool
    if tool is None:
        return
    for name in masks_written(draft, call):
        yield (
            f"{call.where}: {name} is {MASK}, which stands for a secret that is not shown and is no value; refer to "
            "what holds it, as ${metadata.NAME}, or leave it out where the metadata have one of its name"
        )
    filled = draft.filled(call)
    parameters = {**call.parameters, **filled} if filled else call.parameters
    for error in faults(tool.parameters, parameters):
        if not _is_excused(draft, step, tool, error, filled):
            yield f"{call.where}: {_words_of_fault(tool, error)}"
    if not call.refers:
        return
    yield from _expression_violations(draft, step, call)
    if draft.secret is not None:
        for text in strays(
            tool, call.parameters, step.for_each, draft.secret, skip=_written_by_steps(draft, step, call)
        ):
            yield f"{call.where}: {text}"
    for path, text, wanted in schemas.parameter_schemas(tool.parameters, call.parameters):
        ref = alone(text)
        if ref is None or wanted is None:
            continue
        try:
            own = step.step_id
            given = (
                given_types(draft, ref, own)
                if isinstance(ref, Reference)
                else types_worked_out(draft, ref, own)
            )
        except Misfit:
            continue  # said of the expression
        needed = schemas.types_of(wanted)
        if not schemas.can_fit(given, needed):
            yield (
                f"{call.where}: {schemas.place(path)} has to be {schemas.words_of(needed)}, "
                f"and {ref.raw} gives {schemas.words_of(given)}{_as_text(ref, needed, given)}"
            )
        elif problem := _no_value_fits(draft, step, tool, path, wanted, ref):
            yield f"{call.where}: {schemas.place(path)} {problem}"


def _no_value_fits(
    draft: Draft,
    step: Step,
    tool: ToolSpec,
    path: list[str | int],
    wanted: JsonObject,
    ref: Reference | Expression,
) -> str:
    """Why nothing that this can give is taken there, though it is of a type that is; empty where something may be."""
    if isinstance(ref, Expression):
        if ref.references or ref.tree is None:
            return ""
        try:
            value = resolve(ref.raw, _nothing_known)
        except UnresolvedReference as error:
            return f"cannot be had: {error}"
        found = [one for one in faults(wanted, value) if one.keyword and not one.path]
        return f"does not fit: {ref.raw}: {found[0].message}" if found and "$ref" not in str(wanted) else ""
    if schemas.share_no_text(given_schema(draft, ref, step.step_id), wanted):
        given = schemas.values_of(given_schema(draft, ref, step.step_id)) or []
        right = schemas.values_of(wanted) or []
        return f"has to be one of {some([repr(one) for one in right], 10)}, and {ref.raw} gives one of {some([repr(one) for one in given], 10)}"
    if schemas.types_of(wanted) != _A_LIST:
        return ""
    given_items = types_of_items(draft, ref, step.step_id)
    try:
        needed = schemas.types_of(schemas.schema_at(tool.parameters, [*path, _ANY_ITEM]))
    except schemas.PathUnknown:
        return ""
    if schemas.can_fit(given_items, needed):
        return ""
    return (
        f"has to be a list, each item of which is {schemas.words_of(needed)}, and each item of what {ref.raw} gives is "
        f"{schemas.words_of(given_items)}"
    )


_A_LIST = frozenset({"array"})
_ANY_ITEM = 1_000_000
"""An item beyond those that a schema may describe one by one."""


def _nothing_known(ref: Reference) -> tuple[Any, str]:
    """What an expression without references looks at."""
    raise UnresolvedReference(ref.raw, where="this plan", why="it is no constant")


def _expression_violations(draft: Draft, step: Step, call: PlannedCall) -> Iterator[str]:
    """What is wrong with the call's expressions beside their references: how they are written, and what cannot be computed with what."""
    for one in expressions(call.parameters):
        if problem := expression_problem(draft, one, step.step_id):
            yield f"{call.where}: {problem}"


def masks_written(draft: Draft, call: PlannedCall) -> list[str]:
    """The parameters that are a mask: no value of one for a secret, nor of any where the task has secrets, as a model was shown it."""
    if call.tool is None or not (draft.secret or call.tool.secrets):
        return []
    names = call.parameters if draft.secret is not None else call.tool.secrets
    return [name for name in names if call.parameters.get(name) == MASK]


def _as_text(
    ref: Reference | Expression, needed: Collection[str] | None, given: Collection[str] | None
) -> str:
    """How a number is written where a text is needed; empty where that is not what is wrong."""
    if not needed or "string" not in needed or not given or not {"integer", "number"}.issuperset(given):
        return ""
    if isinstance(ref, Expression):
        return "; text(…) makes a text of it"
    if "|" in ref.raw or not ref.raw.startswith("${"):
        return ""
    return f"; as a text it is {ref.raw[:-1]} | to_string(@)}}"


def _written_by_steps(draft: Draft, step: Step, call: PlannedCall) -> set[str]:
    """The references to metadata that steps before this one may have written by then."""
    if not draft.writers:
        return set()
    every = [*references(call.parameters), *(references(step.for_each) if step.for_each is not None else ())]
    return {
        ref.raw
        for ref in every
        if ref.head == "metadata" and draft.writers_before(step.step_id, metadata_name(ref))
    }


def _is_excused(draft: Draft, step: Step, tool: ToolSpec, error: Fault, filled: Collection[str]) -> bool:
    """True if the error may be gone by the time of the call."""
    if error.keyword == "required" and not error.path:
        return error.expected in tool.from_metadata and bool(
            draft.writers_before(step.step_id, error.expected)
        )
    if error.path and (first := error.path[0]) in filled:
        return bool(draft.writers_before(step.step_id, str(first)))
    instance = error.instance
    if isinstance(instance, str):
        if is_plain(instance):
            return False
        return alone(instance) is not None or error.keyword != "type"
    return error.keyword not in _OF_THE_FORM and has_references(instance)


def _words_of_fault(tool: ToolSpec, error: Fault) -> str:
    """What does not fit, for whoever has to mend it."""
    text = f"tool {tool.id!r}: {error}"
    if error.keyword in ("required", "additionalProperties") and not error.path:
        text += f"; its parameters are: {', '.join(tool.parameters.get('properties', {})) or 'none'}"
    return text


def item_violations(draft: Draft, step: Step, call: PlannedCall) -> Iterator[str]:
    """The same of the items that the plan names itself, which are constants too, counted from 1; of very many the first."""
    items = listed(step.for_each) if step.for_each is not None else None
    if not items or call.tool is None:
        return
    of_items = {
        name
        for name, value in call.parameters.items()
        if has_references(value) and all(ref.head in _OF_AN_ITEM for ref in references(value))
    }
    told = 0
    for at, item in enumerate(items):
        if has_references(item):
            continue
        found = list(_wrong(draft, step, call, call.tool, of_items, item, at))
        yield from found
        told += bool(found)
        if told >= _MOST_TOLD:
            return


def _wrong(
    draft: Draft, step: Step, call: PlannedCall, tool: ToolSpec, of_items: set[str], item: Any, at: int
) -> Iterator[str]:
    where = f"{call.where}, item {at + 1}"

    def meant(ref: Reference) -> tuple[Any, str]:
        return (item if ref.head == "item" else at), f"item {at + 1}"

    read: JsonObject = {}
    for name in of_items:
        try:
            read |= resolve({name: call.parameters[name]}, meant)
        except UnresolvedReference as error:
            yield f"{where}: {error}"
    filled = draft.filled(call)
    whole = read.keys() == of_items
    for fault in faults(tool.parameters, {**call.parameters, **filled, **read}):
        of_this = fault.path[0] in read if fault.path else whole and fault.keyword not in _OF_EVERY_CALL
        if of_this and not _is_excused(draft, step, tool, fault, filled):
            yield f"{where}: {_words_of_fault(tool, fault)}"
