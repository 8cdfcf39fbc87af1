"""What the tools take and give. Docstrings of fields are read by models: they go into the schemas."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from replan.core.report.result import WaitingFor
from replan.core.types import Failure, JsonObject
from replan.run.access.requests import (
    ApprovalAnswer,
    Body,
    ForkChanges,
    HintRequest,
    Json,
    JudgeRequest,
    PauseRequest,
    PlanReview,
    QuestionAnswer,
    ReasonRequest,
    SettleRequest,
    SubmitOptions,
    TaskId,
    Whole,
)
from replan.run.access.views import WaitingTask

WAIT_SECS = 45.0
"""Many clients give a call a minute."""
MOST_WAIT_SECS = 600.0

T = TypeVar("T")


class Input(Body):
    """Arguments of a tool."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Waits(Input):
    wait_secs: Annotated[float, Field(ge=0, le=MOST_WAIT_SECS, allow_inf_nan=False)] = WAIT_SECS
    """How long to wait for the end; the task goes on afterwards, and `wait_task` waits again."""


class NewTask(Input):
    task: Annotated[str, Field(min_length=1, max_length=100_000)]
    """What is to be done, in plain language, with everything that is needed to do it."""
    metadata: Json = {}
    """Values that the task is about, by name: parameters of tools may come from here."""
    session_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Tasks of one conversation have the same: each knows what the last of them have done and given."""
    previous_task_id: TaskId | None = None
    """A task that has ended and that this one follows ("send it again"): what it has done and given can be used."""
    idempotency_key: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The same key with the same request is the same task: give one, and a call that broke off can be made again."""
    options: SubmitOptions = SubmitOptions()
    """Limits and rules for this task; limits only lower those of the service."""


class RunTask(NewTask, Waits):
    pass


class OfTask(Input):
    task_id: TaskId


class WaitTask(OfTask, Waits):
    pass


class ListTasks(Input):
    status: list[str] = []
    """Only these: queued, planning, executing, evaluating, reflecting, replanning, waiting, succeeded, failed, cancelled, timed_out."""
    session_id: str | None = None
    cursor: str | None = None
    """`next_cursor` of the page before."""
    limit: Annotated[int, Field(ge=1, le=100), Whole] = 20


class ListWaiting(Input):
    task_id: TaskId | None = None
    """Only of this task."""
    cursor: str | None = None
    """`next_cursor` of the page before."""


class Approve(OfTask, ApprovalAnswer):
    approval_id: str


class ReviewPlan(OfTask, PlanReview):
    version: Annotated[int, Field(ge=1), Whole]
    """`review.version` of what waits."""


class Answer(OfTask, QuestionAnswer):
    question_id: str


class Hint(OfTask, HintRequest):
    pass


class WithReason(OfTask, ReasonRequest):
    pass


class Pause(OfTask, PauseRequest):
    pass


class OfStep(OfTask):
    step_id: str


class RetryStep(OfStep, ReasonRequest):
    pass


class SettleStep(OfStep, SettleRequest):
    pass


class Judge(OfTask, JudgeRequest):
    pass


class Fork(OfTask, ForkChanges):
    """`task_id`: whose history the new one goes on from."""

    fork_id: TaskId | None = None
    """The id of the new one; without it, one is made."""


class ReadOutput(OfStep):
    item: Annotated[int, Field(ge=1), Whole] | None = None
    """Of a step over many items: only that one, from 1."""
    offset: Annotated[int, Field(ge=0), Whole] = 0
    """`next_offset` of the piece before."""


class ReadEvents(OfTask):
    after: Annotated[int, Field(ge=0), Whole] = 0
    """The seq of the last event that is known."""
    limit: Annotated[int, Field(ge=1, le=100), Whole] = 50


class Nothing(Input):
    pass


class Given(BaseModel):
    """What a tool gives."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class Outcome(Given):
    """What a task has come to, or how it stands."""

    task_id: str
    status: str
    ended: bool
    is_success: bool
    """True only of a task that has ended and was found to have done what was asked."""
    final_output: Any = None
    """The answer."""
    final_score: float | None = None
    failure: Failure | None = None
    shortfall: tuple[str, ...] = ()
    """What is missing of a success."""
    waiting: tuple[WaitingTask, ...] = ()
    """What a person has to say before it goes on."""
    waiting_for: tuple[WaitingFor, ...] = ()
    """What else it waits for."""
    done_steps: int = 0
    total_steps: int = 0
    next: str = ""
    """What to do now."""


class Listed(Given, Generic[T]):
    items: list[T]


class Events(Given):
    items: list[JsonObject]
    next_after: int
    """Give it as `after` for what comes later."""
