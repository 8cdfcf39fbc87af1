"""What people say to a plan that waits: the first answer counts, and a plan that is given in its place has passed every check before."""

from __future__ import annotations

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.data.strict_json import storable
from replan.core.events import PlanGenerated, PlanReviewed, PlanReviewRequested, PlanUpdated
from replan.core.plan.diff import changes_of
from replan.core.report.held_plan import HeldPlan
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.core.types import JsonObject
from replan.errors import AnsweredBefore, InputError, NoSuchPart, PlanInvalid
from replan.run.reviews.edited import edited
from replan.run.service.people.answering import check_goes_on
from replan.run.service.preview import unstored
from replan.run.service.submission import json_size
from replan.run.session.dependencies import Parts
from replan.run.session.pages import folded
from replan.run.session.said import say_first


async def review(
    parts: Parts,
    task_id: str,
    which: str | int | None = None,
    *,
    approved: bool,
    reason: str = "",
    plan: JsonObject | None = None,
    by: str = "",
) -> PlanReviewRequested:
    """Agree to the plan that waits, or not; with `plan`, to that one in its place. `which`: the request, or the version of the plan.

    `PlanInvalid` with all that is wrong with the plan that is given, of which nothing is kept then.
    """
    state = await folded(parts.store, task_id)
    asked = open_review(state, which)
    if plan is not None and not approved:
        raise InputError(
            "another plan is given with a yes: it is carried out in place of the one that is shown"
        )
    json_size("plan", plan)
    event = PlanReviewed(
        review_id=asked.review_id, approved=approved, reason=storable(reason), plan=plan, by=storable(by)
    )
    if plan is not None:
        await _check(parts, state, plan)
    await say_first(parts, state, event, lambda state: open_review(state, asked.review_id))
    return asked


async def held_plan(parts: Parts, task_id: str, which: str | int | None = None) -> HeldPlan:
    """The plan that waits, as it may be shown."""
    records = await parts.store.read(task_id)
    state = await beside(fold, records) if len(records) > MANY else fold(records)
    asked = open_review(state, which)
    plans = [one.event.plan for one in records if isinstance(one.event, PlanGenerated | PlanUpdated)]
    before = plans[-2] if len(plans) > 1 else None
    changes = (
        await beside(changes_of, before, plans[-1])
        if len(plans[-1].steps) > MANY
        else changes_of(before, plans[-1])
    )
    return HeldPlan(
        task_id=task_id, review_id=asked.review_id, plan=plans[-1], outlook=asked.outlook, changes=changes,
        problems=asked.problems, expires=asked.expires,
    )  # fmt: skip


async def _check(parts: Parts, state: State, plan: JsonObject) -> None:
    run = unstored(parts, state)
    large = len(plan.get("steps") or ()) > MANY
    await parts.kinds.current()
    found = await beside(edited, run, plan) if large else edited(run, plan)
    if found.violations:
        raise PlanInvalid(found.violations)


def open_review(state: State, which: str | int | None = None) -> PlanReviewRequested:
    """The plan that waits for its answer; an error says why there is none."""
    check_goes_on(state)
    asked = state.open_review()
    reviews = state.reviews
    if asked is not None and which in (None, asked.review_id, asked.plan_version):
        return asked
    last = reviews.asked if reviews is not None else None
    if (
        reviews is not None
        and last is not None
        and asked is None
        and which in (None, last.review_id, last.plan_version)
    ):
        if reviews.said is not None:
            how = "agreed to" if reviews.said.approved else "rejected"
            raise AnsweredBefore(
                f"plan {last.plan_version} was {how} before by {reviews.said.by or 'somebody'}"
            )
        raise AnsweredBefore(f"plan {last.plan_version} is not asked about any more: it took too long")
    waits = f"plan {asked.plan_version} does ({asked.review_id})" if asked is not None else "none does"
    named = (
        "no plan that waits for its review"
        if which is None
        else f"no plan {which!r:.200} that waits for its review"
    )
    raise NoSuchPart(f"task {state.task_id!r} has {named}; {waits}")
