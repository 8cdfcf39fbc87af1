"""What was planned and not done: steps of earlier plans that no later step has made up for, and effects that a stand-in has not had."""

from __future__ import annotations

from collections.abc import Callable

from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
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
            return not _failed_effect(state, name) or _has_own_effect(state, step)
        name = other
    return False


def without_effect(state: State, has_effect: Callable[[ToolId], bool]) -> list[StepState]:
    """Steps that succeeded though calls of theirs that should have had an effect failed, and what was put in their place has none:
    a reading, an empty list, or leave to do without them that no plan had given before they failed."""
    steps = (*state.earlier.values(), *state.steps.values())
    return [step for step in steps if step.status == "succeeded" and _lost(state, step, has_effect)]


def _failed_effect(state: State, name: StepId) -> bool:
    """True if a call of this step that should have had an effect has failed, and nobody else has had it."""
    step = state.steps.get(name) or state.earlier.get(name)
    if step is None and state.recovery is not None:
        step = state.recovery.dropped.get(name)
    return step is not None and any(
        call.effect != "reads"
        and call.status == "failed"
        and (call.fault is None or call.fault.kind not in NOT_LOST)
        for call in step.calls.values()
    )


def _has_own_effect(state: State, step: StepState) -> bool:
    """True if the step, or one that came with it, has had an effect that is not merely that of another step."""
    return any(
        call.status == "succeeded" and call.effect != "reads" and not _is_anothers(state, call)
        for one in (step, *state.steps.values())
        if one.born == step.born
        for call in one.calls.values()
    )


def _is_anothers(state: State, call: CallState) -> bool:
    """True if nothing was called here: the output is that of a call which another place has made, and stands for."""
    return call.reused and any(
        other.key == call.key and not other.reused and other.status == "succeeded"
        for step in (*state.earlier.values(), *state.steps.values())
        for other in step.calls.values()
    )


def _lost(state: State, step: StepState, has_effect: Callable[[ToolId], bool]) -> bool:
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
        if call.status == "succeeded"
        and call.effect != "reads"
        and not (slot in wanted and _is_anothers(state, call))
    }
    if mine.repairs == mine.repairs_before:
        return any(slot.item is None or slot.item not in step.left_out for slot in wanted - had.keys())
    anew = {slot for slot, call in had.items() if call.plan >= step.born and not call.reused}
    return len(wanted - anew) > len(anew - wanted)
