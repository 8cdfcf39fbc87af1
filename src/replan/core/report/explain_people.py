"""Why a task ended over what people have said to its plan, or have not, in words."""

from __future__ import annotations

from replan.core.events import PlanReviewed
from replan.core.report.explain_recovery import INTERVENTION, tried
from replan.core.state.task import State
from replan.core.types import Failure


def refused_words(said: PlanReviewed) -> str:
    """That a person has not agreed to the plan, and why."""
    by = said.by or "a person"
    return f"{by} has not agreed to the plan" + (f": {said.reason}" if said.reason else "")


def plan_refused(state: State, said: PlanReviewed) -> Failure:
    """A person has not agreed to the plan, and nobody makes another one."""
    return Failure(
        kind=INTERVENTION,
        reason=f"{refused_words(said)}; no other one is made",
        tried=tried(state),
        advice=("Give another plan: fork the task with it, or submit it anew.",),
    )


def not_reviewed(state: State) -> Failure:
    """Nobody has said anything of the plan while it was waited for: that is no refusal."""
    return Failure(
        kind="expired",
        reason="nobody has answered in time whether the plan may be carried out; no step of it was started",
        tried=tried(state),
        advice=("Fork the task and review its plan, or allow more time ([approval] expires_secs).",),
    )
