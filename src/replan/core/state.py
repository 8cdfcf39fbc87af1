"""What the events of a task add up to.

`State.apply` takes one event and cannot fail. The state is changed in place, so that a task of ten thousand
steps folds in linear time; whoever folds owns it. Nothing here reads a clock: time comes from the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from replan.core import events as e
from replan.core.graph import Graph
from replan.core.ids import split_key
from replan.core.policy import Policy
from replan.core.types import Artifact, Effect, Fault, JsonObject, Plan, Step, StepId, ToolSpec, Usage

StepStatus = Literal["pending", "ready", "running", "succeeded", "failed", "skipped"]
CallStatus = Literal["running", "retrying", "succeeded", "failed", "unknown"]
TaskStatus = Literal[
    "queued", "planning", "executing", "evaluating", "reflecting", "replanning", "waiting",
    "succeeded", "failed", "cancelled", "timed_out",
]  # fmt: skip
ENDED = frozenset({"succeeded", "failed", "cancelled", "timed_out"})


class Slot(NamedTuple):
    """Which of a step's calls: an action, an item of `for_each`, both, or the only one."""

    action_id: str | None = None
    item: int | None = None


class Output(NamedTuple):
    """A finished call's output: the value, or the artifact that holds it."""

    value: Any = None
    artifact: Artifact | None = None


@dataclass(slots=True)
class CallState:
    """The latest try of one call."""

    key: str
    step_id: StepId
    slot: Slot
    tool_id: str
    attempt: int
    effect: Effect
    parameters: JsonObject
    status: CallStatus = "running"
    output: Output | None = None
    reused: bool = False
    fault: Fault | None = None
    started: float = 0.0
    ended: float | None = None


@dataclass(slots=True)
class StepState:
    """Where one step is."""

    step: Step
    status: StepStatus = "pending"
    calls: dict[Slot, CallState] = field(default_factory=dict)
    items: int | None = None
    fault: Fault | None = None
    skip: e.StepSkipped | None = None
    metadata: JsonObject | None = None
    started: float | None = None
    ended: float | None = None

    @property
    def closed(self) -> bool:
        return self.status in ("succeeded", "failed", "skipped")

    @property
    def attempts(self) -> int:
        return max((call.attempt for call in self.calls.values()), default=0)


@dataclass(slots=True)
class LedgerEntry:
    """A call that succeeded in this task."""

    output: Output
    effect: Effect
    effects_before: int
    """Effects that had been started when it was done: a reading is good while there are no more."""


