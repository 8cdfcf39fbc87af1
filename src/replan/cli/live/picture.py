"""A running task as people see it: what the records add up to, kept small enough to draw many times a second.

`PictureState.apply` takes one record (stored, or for watchers only) in constant time; only what touches many steps costs
more. How far a step is says the core's fold of the same records; what is added here is what no log has to know: words, bars,
what runs just now, and what only watchers are told. Nothing here draws: see `draw`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from replan.cli.live.axis import Pauses
from replan.cli.live.board import Board
from replan.cli.live.story import action_words, sentence
from replan.core import events as e
from replan.core.state import fold
from replan.core.state.task import State
from replan.core.types import Evaluation, Plan
from replan.core.words import in_digits


@dataclass(slots=True)
class ModelCallView:
    """A model call under way."""

    role: str
    model: str
    started: float
    characters: int = 0


@dataclass(slots=True)
class PictureState(Board):
    """Everything that the picture of a task needs."""

    task_id: str = ""
    description: str = ""
    status: str = "queued"
    round: int = 0
    created: float | None = None
    ended: float | None = None
    idle: float = 0.0
    """Time in which nobody drove the task: it waited for a person, or its process was gone."""
    last: float | None = field(default=None, compare=False)
    """When whoever drives it has recorded something last."""
    pauses: Pauses = field(default_factory=Pauses, compare=False)
    """The same time, as it lay."""
    mode: str = ""
    mode_reason: str = ""
    model_calls: dict[str, ModelCallView] = field(default_factory=dict)
    model_calls_done: int = 0
    model_secs: float = 0.0
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    evaluation: Evaluation | None = None
    cancelling: bool = False
    failure: str = ""
    core: State = field(default_factory=State, compare=False, repr=False)
    """The same task as the core knows it."""

    def apply(self, record: e.Record) -> None:
        """Take one record."""
        self.round = max(self.round, record.round)
        if self.last is not None and fold.begins_drive(record.event):
            self._idle(record.ts - self.last)
            self.pauses.add(self.last, max(self.last, record.ts))
        if not record.event.signal and record.seq:
            self.last = record.ts
        handler = _HANDLERS.get(type(record.event))
        if handler is not None:
            handler(self, record.event, record.ts)
        if record.seq:
            self._agree(record)

    def _agree(self, record: e.Record) -> None:
        """Each step is as far as the core says that it is."""
        event = record.event
        fold.apply(self.core, event, record.ts, record.round, record.seq)
        if (own := getattr(event, "step_id", None)) is not None:
            self._stands(own)
        if isinstance(event, e.PlanUpdated) or self.core.open_steps != len(self.steps) - self.done:
            for step_id in self.steps:  # more than one is due again
                self._stands(step_id)

    def _stands(self, step_id: str) -> None:
        shown, known = self.steps.get(step_id), self.core.steps.get(step_id)
        if shown is None or known is None or shown.status == known.status:
            return
        self.move(shown, known.status)
        if known.status == "pending":
            if shown.ended is not None and self.last is not None:
                shown.idle += max(0.0, self.last - shown.ended)
            shown.message, shown.ended = "", None

    @classmethod
    def of(cls, records: Iterable[e.Record]) -> PictureState:
        """The picture after all these records."""
        view = cls()
        for record in records:
            view.task_id = record.task_id
            view.apply(record)
        return view

    def _idle(self, secs: float) -> None:
        self.idle += secs
        for step in self.steps.values():
            if step.started is not None and step.ended is None:
                step.idle += secs

    # ── the task ──

    def _submitted(self, event: e.TaskSubmitted, ts: float) -> None:
        self.description = event.description
        self.created = ts

    def _started(self, event: e.TaskStarted, ts: float) -> None:
        self.status = "planning"

    def _resumed(self, event: e.TaskResumed, ts: float) -> None:
        self.model_calls.clear()
        if event.status or self.status == "waiting":
            self.status = event.status or "executing"
        self.notes.append("resumed" + (f": {event.reason}" if event.reason else ""))

    def _cancel(self, event: e.CancelRequested, ts: float) -> None:
        self.cancelling = True
        self.notes.append("cancelling" + (f": {event.reason}" if event.reason else ""))

    def _progress_update(self, event: e.ProgressUpdate, ts: float) -> None:
        self.notes.append(event.message)

    def _budget(self, event: e.BudgetWarning, ts: float) -> None:
        self.notes.append(f"{event.limit}: {in_digits(event.used)} of {in_digits(event.allowed)} used")

    def _evaluated(self, event: e.EvaluationCompleted, ts: float) -> None:
        self.evaluation = event.evaluation
        if event.evaluation is None:
            self.notes.append(f"could not be judged: {event.reason}")

    def _ended(self, event: Any, ts: float) -> None:
        self.status = _ENDS[type(event)]
        self.ended = ts
        self.model_calls.clear()
        if not isinstance(event, e.TaskCompleted):
            self.failure = event.failure.reason

    # ── models ──

    def _model_started(self, event: e.LlmCallStarted, ts: float) -> None:
        self.model_calls[event.call_id] = ModelCallView(event.role, event.model, ts)
        if event.role == "evaluation":
            self.status = "evaluating"
        elif event.schema_name == "overall_reflection":
            self.status = "reflecting"

    def _token(self, event: e.LlmToken, ts: float) -> None:
        if call := self.model_calls.get(event.call_id):
            call.characters += len(event.text)

    def _model_completed(self, event: e.LlmCallCompleted, ts: float) -> None:
        self.model_calls.pop(event.call_id, None)
        self.model_calls_done += max(1, event.usage.llm_calls)
        self.model_secs += event.duration_secs
        if event.error:
            self.notes.append(f"{event.role} call failed: {event.error}")
        elif event.endpoint:
            self.notes.append(f"{event.role} answered by {event.endpoint}")

    def _selected(self, event: e.ToolSelectionCompleted, ts: float) -> None:
        if event.asked:
            self.notes.append("tools chosen: " + ", ".join(tool.tool_id for tool in event.tools))

    def _rejected(self, event: e.PlanRejected, ts: float) -> None:
        more = f" (and {len(event.violations) - 1} more)" if len(event.violations) > 1 else ""
        count = "1 error" if len(event.violations) == 1 else f"{len(event.violations)} errors"
        first = event.violations[0] if event.violations else ""
        self.notes.append(f"plan rejected, {count}: {first}{more}")

    # ── the plan ──

    def _forked(self, event: e.TaskForked, ts: float) -> None:
        if event.plan is not None:  # its steps are others, also where they have the same names
            self.take_plan(Plan(plan_id=""))

    def _planned(self, event: e.PlanGenerated | e.PlanUpdated, ts: float) -> None:
        self.status = "executing"
        self.take_plan(event.plan)

    def _updated(self, event: e.PlanUpdated, ts: float) -> None:
        self._planned(event, ts)
        self.notes.append(f"plan {event.plan.version}: {event.diff.words()}")

    def _repaired(self, event: e.StepRepaired, ts: float) -> None:
        self.plan_version = event.plan_version
        if step := self.steps.get(event.step.step_id):
            step.tool = event.step.tool or step.tool
            step.name, step.message = event.step.name or step.name, "rewritten"

    def _reflected(self, event: e.StepReflected, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            step.message = f"{event.error.message}; {action_words(event.action)}"

    def _reflecting(self, event: e.OverallReflectionTriggered, ts: float) -> None:
        self.status = "reflecting"
        self._tell(event, ts)

    def _replanning(self, event: e.ReplanningStarted, ts: float) -> None:
        self.status = "replanning"
        self._tell(event, ts)

    def _waits(self, event: e.TaskWaiting, ts: float) -> None:
        self.status = "waiting"
        self._tell(event, ts)

    def _approval(self, event: e.ApprovalRequested, ts: float) -> None:
        self.waits_on(event.step_id, event.approval_id, f"a yes to {event.tool_id} ({event.approval_id})")
        self._tell(event, ts)

    def _question(self, event: e.QuestionAsked, ts: float) -> None:
        if event.step_id is not None:
            self.waits_on(event.step_id, event.question_id, f"an answer ({event.question_id})")
        self._tell(event, ts)

    def _wait(self, event: e.WaitStarted, ts: float) -> None:
        if event.kind != "question":  # which is told with its words
            self.waits_on(event.step_id, event.call_key, _WAITS[event.kind])

    def _decided(self, event: e.ApprovalResolved, ts: float) -> None:
        self.is_there(event.approval_id)
        self._heard(event, ts)

    def _expired(self, event: e.ApprovalExpired, ts: float) -> None:
        self.is_there(event.approval_id)
        self._tell(event, ts)

    def _answered(self, event: e.QuestionAnswered, ts: float) -> None:
        self.is_there(event.question_id)
        self._heard(event, ts)

    def _heard(self, event: e.AnyEvent, ts: float) -> None:
        if self.status == "waiting":
            self.status = "executing"
        self._tell(event, ts)

    def _tell(self, event: e.AnyEvent, ts: float) -> None:
        """Among the notes, in words."""
        if text := sentence(event):
            self.notes.append(text)

    def _mode(self, event: e.ExecutionMode, ts: float) -> None:
        self.mode = event.mode
        self.mode_reason = event.reason

    # ── steps ──

    def _step_started(self, event: e.StepStarted, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            step.items = event.items
            step.ended = None
            if step.started is None:
                step.started = ts
            if self.begun is None:
                self.begun = step.started

    def _call_started(self, event: e.CallStarted, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            step.attempt = max(step.attempt, event.attempt)

    def _call_completed(self, event: e.CallCompleted, ts: float) -> None:
        self.is_there(event.call_key)
        if step := self.steps.get(event.step_id):
            step.reused = step.reused or event.reused
            if event.index is not None and event.action_id is None:
                step.items_done += 1

    def _call_failed(self, event: e.CallFailed, ts: float) -> None:
        self.is_there(event.call_key)
        if step := self.steps.get(event.step_id):
            again = "" if event.retry_in_secs is None else f"; retrying in {event.retry_in_secs:.1f} s"
            step.message = f"{event.error.message}{again}"

    def _unknown(self, event: e.OutcomeUnknown, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            step.message = f"outcome unknown: {event.reason}"

    def _step_progress(self, event: e.StepProgress, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            step.message = event.message or step.message
            if event.progress is not None:
                step.progress = event.progress / event.total if event.total else None

    def _step_completed(self, event: e.StepCompleted, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            step.message, step.progress, step.ended = "", None, ts

    def _step_failed(self, event: e.StepFailed, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            step.message, step.ended = event.error.message, ts

    def _step_skipped(self, event: e.StepSkipped, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            step.message, step.ended = event.reason, ts


_WAITS = {"time": "its time", "condition": "a condition to hold", "callback": "somebody outside"}

_ENDS: dict[type, str] = {
    e.TaskCompleted: "succeeded",
    e.TaskFailed: "failed",
    e.TaskCancelled: "cancelled",
    e.TaskTimedOut: "timed_out",
}

_HANDLERS: dict[type, Any] = {
    e.TaskSubmitted: PictureState._submitted,
    e.TaskStarted: PictureState._started,
    e.TaskResumed: PictureState._resumed,
    e.TaskForked: PictureState._forked,
    e.CancelRequested: PictureState._cancel,
    e.ProgressUpdate: PictureState._progress_update,
    e.BudgetWarning: PictureState._budget,
    e.EvaluationCompleted: PictureState._evaluated,
    e.LlmCallStarted: PictureState._model_started,
    e.LlmToken: PictureState._token,
    e.LlmCallCompleted: PictureState._model_completed,
    e.ToolSelectionCompleted: PictureState._selected,
    e.PlanRejected: PictureState._rejected,
    e.PlanGenerated: PictureState._planned,
    e.PlanUpdated: PictureState._updated,
    e.VersionsChanged: PictureState._tell,
    e.TaskLeft: PictureState._tell,
    e.StepReflected: PictureState._reflected,
    e.StepRepaired: PictureState._repaired,
    e.OverallReflectionTriggered: PictureState._reflecting,
    e.ReflectionCompleted: PictureState._tell,
    e.ReplanningStarted: PictureState._replanning,
    e.OutcomeSettled: PictureState._tell,
    e.ApprovalRequested: PictureState._approval,
    e.ApprovalResolved: PictureState._decided,
    e.QuestionAsked: PictureState._question,
    e.QuestionAnswered: PictureState._answered,
    e.WaitStarted: PictureState._wait,
    e.CallbackReceived: PictureState._heard,
    e.TaskWaiting: PictureState._waits,
    e.ApprovalExpired: PictureState._expired,
    e.PlanReviewRequested: PictureState._tell,
    e.PlanReviewed: PictureState._heard,
    e.PlanReviewExpired: PictureState._tell,
    e.ExecutionMode: PictureState._mode,
    e.StepStarted: PictureState._step_started,
    e.CallStarted: PictureState._call_started,
    e.CallCompleted: PictureState._call_completed,
    e.CallFailed: PictureState._call_failed,
    e.OutcomeUnknown: PictureState._unknown,
    e.StepProgress: PictureState._step_progress,
    e.StepCompleted: PictureState._step_completed,
    e.StepFailed: PictureState._step_failed,
    e.StepSkipped: PictureState._step_skipped,
    e.TaskCompleted: PictureState._ended,
    e.TaskFailed: PictureState._ended,
    e.TaskCancelled: PictureState._ended,
    e.TaskTimedOut: PictureState._ended,
}
