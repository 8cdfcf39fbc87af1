"""How the calls of a step come out, one by one and together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replan.core.calls.site import Slot, items_in_words
from replan.core.state.task import StepState
from replan.core.types import Fault, JsonObject
from replan.core.words import beginning, some
from replan.errors import ReplanError
from replan.run.calls.build import Call
from replan.run.calls.slots import Place


class Outcomes:
    """The outcomes of a step's calls, as they come in."""

    def __init__(self, count: int) -> None:
        self.of: list[Fault | JsonObject | None] = [None] * count
        self.left = count
        self.parked: list[Call] = []
        """Calls that wait for a person, or are waits themselves."""
        self.without: set[int] = set()
        """Those that were not made, as what they need has failed."""
        self.ended: list[int] | None = None
        """Those that came out, where somebody asks in which order; None: nobody does."""
        self.place: Place | None = None
        """Of the call that came out last: with it the step comes to its end."""

    def end(self, at: int, outcome: Fault | JsonObject) -> None:
        self.of[at] = outcome
        self.left -= 1
        if self.ended is not None:
            self.ended.append(at)

    def end_without(self, at: int, action_id: str) -> None:
        """It is not made, as this action of its step has failed."""
        self.without.add(at)
        text = f"action {action_id!r}, which it needs, has failed"
        self.end(at, Fault(category="dependency_error", kind="reference", message=text, happened="no"))

    def metadata(self) -> JsonObject:
        """What all of them add; the last writer in plan order wins."""
        merged: JsonObject = {}
        for outcome in self.of:
            merged.update(outcome if isinstance(outcome, dict) else {})
        return merged


class Parked(NamedTuple):
    """A call that waits for a person's yes, or one that is a wait itself (`ToolSpec.waits`)."""

    call: Call


def internal_fault(error: Exception) -> Fault:
    """An error that nothing has handled: a fault of ours, unless somebody has raised it on purpose."""
    ours = f"a fault of Replan: {type(error).__name__}: {error}"
    return Fault(
        category="unknown", kind="internal", message=str(error) if isinstance(error, ReplanError) else ours
    )


def crashed_fault() -> Fault:
    return Fault(category="unknown", kind="crashed", message="its outcome is unknown", happened="unknown")


_MOST_TOLD = 20
"""Different messages of one step that are told; and characters of each."""
_TOLD = 300


def summed(faults: Sequence[tuple[Slot, Fault]], of: int) -> Fault:
    """One fault for a step whose calls failed: every failure, those with one message together."""
    first = next((fault for _, fault in faults if fault.happened == "unknown"), faults[0][1])
    if of == 1:
        return first
    alike: dict[str, list[Slot]] = {}
    for slot, fault in faults:
        alike.setdefault(fault.message, []).append(slot)
    told = [
        f"{_places(slots)}: {beginning(message, _TOLD)}"
        for message, slots in list(alike.items())[:_MOST_TOLD]
    ]
    if len(alike) > _MOST_TOLD:
        told.append(f"and {len(alike) - _MOST_TOLD} other messages")
    return first.model_copy(update={"message": f"{len(faults)} of {of} calls failed; {'; '.join(told)}"})


def _places(slots: Sequence[Slot]) -> str:
    if all(slot.action_id is None and slot.item is not None for slot in slots):
        return items_in_words([slot.item for slot in slots if slot.item is not None])
    return some([slot.words() for slot in slots], _MOST_TOLD, between="; ")


def goes_without(step: StepState, faults: Sequence[tuple[Slot, Fault]]) -> bool:
    """True if the plan allows the step to go on without these items: some succeeded, and no effect is in doubt."""
    if not step.step.allow_failed_items or not step.items or len(step.left_out) == step.items:
        return False
    doubts = any(call.status == "unknown" for call in step.calls.values())
    return not doubts and all(fault.happened == "no" and fault.kind != "internal" for _, fault in faults)
