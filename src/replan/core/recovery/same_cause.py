"""What was decided for one item of a `for_each`, for the others that failed in the same way (specification §6).

One cause is asked about once. A remedy is taken over where it has mended the other item, and nothing in it is that item's own:
a value is only where the error names it, in the very words of both items. Else the item is asked about by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import NamedTuple

from replan.core.calls.site import Slot
from replan.core.events import StepReflected
from replan.core.recovery.check_proposal import UNRECOVERABLE
from replan.core.references.refs import references
from replan.core.reflection import SuggestedAction
from replan.core.state.progress import StepState
from replan.core.state.step_recovery import Override
from replan.core.types import JsonObject
from replan.core.walk import scalars


class Known(NamedTuple):
    """A remedy of another item, and what was thought of its failure."""

    action: SuggestedAction
    of: StepReflected


def known_remedy(step: StepState, slot: Slot, failure: StepReflected, planned: JsonObject) -> Known | None:
    """What was decided for another item that failed in the same way; None: there is nothing that could be taken over.

    `planned`: what this item's call was to be made with.
    """
    mine = step.healing
    if mine is None or slot.item is None:
        return None
    if any(one.signature == failure.signature for one in mine.failures(slot)):
        return None  # it did not help here
    for other in mine.slots():
        if other == slot or other.action_id != slot.action_id:
            continue
        for of in mine.failures(other):
            if (of.signature, of.tool_id) != (failure.signature, failure.tool_id):
                continue
            waits = mine.pending.get(other)
            if waits is not None and (waits.type == "repair_step" or _is_out_of_reach(of)):
                return Known(waits, of)
            call, override = step.calls.get(other), mine.overrides.get(other)
            mended = call is not None and call.status == "succeeded" and not call.reused
            if mended and override is not None and (action := _as_here(step, override, of, failure, planned)):
                return Known(action, of)
    return None


def _is_out_of_reach(of: StepReflected) -> bool:
    return of.proposal is not None and of.proposal.root_cause_category in UNRECOVERABLE


def _as_here(
    step: StepState, override: Override, of: StepReflected, failure: StepReflected, planned: JsonObject
) -> SuggestedAction | None:
    """The remedy with this item's values in place of the other's; None where something in it may be the other's own."""
    written = (step.step if of.action_id is None else step.action(of.action_id)).parameters
    own = {name for name, value in written.items() if _uses_item(value)}
    if override.without:
        return None
    if override.whole:
        return _by_tool(override, of.parameters, own, planned)
    if override.parameters and of.error.message != failure.error.message:
        return None  # what it says of each may be each one's own
    for name, value in override.parameters.items():
        if name not in written or name in own or not _told(value, failure.error.message):
            return None
    if override.tool_id is None:
        return SuggestedAction(type="retry_with_params", data=dict(override.parameters))
    if override.parameters:
        return None
    return SuggestedAction(type="retry_with_tool", data={"tool_id": override.tool_id})


def _by_tool(
    override: Override, called: JsonObject, own: Collection[str], planned: JsonObject
) -> SuggestedAction | None:
    """Another tool with what the failed call had: each value is told from which of its parameters it was taken."""
    given: JsonObject = {}
    for name, value in override.parameters.items():
        found = [one for one in called if called[one] == value]
        source = name if name in found else found[0] if len(found) == 1 else ""
        if not source or source not in planned or (source not in own and any(one in own for one in found)):
            return None
        given[name] = planned[source]
    return SuggestedAction(type="retry_with_tool", data={"tool_id": override.tool_id, "parameters": given})


def _uses_item(value: object) -> bool:
    return any(ref.head in ("item", "index") for ref in references(value))


def _told(value: object, message: str) -> bool:
    """True if everything in the value stands in the message, each as a word of its own."""
    leaves = scalars(value)
    plain = [value] if not isinstance(value, dict | list) else []
    leaves += [json.dumps(one) for one in plain if one is None or isinstance(one, bool)]
    return bool(leaves) and all(
        re.search(rf"(?<!\w){re.escape(one)}(?!\w)", message) is not None for one in leaves
    )
