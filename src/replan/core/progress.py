"""How far a task's steps and calls are: the parts of its state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from replan.core import events as e
from replan.core.types import Action, Artifact, Effect, Fault, JsonObject, Step, StepId

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


ONLY = Slot()
"""The only call of a step."""


def slot_of(action_id: str | None, item: int | None) -> Slot:
    return ONLY if action_id is None and item is None else Slot(action_id, item)


Place = tuple[StepId, Slot]
"""One of the calls that a plan means."""


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
    effects_before: int = 0
    """The task's count of effects when it was started."""
    retries: int = 0
    """Faults of its earlier tries that code let pass; a try that was cut off is none."""


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
    _actions: dict[str, Action] | None = field(default=None, compare=False, repr=False)

    def action(self, action_id: str) -> Action:
        """The step's action of this id."""
        if self._actions is None:
            self._actions = {action.action_id: action for action in self.step.actions}
        return self._actions[action_id]

    @property
    def closed(self) -> bool:
        return self.status in ("succeeded", "failed", "skipped")

    @property
    def attempts(self) -> int:
        return max((call.attempt for call in self.calls.values()), default=0)


# ── the status of the whole task ──

END_STATUS: dict[type[e.Event], TaskStatus] = {
    e.TaskCompleted: "succeeded",
    e.TaskFailed: "failed",
    e.TaskCancelled: "cancelled",
    e.TaskTimedOut: "timed_out",
}
_STATUS: dict[type[e.Event], TaskStatus] = {
    e.TaskStarted: "planning",
    e.LlmCallStarted: "evaluating",
    e.PlanGenerated: "executing",
    e.PlanUpdated: "executing",
    **END_STATUS,
}


def status_of(event: e.AnyEvent) -> TaskStatus | None:
    """The task status that an event brings; None if it changes nothing."""
    status = _STATUS.get(type(event))
    if status == "evaluating":
        return status if isinstance(event, e.LlmCallStarted) and event.role == "evaluation" else None
    return status
