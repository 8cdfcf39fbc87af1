"""A task and its steps, as prompts see them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from replan.core.outputs import artifacts_of
from replan.core.people import lines
from replan.core.state import StepState
from replan.reasoning.secrecy import secret_names
from replan.reasoning.view import StepReport, TaskView
from replan.run.context import Run
from replan.run.outputs import Loaded


def view_of(run: Run) -> TaskView:
    state = run.state
    return TaskView(
        description=state.description,
        metadata=state.metadata,
        context=state.submitted.context if state.submitted else {},
        today=datetime.fromtimestamp(run.parts.clock.now(), UTC).date().isoformat(),
        has_output_schema=state.policy.output_schema is not None,
        people=lines(state.recovery.said) if state.recovery is not None else (),
        secrets=tuple(sorted({name for tool in run.parts.tools.specs() for name in secret_names(tool)})),
    )


def reports(run: Run, loaded: Loaded, whole: Collection[str] = ()) -> list[StepReport]:
    """Every step as prompts see it; outputs kept apart stand for themselves but for those in `whole`."""
    return [report_of(step, loaded, whole=step.step.step_id in whole) for step in run.state.steps.values()]


def report_of(step: StepState, loaded: Loaded, *, whole: bool) -> StepReport:
    """One step as prompts see it; an output that is kept apart stands for itself unless the `whole` is wanted."""
    output, artifact = None, None
    if step.status == "succeeded":
        kept = artifacts_of(step)
        if kept and not whole:
            artifact = kept[0]
        else:
            output = loaded.output_of(step)
    calls = list(step.calls.values())
    return StepReport(
        step_id=step.step.step_id,
        name=step.step.name,
        tool=_tools(step),
        status=step.status,
        parameters=calls[0].parameters if len(calls) == 1 else {},
        output=output,
        artifact=artifact,
        error=step.fault,
        reason=step.skip.reason if step.skip else "",
    )


def _tools(step: StepState) -> str:
    """What was called, which need not be what was planned; else what is planned."""
    return ", ".join(called_or_planned(step))


def called_or_planned(step: StepState) -> list[str]:
    """The tools that the step has called; those that it is planned with where it has called none."""
    called = [call.tool_id for call in step.calls.values()]
    planned = [step.step.tool] if step.step.tool else [action.tool for action in step.step.actions]
    return list(dict.fromkeys(called or planned))