@dataclass(slots=True)
class State:
    """A task, as its log tells it."""

    task_id: str = ""
    submitted: e.TaskSubmitted | None = None
    status: TaskStatus = "queued"
    created: float = 0.0
    last_seq: int = 0
    last_ts: float = 0.0
    active_secs: float = 0.0
    """Time in which somebody drove the task; a gap before a resumption does not count."""
    started: bool = False
    round: int = 0
    selection: e.ToolSelectionCompleted | None = None
    plan: Plan | None = None
    plan_event: e.PlanGenerated | None = None
    plans: int = 0
    rejections: list[e.PlanRejected] = field(default_factory=list)
    steps: dict[StepId, StepState] = field(default_factory=dict)
    open_steps: int = 0
    """Steps that have not come to an end."""
    mode: e.ExecutionMode | None = None
    ledger: dict[str, LedgerEntry] = field(default_factory=dict)
    occurrences: dict[str, dict[tuple[StepId, Slot], int]] = field(default_factory=dict)
    """Content of a call → which occurrence each place in the plan has."""
    effects: int = 0
    """Calls started that may change the world."""
    in_doubt: dict[str, CallState] = field(default_factory=dict)
    evaluation: e.EvaluationCompleted | None = None
    cancel: e.CancelRequested | None = None
    outcome: e.TaskCompleted | e.TaskFailed | e.TaskCancelled | e.TaskTimedOut | None = None
    usage: Usage = Usage()
    llm_running: dict[str, e.LlmCallStarted] = field(default_factory=dict)
    _metadata: JsonObject | None = None

    # ── readings ──

    @property
    def policy(self) -> Policy:
        return self.submitted.policy if self.submitted else Policy()

    @property
    def description(self) -> str:
        return self.submitted.description if self.submitted else ""

    @property
    def metadata(self) -> JsonObject:
        """The task's metadata with what finished steps added; the last writer in plan order wins."""
        if self._metadata is None:
            merged = dict(self.submitted.metadata) if self.submitted else {}
            for step in self.steps.values():
                if step.metadata:
                    merged.update(step.metadata)
            self._metadata = merged
        return self._metadata

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    def graph(self) -> Graph:
        return Graph.of(self.plan) if self.plan else Graph((), {})

    def ids_used(self) -> frozenset[str]:
        """Every step and action id that this task has used."""
        used = set(self.steps)
        for state in self.steps.values():
            used.update(action.action_id for action in state.step.actions)
        return frozenset(used)

    def running_calls(self) -> list[CallState]:
        """Calls that were started and have no result."""
        return [
            call
            for step in self.steps.values()
            if step.status == "running"
            for call in step.calls.values()
            if call.status == "running"
        ]

    def occurrence(self, base: str, place: tuple[StepId, Slot]) -> int:
        """Which of the like calls this place in the plan makes, from 1."""
        taken = self.occurrences.get(base)
        if taken is None:
            return 1
        known = taken.get(place)
        return known if known is not None else max(taken.values(), default=0) + 1

    def reusable(self, key: str, tool: ToolSpec) -> LedgerEntry | None:
        """The recorded output of this very call, if it may stand for a new one."""
        entry = self.ledger.get(key)
        if entry is None or tool.volatile:
            return None
        if tool.effect == "reads" and entry.effects_before != self.effects:
            return None
        return entry

    # ── the fold ──

    def apply(self, event: e.AnyEvent, ts: float, round: int = 0, seq: int | None = None) -> None:
        """Take one event."""
        if seq is not None:
            self.last_seq = seq
        if self.last_ts and not isinstance(event, e.TaskResumed) and not event.signal and self.status != "waiting":
            self.active_secs += max(0.0, ts - self.last_ts)
        if not event.signal:
            self.last_ts = ts
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event, ts)

    def _submitted(self, event: e.TaskSubmitted, ts: float) -> None:
        self.submitted = event
        self.created = self.last_ts = ts
        self._metadata = None

    def _started(self, event: e.TaskStarted, ts: float) -> None:
        self.started = True
        self.status = "planning"

    def _resumed(self, event: e.TaskResumed, ts: float) -> None:
        self.started = True
        self.llm_running.clear()

    def _round(self, event: e.RoundStarted, ts: float) -> None:
        self.round = event.round
        self.evaluation = None

    def _llm_started(self, event: e.LlmCallStarted, ts: float) -> None:
        self.usage = self.usage.model_copy(update={"llm_calls": self.usage.llm_calls + 1})
        self.llm_running[event.call_id] = event
        if event.role == "evaluation":
            self.status = "evaluating"

    def _llm_completed(self, event: e.LlmCallCompleted, ts: float) -> None:
        self.llm_running.pop(event.call_id, None)
        mine, more = self.usage, event.usage
        self.usage = mine.model_copy(
            update={
                "input_tokens": mine.input_tokens + more.input_tokens,
                "output_tokens": mine.output_tokens + more.output_tokens,
                "cost_usd": mine.cost_usd + more.cost_usd,
            }
        )

    def _selected(self, event: e.ToolSelectionCompleted, ts: float) -> None:
        self.selection = event

    def _rejected(self, event: e.PlanRejected, ts: float) -> None:
        self.rejections.append(event)

    def _planned(self, event: e.PlanGenerated | e.PlanUpdated, ts: float) -> None:
        self.plan = event.plan
        if isinstance(event, e.PlanGenerated):
            self.plan_event = event
        self.plans += 1
        self.status = "executing"
        self.mode = None
        self._metadata = None
        kept = self.steps
        self.steps = {}
        for step in event.plan.steps:
            known = kept.pop(step.step_id, None)
            self.steps[step.step_id] = StepState(step) if known is None else known
        for gone in kept:
            self._forget(gone)
        self.open_steps = sum(not state.closed for state in self.steps.values())

    def _forget(self, step_id: StepId) -> None:
        """A step that a new plan leaves out gives its occurrences back: a like call in the plan matches them."""
        for taken in self.occurrences.values():
            for place in [place for place in taken if place[0] == step_id]:
                del taken[place]

    def _mode(self, event: e.ExecutionMode, ts: float) -> None:
        self.mode = event

    def _step_ready(self, event: e.StepReady, ts: float) -> None:
        if (step := self.steps.get(event.step_id)) and step.status == "pending":
            step.status = "ready"

    def _step_started(self, event: e.StepStarted, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            step.status = "running"
            step.items = event.items
            if step.started is None:
                step.started = ts

    def _call_started(self, event: e.CallStarted, ts: float) -> None:
        self.usage = Usage.model_construct(
            **{**self.usage.__dict__, "tool_calls": self.usage.tool_calls + 1}
        )
        if event.effect != "reads":
            self.effects += 1
        slot = Slot(event.action_id, event.index)
        self._occupy(event.call_key, event.step_id, slot)
        if step := self.steps.get(event.step_id):
            step.calls[slot] = CallState(
                event.call_key, event.step_id, slot, event.tool_id, event.attempt,
                event.effect, event.parameters, started=ts,
            )  # fmt: skip

    def _occupy(self, key: str, step_id: StepId, slot: Slot) -> None:
        base, occurrence = split_key(key)
        self.occurrences.setdefault(base, {})[step_id, slot] = occurrence

    def _call_of(self, event: e._OfCall) -> CallState | None:
        step = self.steps.get(event.step_id)
        return step.calls.get(Slot(event.action_id, event.index)) if step else None

    def _call_completed(self, event: e.CallCompleted, ts: float) -> None:
        output = Output(event.output, event.artifact)
        call = self._call_of(event)
        if event.reused:
            slot = Slot(event.action_id, event.index)
            self._occupy(event.call_key, event.step_id, slot)
            entry = self.ledger.get(event.call_key)
            effect = entry.effect if entry else "reads"
            if step := self.steps.get(event.step_id):
                step.calls[slot] = CallState(
                    event.call_key, event.step_id, slot, event.tool_id, event.attempt, effect, {},
                    "succeeded", output, True, None, ts, ts,
                )  # fmt: skip
            return
        if call is not None:
            call.status = "succeeded"
            call.output = output
            call.fault = None
            call.ended = ts
            self.ledger[event.call_key] = LedgerEntry(output, call.effect, self.effects)
        self.in_doubt.pop(event.call_key, None)

    def _call_failed(self, event: e.CallFailed, ts: float) -> None:
        if call := self._call_of(event):
            call.status = "failed" if event.retry_in_secs is None else "retrying"
            call.fault = event.error
            call.ended = ts

    def _outcome_unknown(self, event: e.OutcomeUnknown, ts: float) -> None:
        if call := self._call_of(event):
            call.status = "unknown"
            call.ended = ts
            self.in_doubt[event.call_key] = call

    def _outcome_settled(self, event: e.OutcomeSettled, ts: float) -> None:
        call = self.in_doubt.pop(event.call_key, None)
        if call is not None:
            call.status = "succeeded" if event.happened else "failed"
            if event.happened:
                call.output = Output(event.output)
                self.ledger[event.call_key] = LedgerEntry(call.output, call.effect, self.effects)

    def _close(self, step: StepState, status: StepStatus, ts: float) -> None:
        if not step.closed:
            self.open_steps -= 1
        step.status = status
        step.ended = ts

    def _step_completed(self, event: e.StepCompleted, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            self._close(step, "succeeded", ts)
            if event.metadata:
                step.metadata = event.metadata
                self._metadata = None

    def _step_failed(self, event: e.StepFailed, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            self._close(step, "failed", ts)
            step.fault = event.error

    def _step_skipped(self, event: e.StepSkipped, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            self._close(step, "skipped", ts)
            step.skip = event

    def _evaluated(self, event: e.EvaluationCompleted, ts: float) -> None:
        self.evaluation = event

    def _cancel(self, event: e.CancelRequested, ts: float) -> None:
        if self.cancel is None:
            self.cancel = event

    def _ended(self, event: e.AnyEvent, ts: float) -> None:
        if isinstance(event, e.TERMINAL):
            self.outcome = event
            self.status = _END_STATUS[type(event)]

_END_STATUS: dict[type, TaskStatus] = {
    e.TaskCompleted: "succeeded",
    e.TaskFailed: "failed",
    e.TaskCancelled: "cancelled",
    e.TaskTimedOut: "timed_out",
}

_HANDLERS: dict[type, Any] = {
    e.TaskSubmitted: State._submitted,
    e.TaskStarted: State._started,
    e.TaskResumed: State._resumed,
    e.RoundStarted: State._round,
    e.LlmCallStarted: State._llm_started,
    e.LlmCallCompleted: State._llm_completed,
    e.ToolSelectionCompleted: State._selected,
    e.PlanRejected: State._rejected,
    e.PlanGenerated: State._planned,
    e.PlanUpdated: State._planned,
    e.ExecutionMode: State._mode,
    e.StepReady: State._step_ready,
    e.StepStarted: State._step_started,
    e.CallStarted: State._call_started,
    e.CallCompleted: State._call_completed,
    e.CallFailed: State._call_failed,
    e.OutcomeUnknown: State._outcome_unknown,
    e.OutcomeSettled: State._outcome_settled,
    e.StepCompleted: State._step_completed,
    e.StepFailed: State._step_failed,
    e.StepSkipped: State._step_skipped,
    e.EvaluationCompleted: State._evaluated,
    e.CancelRequested: State._cancel,
    **dict.fromkeys(e.TERMINAL, State._ended),
}  # fmt: skip


def fold(records: Iterable[e.Record], state: State | None = None) -> State:
    """The state that the records add up to."""
    state = State() if state is None else state
    for record in records:
        state.task_id = record.task_id
        state.apply(record.event, record.ts, record.round, record.seq)
    return state


def status_of(event: e.AnyEvent) -> TaskStatus | None:
    """The task status that an event brings, for the list of tasks; None if it changes nothing."""
    match event:
        case e.TaskStarted():
            return "planning"
        case e.PlanGenerated() | e.PlanUpdated():
            return "executing"
        case e.LlmCallStarted(role="evaluation"):
            return "evaluating"
        case e.TaskCompleted() | e.TaskFailed() | e.TaskCancelled() | e.TaskTimedOut():
            return _END_STATUS[type(event)]
        case _:
            return None
