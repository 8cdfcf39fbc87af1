"""Calls that a person has said no to, stated once more by later plans: they are not made, and nothing is found out by stating them."""

from __future__ import annotations

from collections.abc import Iterator

from replan.core.events import StepReflected
from replan.core.ids import base_of
from replan.core.state.progress import StepState
from replan.core.state.task import State

_OFTEN = 2
"""Steps of plans after the no that have stated a call once more, each for nothing."""


def was_said_before(state: State, failed: StepReflected) -> bool:
    """True if the failure is a person's no that was said of another step, before this one was planned."""
    known = state.recovery
    if failed.error.kind != "rejected" or known is None:
        return False
    return any(
        not said.approved
        and base_of(key) == failed.base
        and (asked := known.asked.get(key)) is not None
        and asked.step_id != failed.step_id
        for key, said in known.approvals.items()
    )


def is_stated_again_and_again(state: State) -> bool:
    """True if all that fails in the plan is what a person has said no to before, it is not the first that says so, the plan has brought
    nothing else, and nobody has said anything since."""
    if state.recovery is None or (state.recovery.rounds and state.recovery.rounds[-1].heard):
        return False
    failed = [step for step in state.steps.values() if step.status == "failed"]
    mine = [one for step in failed for one in _latest(step)]
    if not mine or len({one.step_id for one in mine}) < len(failed):
        return False
    if not all(was_said_before(state, one) for one in mine):
        return False
    version = state.plans
    if any(
        call.status == "succeeded" and call.was_made and call.effect != "reads" and call.plan == version
        for step in state.steps.values()
        for call in step.every_call()
    ):
        return False
    bases = {one.base for one in mine}
    before = {
        one.step_id
        for step in state.every_step()
        for one in _latest(step)
        if one.base in bases and was_said_before(state, one)
    }
    return len(before) >= _OFTEN


def _latest(step: StepState) -> Iterator[StepReflected]:
    """The latest failure at each place of the step."""
    if step.healing is not None:
        for slot in step.healing.slots():
            yield from step.healing.failures(slot)[-1:]
