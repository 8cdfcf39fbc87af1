"""Calls of tools: begun, answered, waited for, in doubt."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from replan.core.events.event import Event
from replan.core.types import ActionId, Artifact, CallKey, Effect, Fault, JsonObject, StepId, ToolId


class OfCall(Event):
    """What every event of one call says of it."""

    call_key: CallKey
    step_id: StepId
    action_id: ActionId | None = None
    index: int | None = None
    attempt: int = 1
    tool_id: ToolId


class CallStarted(OfCall):
    type: Literal["call_started"] = "call_started"
    effect: Effect
    parameters: JsonObject
    keys_in: str = Field(default="", exclude_if=lambda value: not value)
    """The memory in which its key is kept, as its tool's service has named it; empty: none that was relied on."""


class CallCompleted(OfCall):
    sealed: ClassVar[frozenset[str]] = frozenset({"output", "artifact", "files"})
    """What was cleared of secrets when it came: it may be large, and is not looked through again."""
    type: Literal["call_completed"] = "call_completed"
    output: Any = None
    artifact: Artifact | None = None
    files: tuple[Artifact, ...] = Field(default=(), exclude_if=lambda value: not value)
    """The files that stand in the output by their names."""
    reused: bool = False
    of_task: str = ""
    """The task that has made it: this one is a fork of it, or the other way round."""
    of_call: CallKey = Field(default="", exclude_if=lambda value: not value)
    """The key of the call there, where it is not the same: it was made over another session, say."""
    duration_secs: float = 0.0


class CallFailed(OfCall):
    type: Literal["call_failed"] = "call_failed"
    error: Fault
    retry_in_secs: float | None = None
    """None: no further try of this call by code."""


class WaitStarted(OfCall):
    """A call that waits has begun to: for a time, for a condition, for somebody outside, or for a person's answer."""

    type: Literal["wait_started"] = "wait_started"
    kind: Literal["time", "condition", "callback", "question"]
    until: float | None = None
    """Unix seconds: when it is over by itself. None: it takes as long as it takes."""
    token: str = ""
    """Of the callback that it waits for; of a question its id."""


class CallbackReceived(Event):
    """Somebody outside has used a callback. The first word counts."""

    signal: ClassVar[bool] = True
    type: Literal["callback_received"] = "callback_received"
    token: str
    data: Any = None
    by: str = ""


class OutcomeUnknown(OfCall):
    type: Literal["outcome_unknown"] = "outcome_unknown"
    reason: str
    of_try: str = ""
    """Of which try of another task, where it is that task's."""
    taken_on: bool = Field(default=False, exclude_if=lambda value: not value)
    """The step states the very call that one of an earlier plan had begun: from here on it is this step's."""


class OutcomeSettled(OfCall):
    type: Literal["outcome_settled"] = "outcome_settled"
    happened: bool
    output: Any = None
    artifact: Artifact | None = None
    """Holds the output, where that is large."""
    files: tuple[Artifact, ...] = Field(default=(), exclude_if=lambda value: not value)
    """The files that stand in the output by their names."""
    by: str = ""
    record: str = ""
    """The digest of the record that shows it: it settles no other call."""
    at: float | None = Field(default=None, exclude_if=lambda value: value is None)
    """When it took effect, where another task of the family has had it."""
    refused: str = Field(default="", exclude_if=lambda value: not value)
    """Why it does not stand for its step, though it happened; empty if it does."""
    of_call: CallKey = Field(default="", exclude_if=lambda value: not value)
    """The key that it was made with, where that is another one: which of several like calls of other tasks it was."""
