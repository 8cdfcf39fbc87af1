"""What people do to tasks, as front ends hand it in."""

from __future__ import annotations

from replan.core.state.task import State
from replan.errors import AnsweredBefore, InputError, NoSuchPart, TooLate
from replan.run.access.people import call_hash, plan_hash
from replan.run.access.requests import ApprovalAnswer, ForkRequest, PlanReview, SettleRequest
from replan.run.access.states import Places
from replan.run.service.forking import Forking
from replan.run.service.people.answering import check_goes_on, open_approval
from replan.run.service.people.reviewing import open_review
from replan.run.service.results import step_of
from replan.run.service.tasks import Service


async def approve(service: Service, state: State, approval_id: str, request: ApprovalAnswer, by: str) -> None:
    if request.approved and request.hash is None:
        raise InputError(
            "a yes is for one call as it was shown: give its `hash`, which stands beside what waits (`/waiting`)"
        )
    asked = open_approval(state, approval_id)
    if request.hash is not None and request.hash != call_hash(asked):
        raise AnsweredBefore(
            f"approval {approval_id!r} is for another call than the one that was shown: look at it again"
        )
    await service.resolve_approval(
        state.task_id, approval_id, approved=request.approved, reason=request.reason,
        parameters=request.parameters, by=by,
    )  # fmt: skip


async def review(
    service: Service, state: State, places: Places, version: int, request: PlanReview, by: str
) -> None:
    """`version`: in the list of the task's plans, of which only the last one can wait."""
    if request.approved and request.hash is None:
        raise InputError(
            "a yes is for one plan as it was shown: give its `hash`, which stands beside what waits (`/waiting`)"
        )
    if not 1 <= version <= len(places.plans):
        raise NoSuchPart(f"task {state.task_id!r} has no plan {version}; it has {len(places.plans)}")
    asked = open_review(state)
    if version < len(places.plans) or (request.hash is not None and request.hash != plan_hash(asked)):
        raise AnsweredBefore(f"plan {version} is not the one that waits any more: look at what waits now")
    await service.review(
        state.task_id,
        asked.review_id,
        approved=request.approved,
        reason=request.reason,
        plan=request.plan,
        by=by,
    )


async def settle(service: Service, state: State, step_id: str, request: SettleRequest, by: str) -> None:
    """Answer the question that is open about the step's call in doubt."""
    step_of(state, step_id)
    check_goes_on(state)
    open_ = state.recovery.open_questions() if state.recovery is not None else []
    about = [one for one in open_ if one.kind == "outcome" and one.step_id == step_id]
    whose = f"step {step_id!r} of task {state.task_id!r}"
    if not about:
        raise TooLate(f"{whose} has no call that is in doubt")
    if len(about) > 1:
        raise InputError(f"{whose} has several calls in doubt: answer each question by its id")
    said = {True: "yes", False: "no", None: "cannot tell"}[request.happened]
    await service.answer(state.task_id, said, about[0].question_id, output=request.output, by=by)


def forking(request: ForkRequest, by: str) -> Forking:
    return Forking(
        at=request.at, task_id=request.task_id, hint=request.hint, plan=request.plan,
        retry=tuple(request.retry), judge=request.judge, reason=request.reason, by=by,
        secrets=request.secrets,
    )  # fmt: skip
