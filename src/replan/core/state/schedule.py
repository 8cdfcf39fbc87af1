"""How a plan is run: in parallel or one step after the other, with the reason in words."""

from __future__ import annotations

import statistics
from typing import Literal

from replan.core.state.task import State
from replan.core.types import StepId


def mode_of(state: State) -> tuple[Literal["parallel", "serial"], str]:
    """The mode for the plan, and why."""
    policy = state.policy
    steps = len(state.steps)
    if not policy.enable_parallel_execution:
        return "serial", "parallel execution is switched off (enable_parallel_execution)"
    if _fans_out(state):
        return "parallel", f"{steps} steps, up to {policy.parallel_max_concurrent} calls at a time"
    if steps < policy.parallel_min_steps:
        return (
            "serial",
            f"the plan has {steps} {'step' if steps == 1 else 'steps'}, fewer than parallel_min_steps = {policy.parallel_min_steps}",
        )
    if state.graph().is_chain():
        return "serial", "no two steps can overlap: each needs the one before"
    return "parallel", f"{steps} steps, up to {policy.parallel_max_concurrent} calls at a time"


def expected_secs(state: State) -> dict[StepId, float] | None:
    """How long each step is thought to take, None if nobody said; one that is left out takes the others' median.

    Nothing but zeros says nothing: then steps are counted.
    """
    said = {name: one.step.estimated_secs for name, one in state.steps.items()}
    known = [secs for secs in said.values() if secs is not None]
    if not any(known):
        return None
    usual = statistics.median(known)
    return {name: usual if secs is None else secs for name, secs in said.items()}


def _fans_out(state: State) -> bool:
    """Steps that make several calls overlap with themselves."""
    return bool([step for step in state.steps.values() if step.step.actions or step.step.for_each])
