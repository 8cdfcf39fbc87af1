"""Steps that were cut off while another one had called for a new plan.

As long as they were driven they would have gone on to their ends. So whoever drives the task on looks first at what is in doubt of them:
the plan is made by what is known.
"""

from __future__ import annotations

from replan.core.state.progress import StepState
from replan.core.state.task import State
from replan.core.types import StepId


def cut_off_in_doubt(state: State) -> list[StepId]:
    """The steps that are to be gone on with all the same: each with a call in doubt that nobody has looked at yet."""
    if not (state.in_doubt and state.heals):
        return []
    named = dict.fromkeys(call.step_id for call in state.in_doubt.values())
    return [
        name for name in named if (step := state.steps.get(name)) is not None and _is_cut_off(state, step)
    ]


def _is_cut_off(state: State, step: StepState) -> bool:
    if step.status != "running":
        return False
    if not all(state.steps[need].closed for need in state.graph().needs[step.step.step_id]):
        return False
    decided = step.healing.pending if step.healing is not None else {}
    return any(call.status == "unknown" and slot not in decided for slot, call in step.calls.items())
