"""Doing what people ask of a task beside answers: it stands still, heeds a hint, tries a step again, is judged anew."""

from __future__ import annotations

from replan.core.decide import paused_words
from replan.core.events import HintGiven, RequestTaken, TaskWaiting
from replan.core.state.task import State
from replan.core.types import StepId
from replan.run.session.context import Run


def stand_still(run: Run, *, driven: bool = True) -> None:
    """The task waits until a person says that it may go on. `driven`: somebody drove it until now."""
    pause = run.state.pause
    reason = paused_words(pause) if pause is not None else "it was paused"
    run.record(TaskWaiting(reason=reason, paused=True, driven=driven))


def take(run: Run, request_id: str, refused: str = "") -> None:
    run.record(RequestTaken(request_id=request_id, refused=refused))


def take_hints(run: Run) -> None:
    """Hints are heeded at once, whatever runs: by the next prompt."""
    if run.state.ended or run.closed or run.broken is not None:
        return
    for wish in run.state.wishes:
        if isinstance(wish, HintGiven):
            take(run, wish.request_id)


def take_retry(run: Run, request_id: str) -> list[StepId]:
    """Have a step tried again while others run; the steps that are due with it."""
    steps = run.state.steps
    closed = [name for name, step in steps.items() if step.closed]
    take(run, request_id)
    return [name for name in closed if not steps[name].closed]


def status_at(state: State) -> str:
    """What a task is at that goes on."""
    if state.plan is None or state.replanning is not None:
        return "replanning" if state.replanning is not None else "planning"
    if state.open_steps and state.escalation is None:
        return "executing"
    return "reflecting" if state.escalation is not None or state.evaluation is not None else "evaluating"
