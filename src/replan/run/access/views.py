"""What front ends show, the same in every one of them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from replan.core.limits.outlook import Outlook
from replan.core.plan.diff import PlanChanges
from replan.core.report.result import StepResult, WaitingFor
from replan.core.types import Usage


class View(BaseModel):
    model_config = ConfigDict(frozen=True)


T = TypeVar("T")


class Page(View, Generic[T]):
    items: list[T]
    next_cursor: str | None = None
    """Give it as `cursor` for what comes after these; null: that was all."""


class Submitted(View):
    task_id: str
    status: str
    new: bool = True
    """False: the same request was here before."""


class TaskRow(View):
    """A task in the list."""

    task_id: str
    status: str
    description: str
    created: float
    """Unix seconds."""
    updated: float
    last_seq: int
    session_id: str | None = None
    tenant: str | None = None
    """Shown to whoever sees those of all."""
    queue: str | None = None


class TaskView(View):
    """How a task stands."""

    task_id: str
    status: str
    description: str
    created: float
    updated: float
    last_seq: int
    """Of its last event: `?after=` goes on from there."""
    current_round: int
    current_step: str | None
    """The step that runs, the first of them where several do."""
    total_steps: int
    done_steps: int
    progress: float
    """Of the steps of the present plan, how many have succeeded: 0 to 1; 1 once the task has."""
    plan_version: int
    usage: Usage
    waiting_for: tuple[WaitingFor, ...] = ()
    session_id: str | None = None
    tenant: str | None = None


class StepView(View):
    """A step with everything that is known of it."""

    step: StepResult
    planned: dict[str, Any]
    """As the plan has it."""
    depends_on: tuple[str, ...]
    output_size: int | None = None
    """Bytes of its output, where that is kept apart: read it with `…/output?offset=`."""
    media_type: str | None = None
    """Of an output that is a file."""
    reflections: tuple[dict[str, Any], ...] = ()


class PlanView(View):
    version: int
    round: int
    seq: int
    """The event that brought it."""
    reason: str = ""
    plan: dict[str, Any]
    critical_path: tuple[str, ...] = ()
    """The steps that decide how long it takes, by what their tools have taken so far."""
    changes: PlanChanges = PlanChanges()
    """From the plan before this one, step by step."""


class OutputPiece(View):
    """A piece of an output: of its JSON, or of a file of text. A file of other bytes is read as an artifact."""

    offset: int
    """Bytes, as in `total`."""
    total: int
    text: str
    next_offset: int | None = None
    """Give it as `offset` for what comes after this; null: that was all."""
    media_type: str = "application/json"
    artifact_id: str | None = None
    """Where all of it lies, if it is kept apart: `…/artifacts/{artifact_id}` gives it as it is."""


class ReviewView(View):
    """A plan that waits for a person's yes."""

    version: int
    """In the list of the task's plans."""
    plan: dict[str, Any]
    outlook: Outlook
    """What it would do, counted and estimated."""
    changes: PlanChanges
    """From the plan before it."""
    problems: tuple[str, ...] = ()
    """What is wrong with the plan that was given in its place last, and could not be carried out."""


class WaitingTask(View):
    """What a task waits for from people."""

    task_id: str
    description: str
    since: float
    waiting_for: WaitingFor
    hash: str | None = None
    """Of the call, or the plan, that is to be agreed to: a yes has to give it."""
    expires: float | None = None
    """Unix seconds; null: it can be answered as long as the task waits."""
    sources: dict[str, list[str]] = {}
    """Where the values of that call come from, by parameter: the references in the plan; none for what the plan itself says."""
    review: ReviewView | None = None
    """The plan that is to be agreed to."""


class Preview(Outlook):
    """What a task would do, planned and checked; nothing is stored or run."""

    plan: dict[str, Any]
    usage: Usage = Usage()
    """What this preview itself has cost."""


class ToolStatsView(View):
    tool_id: str
    source: str
    calls: int
    success_rate: float | None
    p50_secs: float | None
    p95_secs: float | None
    common_errors: tuple[tuple[str, int], ...] = ()


class ToolView(View):
    id: str
    description: str
    effect: str
    source: str
    parameters: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    requires_approval: bool = False
    stats: ToolStatsView | None = Field(default=None, exclude_if=lambda value: value is None)
    """How it has done so far, where that was asked for."""


class WorkflowView(View):
    """A plan that is written beforehand."""

    id: str
    description: str
    slots: dict[str, dict[str, Any]]
    """JSON Schemas by name."""
    required: tuple[str, ...] = ()
    """Slots that have to be filled."""
    steps: int
    tools: tuple[str, ...]
    lacking: tuple[str, ...] = ()
    """Tools that it calls and that are not here."""
    task_type: str = "default"
    built_in: bool = False
    digest: str = ""


class SceneView(View):
    """A kind of task for which there is guidance; the guidance itself is for the models."""

    task_type: str
    description: str
    guides: tuple[str, ...]
    """The roles to which it says something."""
    digest: str = ""


class Health(View):
    status: str = "healthy"
    timestamp: str


class Dependency(View):
    name: str
    ready: bool
    detail: str = ""


class Ready(View):
    ready: bool
    dependencies: tuple[Dependency, ...]
