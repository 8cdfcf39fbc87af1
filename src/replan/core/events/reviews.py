"""Plans that wait for a person before any step of them starts, and what was said about them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from replan.core.events.event import Event
from replan.core.limits.outlook import Outlook
from replan.core.types import JsonObject


class PlanReviewRequested(Event):
    """No step of this plan starts before a person has agreed to it. The plan itself stands in the event that has brought it."""

    type: Literal["plan_review_requested"] = "plan_review_requested"
    review_id: str
    plan_version: int
    outlook: Outlook = Outlook()
    """What it would do, as far as that is known before."""
    expires: float | None = Field(default=None, exclude_if=lambda value: value is None)
    """Unix seconds: nobody is waited for any longer. None: as long as it takes."""
    problems: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """What is wrong with the plan that a person has given in place of this one, where that is driven: this one is asked about once more."""


class PlanReviewed(Event):
    """The first answer counts."""

    signal: ClassVar[bool] = True
    type: Literal["plan_reviewed"] = "plan_reviewed"
    review_id: str
    approved: bool
    reason: str = ""
    plan: JsonObject | None = None
    """What is to be carried out in place of the plan that was shown, whole. It has passed every check; None: the plan as shown."""
    by: str = ""


class PlanReviewExpired(Event):
    """Nobody has answered in time, which is no answer."""

    type: Literal["plan_review_expired"] = "plan_review_expired"
    review_id: str
