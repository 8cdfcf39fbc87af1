"""Submitting tasks and looking at them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from replan.core.report.result import TaskResult
from replan.run.access.requests import SubmitRequest
from replan.run.access.views import (
    OutputPiece,
    Page,
    PlanView,
    Preview,
    StepView,
    Submitted,
    TaskRow,
    TaskView,
    WaitingTask,
)
from replan.server.http.calls import (
    Begin,
    Call,
    calls_about,
    credentials_of,
    in_turn,
    listed,
    shown,
    shown_beside,
    unless_leaving,
)
from replan.server.http.openapi import problems
from replan.server.http.routes import parameters as p
from replan.server.streams.download import Download

router = calls_about("tasks")


@router.post(
    "/tasks",
    status_code=202,
    response_model=Submitted,
    responses={
        200: {"model": Submitted | Preview, "description": "It was there before; or, with `dry_run`, what it would do"},
        202: {"description": "It is stored, and driven as soon as there is a place"},
        **problems("task-exists", "task-not-found", "plan-invalid", "too-many", "model-unavailable", "model-error", body=True),
    },
)  # fmt: skip
async def submit(
    call: Call,
    request: SubmitRequest,
    idempotency_key: p.IdempotencyKey = None,
) -> Response:
    """Submit a task. It is stored by the time this answers: nothing loses it any more.

    The same `task_id`, or the same `Idempotency-Key`, with the same body is the same task, so this may be sent again after
    a connection was lost. `dry_run` plans and checks, and stores and runs nothing.
    """
    if request.dry_run:
        return shown(await call.cases.preview(call.caller, request, idempotency_key=idempotency_key))
    made = await call.cases.submit(call.caller, request, idempotency_key=idempotency_key)
    where = {"location": f"/api/v1/tasks/{made.task_id}"}
    return shown(made, 202 if made.new else 200, where)


@router.get("/tasks", response_model=Page[TaskRow], responses=problems())
async def tasks(
    call: Call,
    status: p.Statuses = [],  # noqa: B006 -- of the document
    session_id: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Only tasks of this session.")
    ] = None,
    tenant: Annotated[
        str | None, Query(max_length=64, description="Of another tenant, for whoever sees those of all.")
    ] = None,
    cursor: p.Cursor = None,
    limit: p.Limit = 50,
) -> Response:
    """The tasks, newest first, by page."""
    return shown(
        await call.cases.tasks(
            call.caller, status=status, session_id=session_id, tenant=tenant, cursor=cursor, limit=limit
        )
    )


@router.get("/tasks/{task_id}", response_model=TaskView, responses=problems(task=True))
async def task(call: Call, task_id: p.TaskId) -> Response:
    """How a task stands."""
    return shown(await call.cases.task(call.caller, task_id))


@router.get(
    "/tasks/{task_id}/result",
    response_model=TaskResult[Any],
    responses=problems("task-not-done", "too-many", "leaving", task=True),
)
async def result(
    call: Call,
    task_id: p.TaskId,
    wait: Annotated[
        float, Query(ge=0, le=300, description="Seconds that the answer may wait for the task's end.")
    ] = 0,
) -> Response:
    """What a task has come to. Not done yet: 409 with its status, also after so many seconds."""
    shared, credentials = call.shared, credentials_of(call)

    async def at_once(begin: Begin) -> Response:
        return await _whole(await call.cases.result(call.caller, task_id, begin=begin))

    async def waiting(begin: Begin) -> Response:
        with shared.holding.place(call.caller):
            coming = call.cases.result(call.caller, task_id, wait_secs=wait, begin=begin)
            try:
                found = await unless_leaving(shared, shared.staying.unless_gone(credentials, coming))
            finally:  # a key may have been revoked meanwhile
                await shared.authenticate(credentials)
        return await _whole(found)

    return await in_turn(call, waiting if wait else at_once)


async def _whole(found: TaskResult) -> Response:
    return await shown_beside(found, found.final_output, *[step.output for step in found.steps])


@router.get("/tasks/{task_id}/plans", response_model=list[PlanView], responses=problems(task=True))
async def plans(call: Call, task_id: p.TaskId) -> Response:
    """Every plan that the task has had, the first one first."""

    async def making(begin: Begin) -> Response:
        await begin()
        return listed(await call.cases.plans(call.caller, task_id))

    return await in_turn(call, making)


@router.get(
    "/tasks/{task_id}/plans/{version}",
    response_model=PlanView,
    responses=problems("no-such-part", task=True),
)
async def plan(call: Call, task_id: p.TaskId, version: p.Version) -> Response:
    """One of its plans."""

    async def making(begin: Begin) -> Response:
        await begin()
        return shown(await call.cases.plan(call.caller, task_id, version))

    return await in_turn(call, making)


@router.get(
    "/tasks/{task_id}/steps/{step_id}",
    response_model=StepView,
    responses=problems("no-such-part", task=True),
)
async def step(call: Call, task_id: p.TaskId, step_id: p.StepId) -> Response:
    """A step with its calls, and what was said about its failures."""

    async def making(begin: Begin) -> Response:
        await begin()
        return shown(await call.cases.step(call.caller, task_id, step_id))

    return await in_turn(call, making)


@router.get(
    "/tasks/{task_id}/steps/{step_id}/output",
    response_model=OutputPiece,
    responses=problems("no-such-part", task=True),
)
async def output(
    call: Call,
    task_id: p.TaskId,
    step_id: p.StepId,
    item: Annotated[
        int | None, Query(ge=1, le=2**31, description="Of a `for_each`: which item, from 1.")
    ] = None,
    offset: Annotated[
        int, Query(ge=0, le=2**53, description="In bytes; the `next_offset` of the piece before.")
    ] = 0,
) -> Response:
    """A large output, by piece: its JSON, or a file of text, from `offset` on. A file of other bytes names its artifact."""

    async def making(begin: Begin) -> Response:
        await begin()
        return shown(await call.cases.output(call.caller, task_id, step_id, item=item, offset=offset))

    return await in_turn(call, making)


@router.get(
    "/tasks/{task_id}/artifacts/{artifact_id}",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
        **problems("no-such-part", task=True),
    },
)
async def artifact(call: Call, task_id: p.TaskId, artifact_id: p.ArtifactId) -> Response:
    """A large output or a file that is kept apart from the log, as it is."""
    found = await call.cases.artifact(call.caller, task_id, artifact_id)
    size = {} if found.size is None else {"content-length": str(found.size)}
    sealed = {
        "x-content-type-options": "nosniff",
        "content-disposition": "attachment",
        "content-security-policy": "sandbox",
    }
    return Download(found.pieces, {**size, **sealed}, found.media_type, call.shared.sending)


@router.get("/tasks/{task_id}/waiting", response_model=list[WaitingTask], responses=problems(task=True))
async def waits(call: Call, task_id: p.TaskId) -> Response:
    """What this task waits for from people."""
    return listed(await call.cases.waits(call.caller, task_id))


@router.get(
    "/tasks/{task_id}/approvals/{approval_id}",
    response_model=WaitingTask,
    responses=problems("no-such-part", "answered-before", task=True),
)
async def approval(call: Call, task_id: p.TaskId, approval_id: p.PartId) -> Response:
    """A call that waits for a person's yes, in full, and the hash that a yes has to give."""
    return shown(await call.cases.approval(call.caller, task_id, approval_id))
