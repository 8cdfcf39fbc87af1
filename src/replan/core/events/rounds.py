"""A round: begun, evaluated, reflected on."""

from __future__ import annotations

from typing import Literal

from replan.core.events.event import Event
from replan.core.reflection import OverallReflection
from replan.core.types import Artifact, Evaluation, StepId


class RoundStarted(Event):
    type: Literal["round_started"] = "round_started"
    round: int


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


class RoundCompleted(Event):
    type: Literal["round_completed"] = "round_completed"
    round: int
