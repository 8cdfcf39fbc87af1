"""How the calls of a step come out, one by one and together."""

from __future__ import annotations

from typing import NamedTuple

from replan.core.types import Fault, JsonObject
from replan.run.calls import Call


class Outcomes:
    """The outcomes of a step's calls, as they come in."""

    def __init__(self, count: int) -> None:
        self.of: list[Fault | JsonObject | None] = [None] * count
        self.left = count
        self.parked: list[Call] = []
        """Calls that wait for a person."""

    def end(self, at: int, outcome: Fault | JsonObject) -> None:
        self.of[at] = outcome
        self.left -= 1

    def metadata(self) -> JsonObject:
        """What all of them add; the last writer in plan order wins."""
        merged: JsonObject = {}
        for outcome in self.of:
            merged.update(outcome if isinstance(outcome, dict) else {})
        return merged


class Parked(NamedTuple):
    """A call that waits for a person's yes."""

    call: Call


def internal_fault(error: Exception) -> Fault:
    return Fault(
        category="unknown", kind="internal", message=f"a fault of Replan: {type(error).__name__}: {error}"
    )


def crashed_fault() -> Fault:
    return Fault(category="unknown", kind="crashed", message="its outcome is unknown", happened="unknown")


def summed(faults: list[Fault], of: int) -> Fault:
    """One fault for a step whose calls failed."""
    first = next((fault for fault in faults if fault.happened == "unknown"), faults[0])
    if of == 1:
        return first
    return first.model_copy(
        update={"message": f"{len(faults)} of {of} calls failed; the first: {first.message}"}
    )
