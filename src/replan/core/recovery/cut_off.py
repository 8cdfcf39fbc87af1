"""Steps that were cut off while another one had called for a new plan.

As long as they were driven they would have gone on to their ends. So whoever drives the task on looks first at what is in doubt of them, and
makes again what may be called again, a call by its key: the plan is made, a person asked and the end told by what is known.
"""

from __future__ import annotations

from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.types import StepId


def cut_off_steps(state: State) -> list[StepId]:
    """The steps that are to be gone on with all the same, where nothing runs: each with a call in doubt that nobody has looked at yet, or with
    one that has an effect and has no end."""
    calls = [*(state.in_doubt.values() if state.heals else ()), *left_open(state)]
    named = dict.fromkeys(call.step_id for call in calls)
    return [
        name for name in named if (step := state.steps.get(name)) is not None and _is_cut_off(state, step)
    ]


def left_open(state: State) -> list[CallState]:
    """The calls that have an effect and are under way, where nothing runs: whoever made them was cut off. What waits for something does not."""
    return [call for call in state.under_way() if call.effect != "reads" and call.key not in state.waits]


def _is_cut_off(state: State, step: StepState) -> bool:
    if step.status != "running":
        return False
    if not all(state.steps[need].closed for need in state.graph().needs[step.step.step_id]):
        return False
    decided = step.healing.pending if step.healing is not None else {}
    return any(
        (call.status == "unknown" and slot not in decided)
        or (call.effect != "reads" and state.is_under_way(call) and call.key not in state.waits)
        for slot, call in step.calls.items()
    )
