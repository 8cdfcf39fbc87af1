"""Steps of earlier plans that came to nothing, and that no later step has made up for."""

from __future__ import annotations

from replan.core.progress import StepState
from replan.core.state import State
from replan.core.types import StepId


def left_out(state: State) -> list[StepState]:
    """Every step that a later plan left out without its having succeeded, but for those that its condition skipped
    and those whose place a step has taken that succeeded."""
    known = state.recovery
    if known is None:
        return []
    return [step for name, step in known.dropped.items() if not _moot(step) and not _made_up(state, name)]


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
