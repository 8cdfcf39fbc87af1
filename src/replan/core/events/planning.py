"""Tools chosen; plans made, refused, made anew."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from replan.core.events.event import Event
from replan.core.kinds.scene import Scene
from replan.core.kinds.workflow import UsedWorkflow, Workflow
from replan.core.plan.diff import PlanDiff
from replan.core.reflection import Strategy
from replan.core.tools.versions import Versions
from replan.core.types import Frozen, JsonObject, Plan, StepId, ToolId


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
    review_id: str = Field(default="", exclude_if=lambda value: not value)
    """The review in which a person has given this plan in place of another."""
    by: str = Field(default="", exclude_if=lambda value: not value)
    """Who that was."""


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
