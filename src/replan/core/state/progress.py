"""How far a task's steps and calls are, and what they have given: the parts of its state."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from replan.core import events as e
from replan.core.calls.site import ONLY as ONLY
from replan.core.calls.site import Place as Place
from replan.core.calls.site import Slot as Slot
from replan.core.calls.site import slot_of as slot_of
from replan.core.following.told import Kept
from replan.core.masked import lost
from replan.core.state.step_recovery import Healing
from replan.core.types import Action, Artifact, Effect, Fault, JsonObject, Step, StepId

StepStatus = Literal["pending", "ready", "running", "succeeded", "failed", "skipped"]
CLOSED: tuple[StepStatus, ...] = ("succeeded", "failed", "skipped")
"""A step of one of these has come to its end."""
CallStatus = Literal["running", "retrying", "succeeded", "failed", "unknown"]
TaskStatus = Literal[
    "queued", "planning", "executing", "evaluating", "reflecting", "replanning", "waiting",
    "succeeded", "failed", "cancelled", "timed_out",
]  # fmt: skip
ENDED = frozenset({"succeeded", "failed", "cancelled", "timed_out"})


class Output(NamedTuple):
    """A finished call's output: the value, or the artifact that holds it."""

    value: Any = None
    artifact: Artifact | None = None
    masked: bool = False
    """A secret was cut out of it."""
    files: tuple[Artifact, ...] = ()
    """Those that stand in it by their names."""


