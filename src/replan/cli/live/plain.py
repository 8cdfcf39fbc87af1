"""The picture as plain lines, one a fact, for logs and pipes."""

from __future__ import annotations

import json
from typing import Any

from replan.cli.live.picture import PictureState
from replan.cli.live.story import score_words, sentence
from replan.cli.terminal.words import clean, secs
from replan.core import events as e
from replan.core.events import Record

MANY = 200
"""Plans with more steps than this get a line for each tenth of the way instead of one for each step."""


class PlainLines:
    """Turns records into lines. Feed each record after `view` has taken it."""

    def __init__(self, view: PictureState) -> None:
        self._view = view
        self._told_tenths = 0

    def line(self, record: Record) -> str | None:
        """What there is to say about the record, if anything."""
        text = self._text(record.event)
        if text is None:
            return None
        since = record.ts - (self._view.created if self._view.created is not None else record.ts)
        return f"[{since:7.1f} s] {clean(text)}"

    def _text(self, event: e.AnyEvent) -> str | None:
        view = self._view
        match event:
            case e.TaskSubmitted():
                return f"task {view.task_id}: {event.description}"
            case e.TaskResumed() | e.CancelRequested() | e.PlanRejected():
                return view.notes[-1]
            case e.RoundStarted() if event.round > 1:
                return f"round {event.round}"
            case e.ProgressUpdate():
                return event.message
            case e.LlmCallStarted():
                return f"asking {event.model} ({event.role}{_attempt(event.attempt)})"
            case e.LlmCallCompleted() if event.error:
                return f"{event.role} call failed after {secs(event.duration_secs)}: {event.error}"
            case e.LlmCallCompleted():
                tokens = event.usage.input_tokens + event.usage.output_tokens
                by = f" by {event.endpoint}" if event.endpoint else ""
                told = [f"{tokens} tokens"] if tokens else []
                if event.usage.llm_calls > 1:
                    told.append(f"{event.usage.llm_calls} requests")
                return f"{event.role} answered{by} in {', '.join([secs(event.duration_secs), *told])}"
            case e.ToolSelectionCompleted() if event.asked:
                return view.notes[-1]
            case e.PlanGenerated():
                came_from = f" (from the workflow {event.workflow_id})" if event.workflow is not None else ""
                noted = "".join(f"; {note}" for note in event.notes)
                return f"{self._plan()}{came_from}{noted}"
            case e.PlanUpdated():
                return f"{self._plan()}; {event.diff.words()}"
            case e.ExecutionMode():
                return f"running {event.mode}" + (f": {event.reason}" if event.reason else "")
            case e.EvaluationCompleted(evaluation=None):
                return f"could not be judged: {event.reason}"
            case e.EvaluationCompleted(evaluation=judged) if judged is not None:
                return f"judged: {score_words(judged)}"
            case _:
                return sentence(event) or self._step_text(event)

    def _plan(self) -> str:
        view = self._view
        if not view.steps:
            return "plan: no steps"
        shown = " → ".join(
            ", ".join(layer[:6]) + (", …" if len(layer) > 6 else "") for layer in view.layers[:6]
        )
        more = " → …" if len(view.layers) > 6 else ""
        count = "1 step" if len(view.steps) == 1 else f"{len(view.steps)} steps"
        return f"plan {view.plan_version}, {count}: {shown}{more}"

    def _step_text(self, event: e.AnyEvent) -> str | None:
        few = len(self._view.steps) <= MANY
        match event:
            case e.StepProgress():
                return f"{event.step_id}: {event.message}" if event.message and few else None
            case e.CallStarted() if few:
                return (
                    f"{_place(event)} started: {event.tool_id}({_arguments(event.parameters)})"
                    f"{_attempt(event.attempt)}"
                )
            case e.CallCompleted(reused=True, of_task="") if few:
                return f"{_place(event)}: this call was made before; its recorded output is used"
            case e.StepCompleted() if few:
                return f"{event.step_id} done{self._took(event.step_id)}"
            case e.StepCompleted():
                return self._tenth()
            case e.StepFailed():
                return f"{event.step_id} FAILED{self._took(event.step_id)}: {event.error.message}"
            case e.StepSkipped() if few or event.kind == "dependency_failed":
                return f"{event.step_id} skipped: {event.reason}"
            case _:
                return None

    def _took(self, step_id: str) -> str:
        step = self._view.steps.get(step_id)
        if step is None or step.ended is None or (took := step.secs(step.ended)) is None:
            return ""
        return f" in {secs(took)}"

    def _tenth(self) -> str | None:
        tenths = self._view.done * 10 // len(self._view.steps)
        if tenths <= self._told_tenths:
            return None
        self._told_tenths = tenths
        return f"{self._view.done} of {len(self._view.steps)} steps done"


def _place(event: e.OfCall) -> str:
    action = f".{event.action_id}" if event.action_id else ""
    item = f" item {event.index + 1}" if event.index is not None else ""
    return f"{event.step_id}{action}{item}"


def _attempt(attempt: int) -> str:
    return f", try {attempt}" if attempt > 1 else ""


def _arguments(parameters: dict[str, Any]) -> str:
    return clean(", ".join(f"{key}={_short(value)}" for key, value in parameters.items()), 160)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:59] + "…"
