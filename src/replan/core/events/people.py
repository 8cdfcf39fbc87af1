"""What people are asked, and what they say."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from replan.core.calls.origins import Origin
from replan.core.events.event import Event
from replan.core.types import ActionId, CallKey, Effect, JsonObject, StepId, ToolId


class ApprovalRequested(Event):
    """A call that waits for a person's yes. What runs is what is shown: the approval is for this key alone."""

    type: Literal["approval_requested"] = "approval_requested"
    approval_id: str
    call_key: CallKey
    step_id: StepId
    action_id: ActionId | None = None
    index: int | None = None
    tool_id: ToolId
    effect: Effect
    parameters: JsonObject
    parameters_schema: JsonObject = {}
    """What other parameters have to look like (JSON Schema)."""
    seals: dict[str, str] = {}
    """Of what is not shown as it is (a secret, a large value): its seal (`core.calls.seals`), by parameter."""
    kept: dict[str, str] = {}
    """Of a large value: the artifact that has all of it, secrets masked."""
    item: Any = None
    """Of a call of a `for_each`: the item that it is made for, secrets masked, a large one cut."""
    why: str = ""
    """Why a yes is needed, where it is not the settings that ask for it."""
    origin: dict[str, tuple[Origin, ...]] = Field(default={}, exclude_if=lambda value: not value)
    """Where each parameter comes from."""
    expires: float | None = Field(default=None, exclude_if=lambda value: value is None)
    """Unix seconds: nobody is waited for any longer. None: as long as it takes."""


class ApprovalResolved(Event):
    signal: ClassVar[bool] = True
    type: Literal["approval_resolved"] = "approval_resolved"
    approval_id: str
    approved: bool
    reason: str = ""
    parameters: JsonObject | None = None
    """What of the call is to be otherwise; None: it is as shown."""
    without: tuple[str, ...] = ()
    """Parameters that are to be left out."""
    by: str = ""


class ApprovalExpired(Event):
    """Nobody has answered in time, which is no refusal: the call is not made now, and a later plan may ask for it again."""

    type: Literal["approval_expired"] = "approval_expired"
    approval_id: str
    call_key: CallKey
    step_id: StepId
    action_id: ActionId | None = None
    index: int | None = None


class QuestionAsked(Event):
    """Something that only a person can say.

    `outcome`: did a call take effect; `intervention`: what is needed for the task to go on; `question`: what a step of the plan asks.
    """

    type: Literal["question_asked"] = "question_asked"
    question_id: str
    kind: Literal["outcome", "intervention", "question"]
    text: str
    """The question, alone."""
    background: str = ""
    """How it came to it, and what is advised."""
    call_key: CallKey | None = None
    step_id: StepId | None = None
    index: int | None = None
    """Of a step's question: for which item of its `for_each`."""
    answer_schema: JsonObject = Field(default={}, exclude_if=lambda value: not value)
    """What the answer to a step's question has to fit (JSON Schema)."""


class QuestionAnswered(Event):
    signal: ClassVar[bool] = True
    type: Literal["question_answered"] = "question_answered"
    question_id: str
    answer: str = ""
    happened: bool | None = None
    """For a question about an outcome."""
    output: Any = None
    """What the call has given that the question was about; of a step's question the answer itself, as it was asked for."""
    by: str = ""
    step_id: StepId | None = Field(default=None, exclude_if=lambda value: value is None)
    """The step that has asked, and goes on with it; None: the task itself has."""


class CancelRequested(Event):
    signal: ClassVar[bool] = True
    type: Literal["cancel_requested"] = "cancel_requested"
    reason: str = ""
    by: str = ""
    until_resumed: bool = False
    """It is withdrawn where the task is resumed before it has ended."""


class PauseRequested(Event):
    """No call is started any more; what runs comes to its end. Then nobody drives the task until it is to go on."""

    signal: ClassVar[bool] = True
    type: Literal["pause_requested"] = "pause_requested"
    reason: str = ""
    by: str = ""
    now: bool = False
    """What runs is cut off, as by a crash."""


class ResumeRequested(Event):
    """A paused task is to go on."""

    signal: ClassVar[bool] = True
    type: Literal["resume_requested"] = "resume_requested"
    reason: str = ""
    by: str = ""


class HintGiven(Event):
    """For every later prompt: the next reflection or plan, as a rule."""

    signal: ClassVar[bool] = True
    type: Literal["hint_given"] = "hint_given"
    request_id: str
    hint: str
    by: str = ""


class RetryRequested(Event):
    """A step that has failed is to be tried again."""

    signal: ClassVar[bool] = True
    type: Literal["retry_requested"] = "retry_requested"
    request_id: str
    step_id: StepId
    reason: str = ""
    by: str = ""


class JudgementRequested(Event):
    """What was done is to be judged anew."""

    signal: ClassVar[bool] = True
    type: Literal["judgement_requested"] = "judgement_requested"
    request_id: str
    hint: str = ""
    by: str = ""


Wish: TypeAlias = HintGiven | RetryRequested | JudgementRequested
"""What a person wants of whoever drives, who says that it is taken."""


class RequestTaken(Event):
    """What a person has asked for is done from here on."""

    type: Literal["request_taken"] = "request_taken"
    request_id: str
    refused: str = ""
    """Why it is not: something else has come before it."""
