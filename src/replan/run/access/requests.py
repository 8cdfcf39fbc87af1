"""What front ends take: the bodies of calls, closed and bounded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from replan.run.service.submission import MAX_DESCRIPTION

Text = Annotated[str, Field(max_length=10_000)]
Secs = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: `3.0` is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)
Count = Annotated[int, Field(ge=0, le=2**53), Whole]
TaskId = Annotated[str, Field(min_length=1, max_length=128)]
Json = dict[str, Any]


class Body(BaseModel):
    """Closed: an unknown name is an error, which says what there is."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SubmitOptions(Body):
    """What a caller may choose for one task. Limits only lower those of the service; approvals are the stricter of the two."""

    timeout_secs: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_llm_calls: Count | None = None
    max_tokens: Count | None = None
    max_cost_usd: Secs | None = None
    max_tool_calls: Count | None = None
    max_rounds: Count | None = None
    evaluation: Literal["model", "steps"] | None = None
    approval: Literal["never", "destructive", "all"] | None = None
    review_plan: bool | None = None
    """Whether each plan waits for a person's yes before any step of it starts; where the service wants that, it does."""
    success_threshold: Annotated[float, Field(ge=0, le=100)] | None = None
    interactive: bool = True
    """Whether it waits for people; else what needs one fails."""
    output_schema: Json | None = None
    """JSON Schema of the answer."""
    plan: Json | None = None
    """A plan to run, in place of one that is made."""
    workflow: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """A workflow to build the plan from, by its id."""
    slots: Json = {}
    """What its slots are filled with, by name."""
    queue: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31), Whole] | None = None


class SubmitContext(Body):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    session_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    previous_task_id: TaskId | None = None


class SubmitRequest(Body):
    """A task to be done."""

    task_description: Annotated[str, Field(min_length=1, max_length=MAX_DESCRIPTION)]
    metadata: Json = {}
    context: SubmitContext = SubmitContext()
    task_id: TaskId | None = None
    """Of the caller's choosing: the same id with the same request is the same task. Of a tenant it stands under its name
    (`acme:job-1`), and either names it."""
    options: SubmitOptions = SubmitOptions()
    secrets: dict[str, SecretStr] = {}
    """Metadata that is stored and shown nowhere. Only the process that takes the request has it: where that ends before the task does, the
    task waits for it (`key`), and the same request once more, or `resume` with `secrets`, gives it again."""
    dry_run: bool = False
    """Plan and check, store and run nothing."""


class ReasonRequest(Body):
    reason: Text = ""


class ResumeRequest(ReasonRequest):
    secrets: dict[str, SecretStr] = {}
    """Those that its request was made with, where a process has to be given them again (`waiting_for`)."""


class PauseRequest(ReasonRequest):
    now: bool = False
    """Cut off what runs."""


class HintRequest(Body):
    text: Annotated[str, Field(min_length=1, max_length=100_000)]


class ForkChanges(Body):
    """From which event of a task a new one goes on, and what is otherwise there."""

    at: Annotated[int, Field(ge=1), Whole] | None = None
    hint: Annotated[str, Field(max_length=100_000)] = ""
    plan: Json | None = None
    retry: Annotated[list[str], Field(max_length=1000)] = []
    judge: bool = False
    reason: Text = ""
    options: SubmitOptions = SubmitOptions()


class ForkRequest(ForkChanges):
    """Go on from an event of a task in a new one."""

    task_id: TaskId | None = None
    secrets: dict[str, SecretStr] = {}
    """Those that the request of the other task was made with, where no process has them any more: without, the answer is `secrets-missing`."""


class ApprovalAnswer(Body):
    """Yes or no to one call; a yes is for what `hash` stands for."""

    approved: bool
    hash: Annotated[str, Field(max_length=200)] | None = None
    """Of the call as it was shown. It has to be given with a yes."""
    reason: Text = ""
    parameters: Json | None = None
    """Laid over those that were shown."""


class PlanReview(Body):
    """Yes or no to a plan that waits; with `plan`, to that one in its place."""

    approved: bool
    hash: Annotated[str, Field(max_length=200)] | None = None
    """Of the plan as it was shown. It has to be given with a yes."""
    reason: Text = ""
    """Of a no: the next plan is made with it."""
    plan: Json | None = None
    """The whole plan. It has to pass every check; of one that does not, nothing is kept."""


class QuestionAnswer(Body):
    """In words (`text`); or, to a step's question, as the value itself (`output`)."""

    text: Annotated[str, Field(max_length=100_000)] = ""
    output: Any = None
    """What a call has given, of which the answer says that it took effect; the answer to a step's question, where that is no text."""


class SettleRequest(Body):
    """What became of a call in doubt."""

    happened: bool | None
    """None: nobody can tell."""
    output: Any = None
    reason: Text = ""


class JudgeRequest(Body):
    hint: Annotated[str, Field(max_length=100_000)] = ""


class SignalRequest(Body):
    token: Annotated[str, Field(min_length=1, max_length=500)]
    data: Any = None
