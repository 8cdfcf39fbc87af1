"""The task as a whole: submitted, driven, waiting, warned, ended."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from replan.core.events.event import Event
from replan.core.following.told import PreviousTask
from replan.core.ids import TENANT, canonical, digest, is_session
from replan.core.kinds.workflow import UsedWorkflow
from replan.core.limits.policy import Policy
from replan.core.tools.versions import Versions
from replan.core.types import Artifact, Failure, Fault, Frozen, JsonObject, StepId, ToolId


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


class ProgressUpdate(Event):
    stored: ClassVar[bool] = False
    type: Literal["progress_update"] = "progress_update"
    message: str


class TaskWaiting(Event):
    """Nothing goes on without a person, somebody outside, or some time; nobody drives the task meanwhile."""

    type: Literal["task_waiting"] = "task_waiting"
    reason: str
    approvals: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    reviews: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Of a plan that a person has to agree to."""
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
            "person": self.approvals or self.questions or self.reviews,
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
        return None if self.approvals or self.questions or self.reviews else self.until


class BudgetWarning(Event):
    type: Literal["budget_warning"] = "budget_warning"
    limit: str
    used: float
    allowed: float


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


TERMINAL = (TaskCompleted, TaskFailed, TaskCancelled, TaskTimedOut)
