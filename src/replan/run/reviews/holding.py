"""A plan is held until a person has agreed to it, or nobody has in time."""

from __future__ import annotations

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.events import PlanReviewExpired, PlanReviewRequested, PlanUpdated, TaskWaiting
from replan.core.plan.diff import diff_of
from replan.run.reviews.edited import edited
from replan.run.reviews.outlook import outlook
from replan.run.rounds.made_with import made_with
from replan.run.session.context import Run


async def hold(run: Run) -> None:
    """Ask about the plan, if nobody has been asked; then wait, or record that it has taken too long."""
    asked = run.state.open_review()
    if asked is None:
        await _ask(run)
        asked = run.state.open_review()
    assert asked is not None
    if asked.expires is not None and asked.expires <= run.now():
        await run.decided(PlanReviewExpired(review_id=asked.review_id))  # else somebody has spoken just now
        return
    run.record(
        TaskWaiting(
            reason=f"a person has to agree to plan {asked.plan_version}",
            reviews=(asked.review_id,),
            until=asked.expires,
        )
    )


async def _ask(run: Run, problems: tuple[str, ...] = ()) -> None:
    state = run.state
    assert state.plan is not None
    assert state.begun is not None
    found = await outlook(state, state.plan, run.parts)
    secs = state.policy.approval_expires_secs
    run.record(
        PlanReviewRequested(
            review_id=run.parts.ids.new("review"),
            plan_version=state.begun.version,
            outlook=found,
            expires=None if secs is None else run.now() + secs,
            problems=problems,
        )
    )


async def take(run: Run) -> None:
    """Go by the plan that a person has given, if it passes every check here, too; else ask once more."""
    state = run.state
    said = state.reviews.said if state.reviews is not None else None
    assert said is not None
    assert said.plan is not None
    large = len(said.plan.get("steps") or ()) > MANY
    found = await beside(edited, run, said.plan) if large else edited(run, said.plan)
    if found.checked is None or found.violations:
        await _ask(run, tuple(run.secrets.masked(list(found.violations))))
        return
    plan = found.checked.plan
    run.record(
        PlanUpdated(
            plan=plan,
            strategy="review",
            reason=said.reason,
            diff=diff_of(state.plan, plan),
            made_with=made_with(run, plan.steps),
            review_id=said.review_id,
            by=said.by,
        )
    )
    state.checked(found.checked.graph, found.checked.constants)
