"""What comes next: the policy of the loop, on one page.

`decide` reads the state and names the next thing to do; something else does it and records what happened.
Reflection and replanning (specification §6 to §9) take their place between judging and the end.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from replan.core.events import TaskCancelled, TaskCompleted, TaskFailed, TaskTimedOut
from replan.core.explain import (
    cancelled,
    judged_failed,
    outcome_unknown,
    steps_failed,
    unjudged,
)
from replan.core.state import State
from replan.core.types import Evaluation

End: TypeAlias = TaskCompleted | TaskFailed | TaskCancelled | TaskTimedOut


class Stop(NamedTuple):
    """The task has ended."""


class StartRound(NamedTuple):
    round: int


class SelectTools(NamedTuple):
    """Choose the tools that the plan may use."""


class MakePlan(NamedTuple):
    """Ask for a plan and check it; or check the one that was given."""


class Execute(NamedTuple):
    """Run steps until none can run any more."""


class Evaluate(NamedTuple):
    """Judge the round and write the answer."""


class Finish(NamedTuple):
    event: End


Decision: TypeAlias = Stop | StartRound | SelectTools | MakePlan | Execute | Evaluate | Finish


def decide(state: State) -> Decision:
    """The next thing to do."""
    if state.outcome is not None:
        return Stop()
    if state.cancel is not None:
        return Finish(TaskCancelled(failure=cancelled(state)))
    if state.round == 0:
        return StartRound(1)
    if state.plan is None and state.selection is None and not _plan_given(state):
        return SelectTools()
    if state.plan is None:
        return MakePlan()
    if state.open_steps:
        return Execute()
    if state.in_doubt:
        return Finish(TaskFailed(failure=outcome_unknown(state)))
    if state.evaluation is None:
        return Evaluate()
    return _verdict(state)


def _plan_given(state: State) -> bool:
    return state.submitted is not None and state.submitted.plan is not None


def _verdict(state: State) -> Finish:
    judged = state.evaluation
    evaluation = judged.evaluation if judged else None
    if judged is None or evaluation is None:
        return Finish(TaskFailed(failure=unjudged(state)))
    answer, artifact, score = evaluation.final_output, judged.artifact, evaluation.overall_score
    if satisfied(state, evaluation):
        return Finish(TaskCompleted(final_output=answer, artifact=artifact, score=score))
    broken = any(step.status == "failed" for step in state.steps.values())
    failure = steps_failed(state) if broken else judged_failed(state, evaluation)
    return Finish(TaskFailed(failure=failure, final_output=answer, artifact=artifact, score=score))


def satisfied(state: State, evaluation: Evaluation) -> bool:
    """True if the task is done: by score when every step succeeded, or by excellent correctness.

    A failed step that should have had an effect is fatal: no judgement makes up for it.
    """
    policy = state.policy
    failed = [step for step in state.steps.values() if step.status == "failed"]
    if not failed and evaluation.overall_score >= policy.success_threshold:
        return True
    fatal = any(call.effect != "reads" for step in failed for call in step.calls.values())
    fatal = fatal or any(not step.calls for step in failed)
    return (
        not fatal
        and evaluation.is_successful
        and evaluation.overall_score >= policy.success_threshold
        and evaluation.dimensions.correctness >= policy.correctness_excellent
    )
