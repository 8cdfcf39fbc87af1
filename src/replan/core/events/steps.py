"""Steps of a plan, from their turn to their end, and their recovery."""

from __future__ import annotations

from typing import ClassVar, Literal

from replan.core.calls.site import Slot, slot_of
from replan.core.events.event import Event
from replan.core.plan.diff import PlanDiff
from replan.core.reflection import StepReflection, SuggestedAction
from replan.core.tools.versions import Versions
from replan.core.types import ActionId, CallKey, Fault, JsonObject, Step, StepId, ToolId


class StepReady(Event):
    """Everything it needs is done, and it waits for a free place."""

    type: Literal["step_ready"] = "step_ready"
    step_id: StepId


class StepStarted(Event):
    type: Literal["step_started"] = "step_started"
    step_id: StepId
    items: int | None = None
    """How many times a `for_each` step runs."""


class StepProgress(Event):
    stored: ClassVar[bool] = False
    type: Literal["step_progress"] = "step_progress"
    step_id: StepId
    message: str = ""
    progress: float | None = None
    total: float | None = None


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
