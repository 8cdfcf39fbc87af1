"""Stepping into tasks."""

from __future__ import annotations

from pydantic import BaseModel
from starlette.responses import Response

from replan.run.access.requests import (
    ApprovalAnswer,
    ForkRequest,
    HintRequest,
    JudgeRequest,
    PauseRequest,
    PlanReview,
    QuestionAnswer,
    ReasonRequest,
    ResumeRequest,
    SettleRequest,
    SignalRequest,
)
from replan.run.access.views import Submitted, TaskView
from replan.server.http.calls import Call, calls_about, shown
from replan.server.http.openapi import problems
from replan.server.http.routes import parameters as p

router = calls_about("acting")
_ENDS = problems("task-ended", "too-late", "task-held", "task-given-away", task=True, body=True)
_NONE = ReasonRequest()
_NO_PAUSE = PauseRequest()
_NO_SECRETS = ResumeRequest()
_NO_FORK = ForkRequest()
_NO_JUDGE = JudgeRequest()


class Told(BaseModel):
    """Whether a signal was news."""

    new: bool
    """False: the task knew it."""


@router.post("/tasks/{task_id}/cancel", response_model=TaskView, responses=_ENDS)
async def cancel(call: Call, task_id: p.TaskId, request: ReasonRequest = _NONE) -> Response:
    """Ask for the task's end. What runs may come to its end; its last event says that it is cancelled."""
    return shown(await call.cases.cancel(call.caller, task_id, request.reason))


@router.post("/tasks/{task_id}/pause", response_model=TaskView, responses=_ENDS)
async def pause(call: Call, task_id: p.TaskId, request: PauseRequest = _NO_PAUSE) -> Response:
    """Have the task begin nothing more until it is resumed; `now` cuts off what runs."""
    return shown(await call.cases.pause(call.caller, task_id, request))


@router.post(
    "/tasks/{task_id}/resume",
    response_model=TaskView,
    responses=problems(
        "task-ended", "too-late", "task-held", "task-given-away", "secrets-missing", task=True, body=True
    ),
)
async def resume(call: Call, task_id: p.TaskId, request: ResumeRequest = _NO_SECRETS) -> Response:
    """Have a task go on that is paused, or that nobody drives; with the `secrets` that it waits for, if it does."""
    return shown(await call.cases.resume(call.caller, task_id, request.reason, request.secrets))


@router.post("/tasks/{task_id}/hint", response_model=TaskView, responses=_ENDS)
async def hint(
    call: Call,
    task_id: p.TaskId,
    request: HintRequest,
) -> Response:
    """Tell whoever plans next something: it is heard at the next reflection or plan."""
    return shown(await call.cases.hint(call.caller, task_id, request))


@router.post("/tasks/{task_id}/judge", response_model=TaskView, responses=_ENDS)
async def judge(call: Call, task_id: p.TaskId, request: JudgeRequest = _NO_JUDGE) -> Response:
    """Have what was done judged anew."""
    return shown(await call.cases.judge(call.caller, task_id, request))


@router.post(
    "/tasks/{task_id}/fork",
    status_code=202,
    response_model=Submitted,
    responses=problems("task-exists", "plan-invalid", "too-many", "task-given-away", task=True, body=True),
)
async def fork(call: Call, task_id: p.TaskId, request: ForkRequest = _NO_FORK) -> Response:
    """Go on from an event of the task in a new one, with another plan or a hint; what was done stays done."""
    made = await call.cases.fork(call.caller, task_id, request)
    return shown(made, 202, {"location": f"/api/v1/tasks/{made.task_id}"})


@router.post(
    "/tasks/{task_id}/approvals/{approval_id}",
    response_model=TaskView,
    responses=problems("no-such-part", "task-ended", "answered-before", task=True, body=True),
)
async def approve(
    call: Call,
    task_id: p.TaskId,
    approval_id: p.PartId,
    request: ApprovalAnswer,
) -> Response:
    """Yes or no to a call that waits. A yes gives the `hash` of the call as `GET /waiting` has shown it."""
    return shown(await call.cases.approve(call.caller, task_id, approval_id, request))


@router.post(
    "/tasks/{task_id}/questions/{question_id}",
    response_model=TaskView,
    responses=problems("no-such-part", "task-ended", "answered-before", task=True, body=True),
)
async def answer(
    call: Call,
    task_id: p.TaskId,
    question_id: p.PartId,
    request: QuestionAnswer,
) -> Response:
    """Answer a question of a task that waits for a person."""
    return shown(await call.cases.answer(call.caller, task_id, question_id, request))


@router.post("/tasks/{task_id}/signals", response_model=Told, responses=_ENDS)
async def signal(
    call: Call,
    task_id: p.TaskId,
    request: SignalRequest,
) -> Response:
    """Tell a task what it waits for from outside, by the token that it has given out."""
    return shown(Told(new=await call.cases.signal(call.caller, task_id, request)))


@router.post(
    "/tasks/{task_id}/plans/{version}/review",
    response_model=TaskView,
    responses=problems("no-such-part", "task-ended", "answered-before", "plan-invalid", task=True, body=True),
)
async def review(call: Call, task_id: p.TaskId, version: p.Version, request: PlanReview) -> Response:
    """Yes or no to a plan that waits, or another `plan` in its place. A yes gives the `hash` of the plan as `GET /waiting` has shown it."""
    return shown(await call.cases.review(call.caller, task_id, version, request))


@router.post(
    "/tasks/{task_id}/steps/{step_id}/retry",
    response_model=TaskView,
    responses=problems("no-such-part", "task-ended", "too-late", "task-held", task=True, body=True),
)
async def retry(call: Call, task_id: p.TaskId, step_id: p.StepId, request: ReasonRequest = _NONE) -> Response:
    """Have a failed step tried once more."""
    return shown(await call.cases.retry(call.caller, task_id, step_id, request.reason))


@router.post(
    "/tasks/{task_id}/steps/{step_id}/skip",
    response_model=TaskView,
    responses=problems("not-built", task=True),
)
async def skip(call: Call, task_id: p.TaskId, step_id: p.StepId) -> Response:
    """Leave a step out."""
    return shown(await call.cases.skip(call.caller, task_id, step_id))


@router.post(
    "/tasks/{task_id}/steps/{step_id}/settle",
    response_model=TaskView,
    responses=problems("no-such-part", "task-ended", "too-late", "answered-before", task=True, body=True),
)
async def settle(
    call: Call,
    task_id: p.TaskId,
    step_id: p.StepId,
    request: SettleRequest,
) -> Response:
    """Say what became of a call in doubt: it took effect (with its `output`), it did not, or nobody can tell."""
    return shown(await call.cases.settle(call.caller, task_id, step_id, request))
