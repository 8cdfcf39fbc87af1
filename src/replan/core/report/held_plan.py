"""A plan that waits for a person's yes, as a person looks at it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from replan.core.limits.outlook import Outlook
from replan.core.plan.diff import PlanChanges
from replan.core.types import Plan


class HeldPlan(BaseModel):
    """What it would do, and what it changes."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    review_id: str
    plan: Plan
    outlook: Outlook
    """Counted and estimated."""
    changes: PlanChanges
    """From the plan before it, step by step."""
    problems: tuple[str, ...] = ()
    """What is wrong with the plan that was given in its place last, and could not be carried out."""
    expires: float | None = None
    """Unix seconds: nobody is waited for any longer. None: as long as it takes."""
