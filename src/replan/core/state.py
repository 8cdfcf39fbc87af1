"""What the events of a task add up to.

`State.apply` takes one event and cannot fail. The state is changed in place, so that a task of ten thousand
steps folds in linear time; whoever folds owns it. Nothing here reads a clock: time comes from the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from replan.core import events as e
from replan.core import fold_recovery as healing
from replan.core.graph import Graph
from replan.core.healing import Recovery, base_of
from replan.core.ledger import Ledger, LedgerEntry
from replan.core.policy import Policy
from replan.core.progress import END_STATUS
from replan.core.progress import ENDED as ENDED
from replan.core.progress import ONLY as ONLY
from replan.core.progress import CallState as CallState
from replan.core.progress import CallStatus as CallStatus
from replan.core.progress import Output as Output
from replan.core.progress import StepState as StepState
from replan.core.progress import StepStatus as StepStatus
from replan.core.progress import TaskStatus as TaskStatus
from replan.core.progress import status_of as status_of
from replan.core.slots import READING, Place, slot_of
from replan.core.slots import Slot as Slot
from replan.core.types import ActionId, CallKey, JsonObject, Plan, Step, StepId, ToolSpec, Usage, shared

_NOTHING: JsonObject = {}
"""Shared by all states: nobody writes into what was submitted."""
_NOTHING_USED = Usage()


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
    """Time in which somebody drove the task: neither the wait before its start nor a gap before a resumption."""
    started: bool = False
    round: int = 0
    selection: e.ToolSelectionCompleted | None = None
    plan: Plan | None = None
    plans: int = 0
    rejections: list[e.PlanRejected] = field(default_factory=list)
    steps: dict[StepId, StepState] = field(default_factory=dict)
    earlier: dict[StepId, StepState] = field(default_factory=dict)
    """Finished steps that a later plan has left out: their outputs and metadata stay."""
    open_steps: int = 0
    """Steps that have not come to an end."""
    mode: e.ExecutionMode | None = None
    ledger: Ledger = field(default_factory=Ledger)
    kept_apart: bool = False
    """Some output is an artifact."""
    any_skipped: bool = False
    in_doubt: dict[str, CallState] = field(default_factory=dict)
    modelled: bool = True
    """False: the plan was given and the steps judge themselves, so that no model is there to mend anything."""
    escalation: e.OverallReflectionTriggered | None = None
    """A step's recovery has ended: no step is started until the plan is made anew."""
    reflection: e.ReflectionCompleted | None = None
    """Of this round."""
    replanning: e.ReplanningStarted | None = None
    """The plan is being made anew."""
    waiting: e.TaskWaiting | None = None
    recovery: Recovery | None = None
    """What recovery has done so far; None: nothing yet."""
    evaluation: e.EvaluationCompleted | None = None
    cancel: e.CancelRequested | None = None
    outcome: e.TaskCompleted | e.TaskFailed | e.TaskCancelled | e.TaskTimedOut | None = None
    llm_running: dict[str, e.LlmCallStarted] = field(default_factory=dict)
    tool_calls: int = 0
    """Calls made; the rest of what was used is in `_asked`."""
    _asked: Usage = _NOTHING_USED
    _graph: Graph | None = field(default=None, compare=False, repr=False)
    _metadata: JsonObject | None = None
    _ids: frozenset[str] = frozenset()
    """Ids of steps and actions that a later plan has left out."""
    _owners: dict[ActionId, StepState] | None = field(default=None, compare=False, repr=False)
    _calls: dict[CallKey, CallState] = field(default_factory=dict)
    """The latest try of each call that has not succeeded, even of steps that a new plan has left out."""

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
            for step in (*self.earlier.values(), *self.steps.values()):
                if step.metadata:
                    merged.update(step.metadata)
            self._metadata = merged
        return self._metadata

    @property
    def heals(self) -> bool:
        """True if failed steps are reflected upon at once."""
        return self.modelled and self.policy.enable_step_level_reflection

    @property
    def reflects(self) -> bool:
        """True if a round that did not do is reflected upon."""
        return self.modelled and self.policy.enable_auto_reflection

    def mending(self) -> Recovery:
        """What recovery has done so far, to be added to."""
        if self.recovery is None:
            self.recovery = Recovery()
        return self.recovery

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        return self._asked.model_copy(update={"tool_calls": self.tool_calls})

    def graph(self) -> Graph:
        """The plan as a graph; nobody changes it."""
        if self._graph is None:
            self._graph = Graph.of(self.plan) if self.plan else Graph((), {})
        return self._graph

    def step_of_action(self, action_id: ActionId) -> StepState | None:
        """The step that has this action, of the plan or of those that it has left out."""
        if self._owners is None:
            steps = (*self.earlier.values(), *self.steps.values())
            self._owners = {action.action_id: one for one in steps for action in one.step.actions}
        return self._owners.get(action_id)

    def latest_try(self, key: CallKey) -> CallState | None:
        """The latest try of a call that has not succeeded."""
        return self._calls.get(key)

    def ids_used(self) -> frozenset[str]:
        """Every step and action id that this task has used."""
        steps = (state.step for state in self.steps.values())
        return self._ids.union(*map(_ids_of, steps))

    def running_calls(self) -> list[CallState]:
        """Calls that were started and have no result."""
        return [call for call in self._calls.values() if call.status == "running"]

    def occurrence(self, base: str, place: Place) -> int:
        """Which of the like calls this place in the plan makes, from 1.

        The place keeps the number at once: another that asks before the call is recorded gets another number.
        """
        step = self.steps[place[0]] if self.recovery is not None else None
        changed = step is not None and step.healing is not None and place[1] in step.healing.overrides
        if step is None or (
            not changed and (step.born == 1 or _is_meant_again(step.step, place[1].action_id))
        ):
            return self.ledger.occurrence(base, place)
        born = step.born

        def done(other: Place) -> bool:
            known = self.steps.get(other[0])
            call = known.calls.get(other[1]) if known is not None else None
            if known is None or call is None or call.status == "failed" or base_of(call.key) != base:
                return False
            if call.status != "succeeded" and call.effect == "reads":
                return False  # under way: another like reading does no harm
            return changed or known.born < born

        return self.ledger.later_occurrence(base, place, done)

    def reusable(self, key: CallKey, tool: ToolSpec) -> LedgerEntry | None:
        """The recorded output of this very call, if it may stand for a new one."""
        return self.ledger.reusable(key, tool)

    # ── the fold ──

    def apply(self, event: e.AnyEvent, ts: float, round: int = 0, seq: int | None = None) -> None:
        """Take one event."""
        if seq is not None:
            self.last_seq = max(self.last_seq, seq)
        if not event.signal:
            driven = self.started and self.waiting is None and type(event) is not e.TaskResumed
            if ts > self.last_ts and driven:
                self.active_secs += ts - self.last_ts
            self.last_ts = ts
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event, ts)

    def _submitted(self, event: e.TaskSubmitted, ts: float) -> None:
        # The settings are for whoever takes the task up, and are read from the log.
        self.submitted = event.lean(
            policy=shared(event.policy),
            metadata=event.metadata or _NOTHING,
            context=event.context or _NOTHING,
            settings=_NOTHING,
        )
        self.modelled = event.plan is None or event.policy.evaluation == "model"
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
        if self.evaluation is not None:
            self.mending().evaluation = self.evaluation
        self.evaluation = self.reflection = None

    def _llm_started(self, event: e.LlmCallStarted, ts: float) -> None:
        self._asked = self._asked.model_copy(update={"llm_calls": self._asked.llm_calls + 1})
        self.llm_running[event.call_id] = event
        if event.role == "evaluation":
            self.status = "evaluating"
        elif event.schema_name == "overall_reflection":
            self.status = "reflecting"

    def _llm_completed(self, event: e.LlmCallCompleted, ts: float) -> None:
        self.llm_running.pop(event.call_id, None)
        mine, more = self._asked, event.usage
        self._asked = mine.model_copy(
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

    def _planned(self, event: e.PlanGenerated, ts: float) -> None:
        if self.submitted is not None and self.submitted.plan is not None:
            self.submitted = self.submitted.lean(plan=None)  # this one it was: it is not kept twice
        self.take_plan(event.plan)

    def take_plan(self, plan: Plan) -> dict[StepId, StepState]:
        """Go by this plan from here on; the steps that it leaves out."""
        steps = tuple([step.lean() for step in plan.steps])
        self.plan = plan.lean(steps=steps)
        self._graph = self._owners = None
        self.plans += 1
        self.status = "executing"
        self.mode = None
        self._metadata = None
        kept = self.steps
        self.steps = {}
        for step in steps:
            known = kept.pop(step.step_id, None)
            if known is None:
                known = StepState(step, born=self.plans)
            elif known.step != step:
                self._ids = self._ids.union(_ids_of(known.step))
                if known.status != "succeeded":  # else it has done what it did before this plan
                    known.born = self.plans
                    self._forget_calls(known, step)
            known.step = step
            known._actions = None
            self.steps[step.step_id] = known
        self._count()
        if kept:
            self._ids = self._ids.union(*(_ids_of(state.step) for state in kept.values()))
            self.earlier.update((name, state) for name, state in kept.items() if state.status == "succeeded")
            self.ledger.free(set(kept))
        return kept

    def _forget_calls(self, known: StepState, step: Step) -> None:
        """A step is written anew: what it has called as it was is the ledger's alone."""
        if all(getattr(known.step, name) == getattr(step, name) for name in _WHAT_IS_CALLED):
            return
        known.calls = {slot: call for slot, call in known.calls.items() if call.status == "unknown"}
        known.items = None
        self.ledger.free({step.step_id})

    def _count(self) -> None:
        """Count anew what is counted of the steps."""
        self.open_steps = sum(not state.closed for state in self.steps.values())
        self.any_skipped = any(state.status == "skipped" for state in self.steps.values())

    def replace_step(self, step: Step) -> None:
        """Write one step of the plan anew, as a new version of the plan."""
        assert self.plan is not None
        known = self.steps[step.step_id]
        self._ids = self._ids.union(_ids_of(known.step))
        lean = step.lean()
        steps = tuple([lean if one.step_id == step.step_id else one for one in self.plan.steps])
        self.plans += 1
        self.plan = self.plan.lean(steps=steps, version=self.plans)
        self._graph = self._owners = None
        known.step = lean
        known.born = self.plans
        known._actions = None
        known.calls = {slot: call for slot, call in known.calls.items() if call.status == "unknown"}
        known.items = None
        self.ledger.free({step.step_id})

    def reopen(self, names: Iterable[StepId]) -> None:
        """Steps that had come to an end are due again, and all that was left out because of them."""
        due = [self.steps[name] for name in names if name in self.steps]
        for step_id in self.graph().downstream([step.step.step_id for step in due]):
            step = self.steps[step_id]
            if step.skip is not None and step.skip.kind != "condition":
                due.append(step)
        for step in due:
            step.begin_again()
        self.ledger.free({step.step.step_id for step in due if step.step.for_each is not None})
        self._count()

    def _mode(self, event: e.ExecutionMode, ts: float) -> None:
        self.mode = shared(event)

    def _step_ready(self, event: e.StepReady, ts: float) -> None:
        if (step := self.steps.get(event.step_id)) and step.status == "pending":
            step.status = "ready"

    def _step_started(self, event: e.StepStarted, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            if step.closed:
                self.open_steps += 1
                step.fault = step.skip = step.ended = None
            step.status = "running"
            step.items = event.items
            if step.started is None:
                step.started = ts

    def _call_started(self, event: e.CallStarted, ts: float) -> None:
        self.tool_calls += 1
        ledger, slot = self.ledger, slot_of(event.action_id, event.index)
        if slot.action_id is not None and slot.action_id.startswith(READING):
            healing.reading_started(self, event)
            return
        ledger.occupy(event.call_key, (event.step_id, slot))
        call = CallState(
            event.call_key, event.step_id, slot, event.tool_id, event.attempt,
            event.effect, event.parameters, started=ts, effects_before=ledger.effects,
        )  # fmt: skip
        if (earlier := self._calls.get(call.key)) is not None:
            call.retries = earlier.retries
        ledger.touch(call.effect)
        self._calls[call.key] = call
        if step := self.steps.get(event.step_id):
            step.calls[slot] = call
            if step.healing is not None:
                step.healing.pending.pop(slot, None)

    def _result_of(self, event: e._OfCall, ts: float) -> CallState | None:
        """The call that the event ends."""
        call = self._calls.get(event.call_key)
        if call is not None:
            call.ended = ts
            self.ledger.touch(call.effect)
        return call

    def _call_completed(self, event: e.CallCompleted, ts: float) -> None:
        output = Output(event.output, event.artifact)
        if event.artifact is not None:
            self.kept_apart = True
        if event.action_id is not None and event.action_id.startswith(READING):
            healing.reading_ended(self, event)
        elif event.reused:
            self._reused(event, output, ts)
        elif call := self._result_of(event, ts):
            self._succeeded(call, output)
        self.in_doubt.pop(event.call_key, None)

    def _reused(self, event: e.CallCompleted, output: Output, ts: float) -> None:
        slot = slot_of(event.action_id, event.index)
        self.ledger.occupy(event.call_key, (event.step_id, slot))
        entry = self.ledger.entries.get(event.call_key)
        if step := self.steps.get(event.step_id):
            step.calls[slot] = CallState(
                event.call_key, event.step_id, slot, event.tool_id, event.attempt,
                entry.effect if entry else "reads", {}, "succeeded", output, True, None, ts, ts,
            )  # fmt: skip

    def _succeeded(self, call: CallState, output: Output) -> None:
        call.status = "succeeded"
        call.output = output
        call.fault = None
        self._calls.pop(call.key, None)
        self.ledger.enter(call, output)

    def _call_failed(self, event: e.CallFailed, ts: float) -> None:
        if event.action_id is not None and event.action_id.startswith(READING):
            healing.reading_ended(self, event)
        elif call := self._result_of(event, ts):
            call.status = "failed" if event.retry_in_secs is None else "retrying"
            call.fault = event.error
            call.retries += event.retry_in_secs is not None and event.error.kind != "cancelled"

    def _outcome_unknown(self, event: e.OutcomeUnknown, ts: float) -> None:
        if call := self._result_of(event, ts):
            call.status = "unknown"
            self.in_doubt[call.key] = call

    def _outcome_settled(self, event: e.OutcomeSettled, ts: float) -> None:
        call = self.in_doubt.pop(event.call_key, None)
        if call is None:
            return
        self.ledger.touch(call.effect)
        if self.recovery is not None:
            self.recovery.use_up_answers(event.call_key)
        step = self.steps.get(call.step_id)
        if step is not None and step.healing is not None:
            step.healing.readings.pop(call.slot, None)
        if event.happened:
            self._succeeded(call, Output(event.output))
        else:
            call.status = "failed"
            if step is not None and step.calls.get(call.slot) is call:
                del step.calls[call.slot]  # it did not happen: it may be made
        if step is not None and step.status == "failed":
            self.reopen([call.step_id])

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
            if self.modelled:
                healing.step_failed(self, step, event)

    def _step_skipped(self, event: e.StepSkipped, ts: float) -> None:
        if step := self.steps.get(event.step_id):
            self._close(step, "skipped", ts)
            self.any_skipped = True
            step.skip = event

    def _evaluated(self, event: e.EvaluationCompleted, ts: float) -> None:
        self.evaluation = event
        if self.modelled:
            healing.judged(self, event)

    def _cancel(self, event: e.CancelRequested, ts: float) -> None:
        if self.cancel is None:
            self.cancel = event
        self.waiting = None

    def _ended(self, event: e.AnyEvent, ts: float) -> None:
        if isinstance(event, e.TERMINAL):
            self.outcome = event
            self.status = END_STATUS[type(event)]


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
    **healing.HANDLERS,
}  # fmt: skip


_WHAT_IS_CALLED = ("tool", "parameters", "actions", "for_each")


def _is_meant_again(step: Step, action_id: ActionId | None) -> bool:
    if action_id is None:
        return step.repeat
    return any(action.repeat for action in step.actions if action.action_id == action_id)


def _ids_of(step: Step) -> tuple[str, ...]:
    return (step.step_id, *(action.action_id for action in step.actions))


def fold(records: Iterable[e.Record], state: State | None = None) -> State:
    """The state that the records add up to."""
    state = State() if state is None else state
    for record in records:
        state.task_id = record.task_id
        state.apply(record.event, record.ts, record.round, record.seq)
    return state
