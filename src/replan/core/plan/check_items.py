"""Whether the calls of a `for_each` fit their tool where the plan names the items itself: these are constants too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replan.core.data.validation import faults
from replan.core.plan.check_parameters import is_excused, words_of_fault
from replan.core.plan.index import Draft, PlannedCall
from replan.core.references.refs import Reference, has_references, listed, references
from replan.core.references.resolve import resolve
from replan.core.types import JsonObject, Step, ToolSpec
from replan.errors import UnresolvedReference

_OF_AN_ITEM = ("item", "index")
_MOST_TOLD = 5
_OF_EVERY_CALL = ("required", "additionalProperties")
"""What is told of the call once, not of each item."""


def item_violations(draft: Draft, step: Step, call: PlannedCall) -> Iterator[str]:
    """What does not fit, item by item, counted from 1; of very many wrong ones the first."""
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
        if of_this and not is_excused(draft, step, fault, filled):
            yield f"{where}: {words_of_fault(tool, fault)}"
