"""The facts of a task, and their stored form.

Each event is in the past tense and carries its result: applying one cannot fail. The stored form is
`{seq, task_id, ts, round, type, data}`. A kind that this release does not know is kept as `UnknownEvent`;
fields that it does not know are ignored by the fold and stay in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, cast, get_args

from pydantic import Field, SerializerFunctionWrapHandler, ValidationError, model_serializer
from pydantic_core import from_json, to_json

from replan.core.calls.site import Slot, slot_of
from replan.core.following.told import PreviousTask
from replan.core.ids import TENANT, canonical, digest, is_session
from replan.core.kinds.scene import Scene
from replan.core.kinds.workflow import UsedWorkflow, Workflow
from replan.core.limits.policy import Policy
from replan.core.plan.diff import PlanDiff
from replan.core.reflection import OverallReflection, StepReflection, Strategy, SuggestedAction
from replan.core.tools.versions import Versions
from replan.core.types import (
    ActionId,
    Artifact,
    CallKey,
    Effect,
    Evaluation,
    Failure,
    Fault,
    Frozen,
    JsonObject,
    Plan,
    Step,
    StepId,
    ToolId,
    Usage,
)
from replan.errors import InputError


class Event(Frozen):
    """One recorded fact about a task."""

    stored: ClassVar[bool] = True
    """False: for watchers only."""
    signal: ClassVar[bool] = False
    """True: may be written by anyone, without holding the task."""
    masked: bool = Field(default=False, exclude_if=lambda value: not value)
    """A secret was cut out of it, which only the process that recorded it knows."""


class TaskSubmitted(Event):
    type: Literal["task_submitted"] = "task_submitted"
    description: str
    metadata: JsonObject = {}
    context: JsonObject = {}
    policy: Policy = Policy()
    plan: JsonObject | None = None
    """A plan given by the caller: the planner is not asked."""
    tools: tuple[str, ...] = ()
    """Where the tools come from, for a process that takes the task up later."""
    settings: JsonObject = {}
    """What else that process needs to go on (the model's name, say). No secrets."""
    secrets: dict[str, str] = Field(default={}, exclude_if=lambda value: not value)
    """Where the secret values of the metadata come from (`env:VAR`, `file:PATH`; empty: from the caller alone)."""
    tenant: str = Field(default="", pattern=f"^({TENANT})?$", exclude_if=lambda value: not value)
    """Whose task it is, in a service; empty: of the command and the library."""
    by: str = Field(default="", exclude_if=lambda value: not value)
    """Who has submitted it, in a service."""
    workflow: UsedWorkflow | None = Field(default=None, exclude_if=lambda value: value is None)
    """What the plan that is given was built from."""
    asked: dict[str, int | float | None] = Field(default={}, exclude_if=lambda value: not value)
    """Of the budget, what was asked for where its tenant may use less."""

    @property
    def session(self) -> str:
        """`context.session_id`, where it is one that tasks can be found by."""
        given = self.context.get("session_id")
        return given if isinstance(given, str) and is_session(given) else ""

    def request(self) -> str:
        """What was asked, in one digest: the same in whatever order its names come, and wherever it is run from."""
        asked = {**self.__dict__, "policy": self.policy.model_dump(mode="json")}
        asked["policy"]["budget"].update(self.asked)  # whatever the tenant may use then
        for name in ("settings", "tools", "secrets", "masked", "by", "workflow", "asked"):
            del asked[name]
        if (used := self.workflow) is not None:  # the same request, also once the workflow was edited
            asked["plan"] = {"workflow": used.workflow_id, "slots": used.slots}
            asked["description"] = "" if used.described else self.description
        if not self.tenant:  # as it was before there were any
            del asked["tenant"]
        return digest(canonical(asked))


class PreviousTasksRead(Event):
    """What the task knows of the tasks that it follows, as they were when it was begun."""

    type: Literal["previous_tasks_read"] = "previous_tasks_read"
    tasks: tuple[PreviousTask, ...]
    """The one that it was told to follow first, then those of its session, the latest first."""
    more: int = 0
    """Of how many more of the session nothing is said."""
    at_least: bool = False
    """There may be more than that."""


class TaskForked(Event):
    """Up to here the history is that of another task, shared with it; from here on it is the task's own.

    What is given goes on otherwise: by another policy, with other tools and models, by another plan, with a hint.
    """

    type: Literal["task_forked"] = "task_forked"
    origin: str
    """The task that it was forked from."""
    at: int
    """The last event of it that is shared."""
    root: str
    """The task that the first of their line was: the keys of calls are made of its id, so that each is known in all of them."""
    by: str = ""
    reason: str = ""
    hint: str = ""
    """For the next reflection or plan."""
    policy: Policy | None = None
    plan: JsonObject | None = None
    """A plan given by the caller, in place of the one that there is."""
    tools: tuple[str, ...] | None = None
    settings: JsonObject | None = None
    retry: tuple[StepId, ...] = ()
    """Failed steps that are due again."""
    judge: bool = False
    """What was done is judged anew."""
    since: tuple[str, ...] = ()
    """Effects that the other task had had by then after that event, in words: for whoever plans on."""

    def request(self) -> str:
        """What was asked, in one digest."""
        return digest(
            canonical(self.model_dump(mode="json", exclude={"settings", "tools", "since", "masked"}))
        )

    def check_place(self, last: int, *, ended: bool) -> None:
        """`InputError` unless there is such an event of the other task, which has so many, to go on from."""
        most = last - 1 if ended else last
        if not 1 <= self.at <= most:
            end = f" (number {last} is its end)" if ended else ""
            raise InputError(
                f"task {self.origin!r} has the events 1 to {most} to fork from, not {self.at}{end}"
            )


class ForkMade(Event):
    """Another task goes on from an event of this one."""

    signal: ClassVar[bool] = True
    type: Literal["fork_made"] = "fork_made"
    fork: str
    at: int
    by: str = ""
    reason: str = ""


class TaskStarted(Event):
    type: Literal["task_started"] = "task_started"
    driver: str = ""
    version: str = ""
    """Of Replan, that it is driven with."""
    instead: JsonObject = {}
    """What it is driven with in place of what the log said (`core.begun`)."""


class TaskResumed(Event):
    type: Literal["task_resumed"] = "task_resumed"
    driver: str = ""
    version: str = ""
    instead: JsonObject = {}
    reason: str = ""
    status: str = ""
    """What the task is at."""
    beside: bool = False
    """It may be what ends the process, and goes on beside another of which that is so."""


class TaskLeft(Event):
    """Whoever drove it has let go of it in good order, between two calls or in the middle of one, as the process was to end."""

    type: Literal["task_left"] = "task_left"
    driver: str = ""
    optional: Literal[True] = True
    """A release that does not know of it goes on with the task."""


class RoundStarted(Event):
    type: Literal["round_started"] = "round_started"
    round: int


class LlmCallStarted(Event):
    type: Literal["llm_call_started"] = "llm_call_started"
    call_id: str
    role: str
    model: str
    schema_name: str
    prompt: str
    """The prompt's name."""
    prompt_hash: str = ""
    attempt: int = 1
    text: str = ""
    """The whole request as sent, for developers."""
    tokens: int | None = None
    """About how many are asked."""


class LlmToken(Event):
    stored: ClassVar[bool] = False
    type: Literal["llm_token"] = "llm_token"
    call_id: str
    role: str
    text: str


class LlmCallCompleted(Event):
    type: Literal["llm_call_completed"] = "llm_call_completed"
    call_id: str
    role: str
    model: str
    usage: Usage = Usage()
    """`llm_calls`: the requests that were made for it."""
    duration_secs: float = 0.0
    text: str = ""
    error: str | None = None
    endpoint: str = ""
    """Which endpoint answered, where it is not the one that was asked first."""


class SelectedTool(Frozen):
    tool_id: ToolId
    score: float = 100.0
    reason: str = ""


class ToolSelectionCompleted(Event):
    type: Literal["tool_selection_completed"] = "tool_selection_completed"
    phase: Literal["tool_selection", "replanning_tool_selection"] = "tool_selection"
    tools: tuple[SelectedTool, ...]
    task_type: str = "default"
    workflow_id: str | None = None
    reasoning: str = ""
    dropped: tuple[str, ...] = ()
    """Ids that were named but do not exist, or scored too low."""
    asked: bool = True
    """False: all were taken, as there were few enough, or as no selection could be used."""
    changes_summary: str = ""
    scene: Scene | None = Field(default=None, exclude_if=lambda value: value is None)
    """The guidance that the task goes by from here on, whatever becomes of its file."""
    workflow: Workflow | None = Field(default=None, exclude_if=lambda value: value is None)
    """The one that is to be filled in place of planning, as it is now."""


class PlanGenerated(Event):
    type: Literal["plan_generated"] = "plan_generated"
    plan: Plan
    task_type: str = "default"
    workflow_id: str | None = None
    corrections: int = 0
    notes: tuple[str, ...] = ()
    made_with: Versions | None = None
    scene: Scene | None = Field(default=None, exclude_if=lambda value: value is None)
    """The guidance that the task goes by from here on, where the planner has said of which kind it is."""
    workflow: UsedWorkflow | None = Field(default=None, exclude_if=lambda value: value is None)
    """What the plan was built from, in place of being made by a model."""


class PlanRejected(Event):
    type: Literal["plan_rejected"] = "plan_rejected"
    violations: tuple[str, ...]
    attempt: int = 1


class PlanUpdated(Event):
    """A plan made anew after a round: what is kept of it, what is new, and what begins again."""

    type: Literal["plan_updated"] = "plan_updated"
    plan: Plan
    strategy: str = ""
    reason: str = ""
    diff: PlanDiff = PlanDiff()
    reset: tuple[StepId, ...] = ()
    """Steps that had failed, or were left out because another had, and are due again."""
    task_type: str = ""
    corrections: int = 0
    made_with: Versions | None = None


class ToolChange(Frozen):
    """What is otherwise about a tool."""

    tool_id: ToolId
    what: tuple[str, ...]
    """The fields of its version that differ; `gone`: it is not there any more."""


class VersionsChanged(Event):
    """The task goes on with another Replan, or with other tools, than it was planned with."""

    type: Literal["versions_changed"] = "versions_changed"
    before: str = ""
    """The version of Replan until now."""
    made_with: Versions
    """What it goes on with."""
    tools: tuple[ToolChange, ...] = ()
    unfit: dict[StepId, Fault] = {}
    """Steps that are yet to run, and that no longer fit the tools."""
    held: dict[ToolId, JsonObject] = {}
    """What of a tool stays as strict as it was, for this task."""
    optional: bool = False
    """Nothing follows from it: a release that does not know of it may go on with the task."""


class ExecutionMode(Event):
    """How the plan is run from here on, and why."""

    type: Literal["execution_mode"] = "execution_mode"
    mode: Literal["parallel", "serial"]
    reason: str
    beside: bool = False
    """The task may be what ends the process, and another of which that is so goes on beside it."""


class StepReady(Event):
    """Everything it needs is done, and it waits for a free place."""

    type: Literal["step_ready"] = "step_ready"
    step_id: StepId


class StepStarted(Event):
    type: Literal["step_started"] = "step_started"
    step_id: StepId
    items: int | None = None
    """How many times a `for_each` step runs."""


class _OfCall(Event):
    call_key: CallKey
    step_id: StepId
    action_id: ActionId | None = None
    index: int | None = None
    attempt: int = 1
    tool_id: ToolId


class CallStarted(_OfCall):
    type: Literal["call_started"] = "call_started"
    effect: Effect
    parameters: JsonObject
    keys_in: str = Field(default="", exclude_if=lambda value: not value)
    """The memory in which its key is kept, as its tool's service has named it; empty: none that was relied on."""


class CallCompleted(_OfCall):
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
    duration_secs: float = 0.0


class CallFailed(_OfCall):
    type: Literal["call_failed"] = "call_failed"
    error: Fault
    retry_in_secs: float | None = None
    """None: no further try of this call by code."""


class WaitStarted(_OfCall):
    """A call that waits has begun to: for a time, for a condition, or for somebody outside."""

    type: Literal["wait_started"] = "wait_started"
    kind: Literal["time", "condition", "callback"]
    until: float | None = None
    """Unix seconds: when it is over by itself. None: it takes as long as it takes."""
    token: str = ""
    """Of the callback that it waits for."""


class CallbackReceived(Event):
    """Somebody outside has used a callback. The first word counts."""

    signal: ClassVar[bool] = True
    type: Literal["callback_received"] = "callback_received"
    token: str
    data: Any = None
    by: str = ""


class OutcomeUnknown(_OfCall):
    type: Literal["outcome_unknown"] = "outcome_unknown"
    reason: str
    of_try: str = ""
    """Of which try of another task, where it is that task's."""


class OutcomeSettled(_OfCall):
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


class StepProgress(Event):
    stored: ClassVar[bool] = False
    type: Literal["step_progress"] = "step_progress"
    step_id: StepId
    message: str = ""
    progress: float | None = None
    total: float | None = None


class ProgressUpdate(Event):
    stored: ClassVar[bool] = False
    type: Literal["progress_update"] = "progress_update"
    message: str


class StepCompleted(Event):
    type: Literal["step_completed"] = "step_completed"
    step_id: StepId
    metadata: JsonObject = {}
    """What its tool's `output_params` add to the task's metadata."""
    failed_items: tuple[int, ...] = ()
    """Items that its output is without (`allow_failed_items`), counted from 0 as `index` is."""


class StepFailed(Event):
    type: Literal["step_failed"] = "step_failed"
    step_id: StepId
    error: Fault


class StepSkipped(Event):
    """A step that does not run: its condition, what it depends on, the end of the task, or a later plan that leaves it out."""

    type: Literal["step_skipped"] = "step_skipped"
    step_id: StepId
    kind: Literal["condition", "dependency_failed", "dependency_skipped", "ended", "left_out"]
    reason: str
    because: StepId | None = None


class StepReflected(Event):
    """Why a call of a step failed, what the model proposed, and what code has decided."""

    type: Literal["step_reflected"] = "step_reflected"
    step_id: StepId
    action_id: ActionId | None = None
    index: int | None = None
    tool_id: ToolId = ""
    """The tool that failed."""
    parameters: JsonObject = {}
    """What it was called with, as it may be seen."""
    base: str = ""
    """What was called with what (`ids.call_base`), also where no call could be made."""
    call_key: CallKey | None = None
    """None: no call was made."""
    error: Fault
    signature: str = ""
    fresh: bool = True
    """False: it is about a failure that was reflected on before, as after a reading."""
    first_proposal: StepReflection | None = None
    """The model's first answer, where it was sent back."""
    proposal: StepReflection | None = None
    """The model's last answer; None: it was not asked, or could not be understood."""
    violations: tuple[str, ...] = ()
    """What was wrong with the first answer."""
    action: SuggestedAction
    """What is done."""
    by: Literal["model", "code"] = "model"
    """Whose choice that is."""
    reason: str = ""
    """Why code chose."""

    @property
    def slot(self) -> Slot:
        return slot_of(self.action_id, self.index)


class StepRepaired(Event):
    """One step written anew, all others untouched: a new version of the plan."""

    type: Literal["step_repaired"] = "step_repaired"
    step: Step
    plan_version: int
    hint: str = ""
    diff: PlanDiff = PlanDiff()
    made_with: Versions | None = None
    """The tools of the step."""

    @property
    def step_id(self) -> StepId:
        return self.step.step_id


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


class QuestionAsked(Event):
    """Something that only a person can say.

    `outcome`: did a call take effect; `intervention`: what is needed for the task to go on.
    """

    type: Literal["question_asked"] = "question_asked"
    question_id: str
    kind: Literal["outcome", "intervention"]
    text: str
    """The question, alone."""
    background: str = ""
    """How it came to it, and what is advised."""
    call_key: CallKey | None = None
    step_id: StepId | None = None


class QuestionAnswered(Event):
    signal: ClassVar[bool] = True
    type: Literal["question_answered"] = "question_answered"
    question_id: str
    answer: str = ""
    happened: bool | None = None
    """For a question about an outcome."""
    output: Any = None
    by: str = ""


class TaskWaiting(Event):
    """Nothing goes on without a person, somebody outside, or some time; nobody drives the task meanwhile."""

    type: Literal["task_waiting"] = "task_waiting"
    reason: str
    approvals: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    until_resumed: bool = False
    """There is nothing to answer: what the reason says is to be put right, and the task resumed."""
    because: Literal["key", "model", "process"] = "key"
    """Of such a one, and left out of every other: the model refuses its key, or cannot be reached; or the process that drives it
    has ended each time. `key` is said of `secrets`, too."""
    secrets: tuple[str, ...] = ()
    """Names of what was given with the request and no log keeps: whoever resumes the task gives it again."""
    until: float | None = None
    """Unix seconds: then it goes on by itself."""
    callbacks: tuple[str, ...] = ()
    """Tokens that somebody outside may use."""
    paused: bool = False
    """A person has paused it, and has to say that it may go on."""
    driven: bool | None = None
    """Of a pause: whether somebody drove the task until then. None: an older release, which has not said."""

    @property
    def waits_for(self) -> tuple[str, ...]:
        """What would let it go on: each of `WAITS_FOR` that holds."""
        if self.until_resumed:
            return (self.because,)
        said = {
            "pause": self.paused,
            "person": self.approvals or self.questions,
            "callback": self.callbacks,
            "time": self.until is not None,
        }
        return tuple(kind for kind, holds in said.items() if holds)

    @model_serializer(mode="wrap")
    def _said(self, fields: SerializerFunctionWrapHandler) -> JsonObject:
        said: JsonObject = fields(self)
        if not self.until_resumed:
            said.pop("because", None)
        if not self.secrets:
            said.pop("secrets", None)
        return said

    @property
    def by_itself(self) -> float | None:
        """When it goes on by itself; None where a person is asked for something first, or nothing is due."""
        return None if self.approvals or self.questions else self.until


class EvaluationCompleted(Event):
    type: Literal["evaluation_completed"] = "evaluation_completed"
    evaluation: Evaluation | None
    """None: could not be judged."""
    artifact: Artifact | None = None
    """Holds the final output, where that is large."""
    reason: str = ""
    by: Literal["model", "steps"] = "model"


class OverallReflectionTriggered(Event):
    """No step is started any more; what runs is let finish, and then the round is reflected upon.

    With `replan` set, that reflection is left out: the plan is made anew with this advice.
    """

    type: Literal["overall_reflection_triggered"] = "overall_reflection_triggered"
    step_id: StepId | None = None
    reason: str = ""
    replan: bool = False
    advice: str = ""


class ReflectionCompleted(Event):
    """The diagnosis of a round, and whether there will be another one."""

    type: Literal["reflection_completed"] = "reflection_completed"
    reflection: OverallReflection | None
    """As it is acted on; None: the reflector failed."""
    first_proposal: OverallReflection | None = None
    """The model's first answer, where it was sent back."""
    proposal: OverallReflection | None = None
    """The model's last answer, where code decided otherwise."""
    violations: tuple[str, ...] = ()
    by: Literal["model", "code"] = "model"
    reason: str = ""
    """Why code decided, or why there is no reflection."""


class ReplanningStarted(Event):
    """The plan is made anew in this way. Recorded again with another strategy where one was refused."""

    type: Literal["replanning_started"] = "replanning_started"
    strategy: Strategy
    reason: str = ""
    guidance: JsonObject = {}
    refused: Strategy | None = None
    why_refused: str = ""
    continues: bool = False
    """Nothing was wrong: the plan was a first part, and the next is planned."""


class PlanningStopped(Event):
    """There is no plan, or none anew: the planner says why, or what a person has to say first, or it had none that will do."""

    type: Literal["planning_stopped"] = "planning_stopped"
    kind: Literal["cannot", "question", "planning", "repeats", "model"]
    """It cannot be done; a question comes first; no plan passed the checks; all were tried before; no planner."""
    reason: str
    violations: tuple[str, ...] = ()


class RoundCompleted(Event):
    type: Literal["round_completed"] = "round_completed"
    round: int


class BudgetWarning(Event):
    type: Literal["budget_warning"] = "budget_warning"
    limit: str
    used: float
    allowed: float


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


class TaskCompleted(Event):
    type: Literal["task_completed"] = "task_completed"
    final_output: Any = None
    artifact: Artifact | None = None
    score: float | None = None
    shortfall: tuple[str, ...] = ()
    """What is missing of a task that is done in substance."""


class TaskFailed(Event):
    type: Literal["task_failed"] = "task_failed"
    failure: Failure
    final_output: Any = None
    artifact: Artifact | None = None
    score: float | None = None


class TaskCancelled(Event):
    type: Literal["task_cancelled"] = "task_cancelled"
    failure: Failure


class TaskTimedOut(Event):
    type: Literal["task_timed_out"] = "task_timed_out"
    failure: Failure


class UnknownEvent(Event):
    """A kind that this release does not know: kept, shown, and without effect on the state."""

    if TYPE_CHECKING:
        type: Literal["unknown"]  # so that a comparison with a known kind narrows `AnyEvent` to that kind
    else:
        type: str
    data: JsonObject = {}


KnownEvent: TypeAlias = (
    TaskSubmitted
    | PreviousTasksRead
    | TaskForked
    | ForkMade
    | TaskStarted
    | TaskResumed
    | TaskLeft
    | RoundStarted
    | LlmCallStarted
    | LlmToken
    | LlmCallCompleted
    | ToolSelectionCompleted
    | PlanGenerated
    | PlanRejected
    | PlanUpdated
    | VersionsChanged
    | ExecutionMode
    | StepReady
    | StepStarted
    | CallStarted
    | CallCompleted
    | CallFailed
    | WaitStarted
    | CallbackReceived
    | OutcomeUnknown
    | OutcomeSettled
    | StepProgress
    | ProgressUpdate
    | StepCompleted
    | StepFailed
    | StepSkipped
    | StepReflected
    | StepRepaired
    | ApprovalRequested
    | ApprovalResolved
    | QuestionAsked
    | QuestionAnswered
    | TaskWaiting
    | EvaluationCompleted
    | OverallReflectionTriggered
    | ReflectionCompleted
    | ReplanningStarted
    | PlanningStopped
    | RoundCompleted
    | BudgetWarning
    | CancelRequested
    | PauseRequested
    | ResumeRequested
    | HintGiven
    | RetryRequested
    | JudgementRequested
    | RequestTaken
    | TaskCompleted
    | TaskFailed
    | TaskCancelled
    | TaskTimedOut
)
AnyEvent: TypeAlias = KnownEvent | UnknownEvent
TERMINAL = (TaskCompleted, TaskFailed, TaskCancelled, TaskTimedOut)

KINDS: dict[str, type[Event]] = {kind.model_fields["type"].default: kind for kind in get_args(KnownEvent)}
_TOLD = (
    LlmCallStarted,
    LlmToken,
    LlmCallCompleted,
    ExecutionMode,
    TaskLeft,
    PlanRejected,
    StepProgress,
    ProgressUpdate,
    BudgetWarning,
)
"""Kinds of which a task may lose one and still be what it is."""


class Record(NamedTuple):
    """An event in its place in the log."""

    seq: int
    task_id: str
    ts: float
    """Unix seconds."""
    round: int
    event: AnyEvent

    @property
    def type(self) -> str:
        return self.event.type

    def wire(self) -> JsonObject:
        """The form that programs see: `{seq, task_id, ts, round, type, data}`."""
        return {
            "seq": self.seq,
            "task_id": self.task_id,
            "ts": self.ts,
            "round": self.round,
            "type": self.event.type,
            "data": data_of(self.event),
        }


def misread(event: AnyEvent) -> bool:
    """True for an event that cannot be read here, and without which the task would be another one.

    A newer release has written it, or it is damaged: a payment that was begun would be forgotten. A kind of which that
    cannot happen says so in its data: `"optional": true`.
    """
    if not isinstance(event, UnknownEvent):
        return False
    if event.type in KINDS:
        return KINDS[event.type] not in _TOLD
    return event.data.get("optional") is not True


def data_of(event: AnyEvent) -> JsonObject:
    """The `data` of an event as plain JSON values."""
    if isinstance(event, UnknownEvent):
        return event.data
    return event.model_dump(mode="json", exclude={"type"})


def dump(event: AnyEvent) -> str:
    """The `data` of an event as JSON text."""
    if isinstance(event, UnknownEvent):
        import json

        return json.dumps(event.data, ensure_ascii=False)
    return to_json(_fields(event), inf_nan_mode="null").decode()


_LEFT_OUT: Mapping[type, tuple[str, ...]] = {
    TaskSubmitted: ("secrets", "tenant", "by", "workflow", "asked"),
    ToolSelectionCompleted: ("scene", "workflow"),
    PlanGenerated: ("scene", "workflow"),
    CallStarted: ("keys_in",),
}
"""Fields that are not stored where there is nothing in them."""


def _fields(event: AnyEvent) -> JsonObject:
    fields = dict(event.__dict__)  # not the model: the same text in a third of the time
    del fields["type"]
    if not fields["masked"]:
        del fields["masked"]
    if not fields.get("files", True):
        del fields["files"]
    for name in _LEFT_OUT.get(type(event), ()):
        if not fields[name]:
            del fields[name]
    if isinstance(event, TaskWaiting):
        if not event.until_resumed:
            del fields["because"]
        if not event.secrets:
            del fields["secrets"]
    return fields


def dump_together(events: Sequence[AnyEvent]) -> str:
    """Several events of known kinds as one JSON text: a list of `[type, data]`."""
    return to_json([(event.type, _fields(event)) for event in events], inf_nan_mode="null").decode()


def dump_pair(event: AnyEvent) -> str:
    """One of them."""
    return to_json((event.type, _fields(event)), inf_nan_mode="null").decode()


def split_together(text: str | bytes) -> list[tuple[str, JsonObject]]:
    """The kinds and the `data` of events that were dumped together; `read` makes an event of each."""
    pairs: list[tuple[str, JsonObject]] = from_json(text)
    return pairs


def load(kind: str, data: str | bytes) -> AnyEvent:
    """An event from its stored kind and JSON text; what cannot be read as that kind is kept as unknown."""
    known = KINDS.get(kind)
    if known is not None:
        try:
            return known.model_validate_json(data)  # type: ignore[return-value]
        except ValidationError:
            pass
    import json

    found = json.loads(data)
    return UnknownEvent(type=cast("Any", kind), data=found if isinstance(found, dict) else {"value": found})


def read(kind: str, data: JsonObject) -> AnyEvent:
    """The same, where the JSON text is read already."""
    known = KINDS.get(kind)
    if known is not None:
        try:
            return known.model_validate(data)  # type: ignore[return-value]
        except ValidationError:
            pass
    return UnknownEvent(type=cast("Any", kind), data=data)