ALONE_AFTER = 2
"""So often taken up for nothing, something of a task may end the process: it makes one call at a time, beside no other such task."""


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
    first: float = 0.0
    """When its first try was started."""
    ended: float | None = None
    effects_before: int = 0
    """The task's count of effects when it was started."""
    alone: bool = False
    """It was made beside nothing else, as something of the task may end the process."""
    cut_off: int = 0
    """Tries before this one, made alone, that nobody has seen the end of: whoever drove the task was gone."""
    retries: int = 0
    """Faults of its earlier tries that code let pass; a try that was cut off is none."""
    plan: int = 1
    """The version of the plan that it was made under."""
    mended: bool = False
    """Recovery has put it in place of what the plan has."""
    settled: bool = False
    """Its answer was lost, and it was found out afterwards that it has succeeded."""
    had_at: float | None = None
    """When it took effect, where that is not its end: its end is then when it was given up, or found out about."""
    refused: str = ""
    """Why that does not stand for its step, which is yet to fail of it."""
    of_task: str = ""
    """The task of the family that has made it: it was not made here."""
    of_call: str = ""
    """The key that it has there, where that is another one."""
    keys_in: str = ""
    """The memory of keys that its first try that may have taken effect has relied on; empty: none."""
    unsure: bool = False
    """A try of it before this one may have taken effect."""

    @property
    def may_have_been_made(self) -> bool:
        """True if it must not be repeated, has no result, and may have taken effect in one of its tries."""
        if self.effect != "once" or self.status not in ("running", "retrying"):
            return False
        surely_not = self.status == "retrying" and self.fault is not None and self.fault.happened == "no"
        return self.unsure or not surely_not

    @property
    def took(self) -> float:
        """When it took effect, as far as that is known."""
        if self.had_at is not None:
            return self.had_at
        return self.ended if self.ended is not None else self.started

    @property
    def effect_key(self) -> str:
        """The key by which every task of the family knows the effect that it stands for."""
        return self.of_call or self.key

    @property
    def was_made(self) -> bool:
        """False: what an earlier call, or another task, has given stands for it."""
        return not (self.reused or self.of_task)


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
    idle: float = 0.0
    """Seconds between the two in which nobody drove the task."""
    born: int = 1
    """The version of the plan that brought it, as it is."""
    meant: int = 1
    """The version of the plan that brought what it calls: it may have come to stand otherwise since."""
    planned: int = 1
    """The same, whatever recovery has written anew since: steps of one such version were chosen together."""
    gone: int = 0
    """The version of the plan that left it out; 0: it is in the plan."""
    former: list[CallState] | None = None
    """Calls that it made in an earlier form, or in another way; None: there are none."""
    healing: Healing | None = None
    """What recovery has done for it; None: nothing yet."""
    marked: dict[str | None, tuple[Step, Any]] | None = field(default=None, compare=False, repr=False)
    """What its calls that say `repeat` come to, by action, of the step as it then was; None: not looked at."""
    behind: tuple[int, Any] | None = field(default=None, compare=False, repr=False)
    """The effects that it comes after, in the plan of this version; None: not looked at."""
    _actions: dict[str, Action] | None = field(default=None, compare=False, repr=False)

    @property
    def secs(self) -> float | None:
        """How long it was at work; None: it has not come to an end."""
        return None if self.started is None or self.ended is None else self.ended - self.started - self.idle

    def action(self, action_id: str) -> Action:
        """The step's action of this id."""
        if self._actions is None:
            self._actions = {action.action_id: action for action in self.step.actions}
        return self._actions[action_id]

    def calls_as(self, step: Step) -> bool:
        """True if such a step calls what this one calls, whatever else of it is another."""
        mine = self.step
        return (mine.tool, mine.parameters, mine.actions, mine.for_each) == (
            step.tool, step.parameters, step.actions, step.for_each,
        )  # fmt: skip

    def begin_again(self) -> None:
        """It had come to an end and is due again; what has succeeded of it stays."""
        self.status = "pending"
        self.fault = self.skip = self.ended = self.items = None
        # its list may be another one
        self.keep_calls(("succeeded", "unknown") if self.step.for_each is None else ())

    def keep_calls(self, statuses: Collection[str]) -> None:
        """Go on with the calls of these statuses only; the others have been made all the same."""
        for slot in [slot for slot, call in self.calls.items() if call.status not in statuses]:
            self.put_away(slot)

    def put_away(self, slot: Slot) -> None:
        """The call at this place is made in another way from here on."""
        call = self.calls.pop(slot, None)
        if call is not None:
            self.former = self.former or []
            self.former.append(call)

    def let_go(self, call: CallState) -> None:
        """This very call is another step's by now."""
        if self.calls.get(call.slot) is call:
            del self.calls[call.slot]
        if self.former is not None:
            self.former = [one for one in self.former if one is not call]

    def every_call(self) -> list[CallState]:
        """Every call that was made for it, in whatever form it had then; the latest last."""
        return [*(self.former or ()), *self.calls.values()]

    def plain_call(self) -> CallState | None:
        """The call of a step that has made no other, once, and has succeeded with it."""
        if self.status != "succeeded" or len(self.calls) != 1 or self.items is not None:
            return None
        if self.former is not None or self.healing is not None:
            return None
        call = self.calls.get(ONLY)
        return call if call is not None and call.status == "succeeded" and call.output is not None else None

    @property
    def left_out(self) -> tuple[int, ...]:
        """The items of a `for_each` that have no output, counted from 0."""
        if self.items is None:
            return ()
        made = {slot.item for slot, call in self.calls.items() if call.status != "succeeded"}
        here = {slot.item for slot in self.calls}
        return tuple(item for item in range(self.items) if item in made or item not in here)

    @property
    def has_output(self) -> bool:
        """It succeeded; or some items of its list did, which can be referred to without the others."""
        if self.status == "succeeded":
            return True
        return self.status == "failed" and self.items is not None and len(self.left_out) < self.items

    @property
    def closed(self) -> bool:
        return self.status in CLOSED

    @property
    def moot(self) -> bool:
        """It was not to run: its own condition did not hold, or what it needs was skipped so."""
        return self.skip is not None and self.skip.kind in ("condition", "dependency_skipped")

    @property
    def was_left(self) -> bool:
        """It was to run, and has not come to an end of its own: it was skipped because of something else, or it is open, and nothing of
        it goes on once the task ends."""
        return not self.moot if self.skip is not None else not self.closed

    @property
    def attempts(self) -> int:
        """Tries of the call that was tried most, whatever it was called with."""
        now = max((call.attempt for call in self.calls.values()), default=0)
        if self.healing is None:
            return now
        return max([now, *(self._tries(slot) for slot in self.healing.slots())])

    def _tries(self, slot: Slot) -> int:
        """Failed tries, and the latest where that has not failed."""
        call = self.calls.get(slot)
        failed = self.healing.failures(slot) if self.healing is not None else []
        if call is None or call.status not in ("running", "succeeded"):
            return len(failed)
        # the failure of a call that has succeeded after all was its doubt: no other try
        known = call.settled and any(one.call_key == call.key for one in failed)
        return len(failed) + (not known)


