"""What was planned and not done: steps of earlier plans that no later step has made up for, and effects that a stand-in has not had."""

from __future__ import annotations

from collections.abc import Callable

from replan.core.progress import StepState
from replan.core.state import State
from replan.core.types import StepId, ToolId

NOT_LOST = frozenset({"repeated", "duplicate"})
"""Faults of calls that were not made because the same effect was meant, and had, elsewhere."""


def left_out(state: State) -> list[StepState]:
    """Every step that a later plan left out without its having succeeded, but for those that its condition skipped
    and those whose place a step has taken that succeeded."""
    known = state.recovery
    if known is None:
        return []
    return [step for name, step in known.dropped.items() if not _moot(step) and not _made_up(state, name)]


def effects_left_out(state: State) -> list[str]:
    """What a later plan left out after it had failed, though it should have had an effect, in words: a model may judge that
    the task is done all the same, and whoever reads the result has to see it."""
    return [
        f"step {step.step.step_id!r} ({step.step.tool}) failed and was left out of the plan"
        + (f": {step.fault.message}" if step.fault else "")
        for step in left_out(state)
        if any(call.effect != "reads" and call.status == "failed" for call in step.calls.values())
    ]


def _moot(step: StepState) -> bool:
    """True if it was not to run: its own condition did not hold, or what it needs was skipped so."""
    return step.skip is not None and step.skip.kind in ("condition", "dependency_skipped")


def _made_up(state: State, name: StepId) -> bool:
    """True if the step that took its place, or the one that took that one's, has succeeded."""
    replaced = state.recovery.replaced if state.recovery is not None else {}
    seen: set[StepId] = set()
    while (other := replaced.get(name)) is not None and other not in seen:
        seen.add(other)
        step = state.steps.get(other) or state.earlier.get(other)
        if step is not None and step.status == "succeeded":
            return True
        name = other
    return False


def without_effect(state: State, has_effect: Callable[[ToolId], bool]) -> list[StepState]:
    """Steps that succeeded though calls of theirs that should have had an effect failed, and what was put in their place has none:
    a reading, an empty list, or leave to do without them that no plan had given before they failed."""
    steps = (*state.earlier.values(), *state.steps.values())
    return [step for step in steps if step.status == "succeeded" and _lost(step, has_effect)]


def _lost(step: StepState, has_effect: Callable[[ToolId], bool]) -> bool:
    mine = step.healing
    if mine is None:
        return False
    wanted = {
        slot
        for slot in mine.slots()
        if any(has_effect(one.tool_id) and one.error.kind not in NOT_LOST for one in mine.failures(slot))
    }
    had = {
        slot: call
        for slot, call in step.calls.items()
        if call.status == "succeeded" and call.effect != "reads"
    }
    if mine.repairs == mine.repairs_before:
        return any(slot.item is None or slot.item not in step.left_out for slot in wanted - had.keys())
    anew = {slot for slot, call in had.items() if call.plan >= step.born and not call.reused}
    return len(wanted - anew) > len(anew - wanted)
