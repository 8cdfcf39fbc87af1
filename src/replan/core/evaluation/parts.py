"""A plan that is a first part: it finds out or does what the rest has to know, and says what is still to be planned."""

from __future__ import annotations

from replan.core.recovery.guard import is_pointless
from replan.core.state.task import State, StepState


def still_open(state: State) -> str:
    """What is still to be planned by the word of the plan itself; empty if the plan is all there is to do."""
    return state.plan.more if state.plan is not None else ""


def unplanned(state: State) -> str:
    """What an earlier plan has said is still to be planned, where the plan of now says nothing of it, in words; empty if there is none."""
    found = state.recovery.unplanned if state.recovery is not None else None
    if found is None:
        return ""
    became = (
        "asked for it, the planner planned nothing"
        if found.asked
        else "the plan that was made anew says nothing of it"
    )
    return f"by an earlier plan this was still to be planned: {found.what}; {became}"


def to_be_planned(state: State) -> bool:
    """True if the rest can be planned at once, with nobody asked: what the part was to do is done, and it has brought something.

    Whatever failed is for the judge and the reflector, as with any plan.
    """
    return bool(still_open(state)) and all(map(_done, state.steps.values())) and not is_pointless(state)


def _done(step: StepState) -> bool:
    if step.status == "skipped":
        return step.moot
    return step.status == "succeeded"  # items that the plan does without are accounted for at the end