def done_before(
    name: str, tool: str, kept: Kept, task_id: str, ts: float, *, masked: bool = False
) -> StepState:
    """What is referred to of another task, as a step that was done before this one was begun. It is no call of this one.

    `masked`: something in it is known to be secret here.
    """
    value, files = (lost(kept.value), lost(kept.files)) if kept.masked else (kept.value, kept.files)
    call = CallState(
        key="", step_id=name, slot=ONLY, tool_id=tool, attempt=1, effect="reads", parameters={}, status="succeeded",
        output=Output(value, kept.artifact, masked or kept.masked, files), ended=ts, of_task=task_id,
    )  # fmt: skip
    return StepState(Step(step_id=name, tool=tool), "succeeded", {ONLY: call}, ended=ts)


# ── the status of the whole task ──

END_STATUS: dict[type, TaskStatus] = {
    e.TaskCompleted: "succeeded",
    e.TaskFailed: "failed",
    e.TaskCancelled: "cancelled",
    e.TaskTimedOut: "timed_out",
}
_STATUS: dict[type, TaskStatus] = {
    e.TaskForked: "queued",
    e.TaskStarted: "planning",
    e.PlanGenerated: "executing",
    e.PlanUpdated: "executing",
    e.OverallReflectionTriggered: "reflecting",
    e.ReplanningStarted: "replanning",
    e.TaskWaiting: "waiting",
    e.ApprovalResolved: "executing",
    e.PlanReviewed: "executing",
    e.CallbackReceived: "executing",
    e.QuestionAnswered: "reflecting",
    **END_STATUS,
}


_STATUSES = frozenset(get_args(TaskStatus))
BRINGS = frozenset([*_STATUS, e.LlmCallStarted, e.TaskResumed])
"""Kinds of events that may bring a status."""


def status_of(event: object) -> TaskStatus | None:
    """The task status that an event brings; None if it changes nothing."""
    if isinstance(event, e.LlmCallStarted):
        if event.schema_name == "overall_reflection":
            return "reflecting"
        return "evaluating" if event.role == "evaluation" else None
    if isinstance(event, e.TaskResumed):
        return event.status if event.status in _STATUSES else None  # type: ignore[return-value]
    if isinstance(event, e.QuestionAnswered) and event.step_id is not None:
        return "executing"
    return _STATUS.get(type(event))


def artifacts_of(step: StepState) -> list[Artifact]:
    """The artifacts that the step's output is partly or wholly kept in."""
    return [call.output.artifact for call in step.calls.values() if call.output and call.output.artifact]


def files_of(step: StepState) -> list[Artifact]:
    """The files that stand in the step's output."""
    return [file for call in step.calls.values() if call.output for file in call.output.files]


def compose(step: StepState, value_of: Callable[[Output], Any]) -> Any:
    """A finished step's output: its call's; `{action_id: output}`; or the list of its items, in order.

    Items that failed are left out of the list.
    """
    if step.items is not None:
        without = set(step.left_out)
        return [_once(step, index, value_of) for index in range(step.items) if index not in without]
    return _once(step, None, value_of)


def _once(step: StepState, index: int | None, value_of: Callable[[Output], Any]) -> Any:
    if step.step.actions:
        return {a.action_id: _call(step, Slot(a.action_id, index), value_of) for a in step.step.actions}
    return _call(step, Slot(None, index), value_of)


def _call(step: StepState, slot: Slot, value_of: Callable[[Output], Any]) -> Any:
    call = step.calls.get(slot)
    return None if call is None or call.output is None else value_of(call.output)
