"""What people do to tasks, as front ends hand it in."""

from __future__ import annotations

from replan.core.events import ApprovalRequested
from replan.core.ids import canonical, digest
from replan.core.state.task import State
from replan.errors import AnsweredBefore, InputError
from replan.run.access.requests import ApprovalAnswer, ForkRequest, SettleRequest
from replan.run.service.forking import Forking
from replan.run.service.results import open_approvals, step_of
from replan.run.service.tasks import Service


def call_hash(asked: ApprovalRequested) -> str:
    """What stands for a call as it is shown: the approval, its tool, and the key and seals of its parameters."""
    return digest(canonical([asked.approval_id, asked.tool_id, asked.call_key, dict(asked.seals)]))


async def approve(service: Service, task_id: str, approval_id: str, request: ApprovalAnswer, by: str) -> None:
    open_ = {one.approval_id: one for one in open_approvals(await service.state(task_id))}
    asked = open_.get(approval_id)
    if request.approved and request.hash is None:
        raise InputError("a yes is for one call as it was shown: give its hash (`GET /waiting` has it)")
    if asked is not None and request.hash is not None and request.hash != call_hash(asked):
        raise AnsweredBefore(
            f"approval {approval_id!r} is for another call than the one that was shown: look at it again"
        )
    await service.resolve_approval(
        task_id, approval_id, approved=request.approved, reason=request.reason,
        parameters=request.parameters, by=by,
    )  # fmt: skip


async def settle(service: Service, state: State, step_id: str, request: SettleRequest, by: str) -> None:
    """Answer the question that is open about the step's call in doubt."""
    step_of(state, step_id)
    open_ = state.recovery.open_questions() if state.recovery is not None else []
    about = [one for one in open_ if one.kind == "outcome" and one.step_id == step_id]
    if len(about) != 1:
        why = (
            "no call that is in doubt"
            if not about
            else "several calls in doubt: answer each question by its id"
        )
        raise InputError(f"step {step_id!r} of task {state.task_id!r} has {why}")
    said = {True: "yes", False: "no", None: "cannot tell"}[request.happened]
    await service.answer(state.task_id, said, about[0].question_id, output=request.output, by=by)


def forking(request: ForkRequest, by: str) -> Forking:
    return Forking(
        at=request.at, task_id=request.task_id, hint=request.hint, plan=request.plan,
        retry=tuple(request.retry), judge=request.judge, reason=request.reason, by=by,
    )  # fmt: skip
