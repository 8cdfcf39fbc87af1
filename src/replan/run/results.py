"""The result of a task, read from its state."""

from __future__ import annotations

import json
from typing import Any

from replan.core.events import TaskCompleted, TaskFailed
from replan.core.outputs import compose
from replan.core.result import StepResult, TaskResult
from replan.core.state import Output, State, StepState
from replan.core.types import Failure
from replan.ports import ArtifactStore


async def result_of(state: State, store: ArtifactStore) -> TaskResult:
    """What the task came to. The answer is whole; step outputs that are kept apart are named, with head and tail."""
    outcome = state.outcome
    answer: Any = None
    score: float | None = None
    failure: Failure | None = None
    if isinstance(outcome, TaskCompleted | TaskFailed):
        answer, score = outcome.final_output, outcome.score
        if outcome.artifact is not None:
            answer = json.loads(await store.artifact(state.task_id, outcome.artifact.artifact_id))
    if outcome is not None and not isinstance(outcome, TaskCompleted):
        failure = outcome.failure
    return TaskResult(
        task_id=state.task_id,
        status=state.status,
        is_success=state.status == "succeeded",
        final_score=score,
        total_rounds=state.round,
        final_output=answer,
        total_duration_secs=round(state.active_secs, 6),
        failure=failure,
        usage=state.usage,
        steps=tuple(_step(step) for step in state.steps.values()),
    )


def _step(step: StepState) -> StepResult:
    output = compose(step, _named) if step.status == "succeeded" else None
    spent = 0.0 if step.started is None or step.ended is None else step.ended - step.started
    return StepResult(
        step_id=step.step.step_id,
        name=step.step.name,
        tool=step.step.tool or ", ".join(dict.fromkeys(action.tool for action in step.step.actions)),
        status=step.status,
        output=output,
        error=step.fault.message if step.fault else None,
        reason=step.skip.reason if step.skip else None,
        attempts=step.attempts,
        reused=bool(step.calls) and all(call.reused for call in step.calls.values()),
        duration_secs=round(spent, 6),
    )


def _named(output: Output) -> Any:
    return output.value if output.artifact is None else output.artifact.model_dump(mode="json")
