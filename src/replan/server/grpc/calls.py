"""The calls with one answer: each is one use case, with what the message says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from replan.run.access.callers import Caller
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
from replan.run.access.shown import shown
from replan.server.grpc.asked import after_of, count, items, said, showing, submission, task_of, text
from replan.server.grpc.messages import Misfit, json_text, pb, values_of
from replan.server.shared import Shared

TASKS_AT_ONCE = 50
EVENTS_AT_ONCE = 100
WAITING_AT_ONCE = 100
PAGE_BYTES = 1_048_576
"""Of a page of events, one event at least: clients take 4 MiB at once, unless told otherwise."""
Call = Callable[..., Coroutine[Any, Any, Any]]
Begin = Callable[[], Awaitable[None]]
"""Waited for before what may be large is read."""


class Unary(NamedTuple):
    """One call: what it takes, what it gives, and the use case."""

    takes: Any
    gives: Any
    call: Call
    timed: bool = True
    """It has to end within `request_timeout_secs`; else it bounds itself."""
    heavy: bool = False
    """What it gives may be large, and is encoded beside the event loop."""
    in_turn: bool = False
    """It is made in its turn: the call is given what to wait for."""


async def _submit(here: Shared, caller: Caller, message: Any) -> Any:
    request, key = await submission(message)
    return await here.use_cases.submit(caller, request, idempotency_key=key)


async def _preview(here: Shared, caller: Caller, message: Any) -> Any:
    request, key = await submission(message)
    if key is not None:
        raise Misfit([("idempotency_key", "names a task that is stored; a preview stores none")])
    return await here.use_cases.preview(caller, request)


async def _fork(here: Shared, caller: Caller, message: Any) -> Any:
    fork = message.fork_id if message.HasField("fork_id") else None
    given = await said(ForkRequest, message, "task_id", "fork_id", task_id=fork)
    return await here.use_cases.fork(caller, task_of(message), given)


async def _tasks(here: Shared, caller: Caller, message: Any) -> Any:
    values = values_of(message)
    return await here.use_cases.tasks(
        caller,
        status=values["status"],
        session_id=values.get("session_id"),
        tenant=values.get("tenant"),
        cursor=values.get("cursor"),
        limit=count(message, "limit", TASKS_AT_ONCE),
    )


async def _result(here: Shared, caller: Caller, message: Any, begin: Begin) -> Any:
    if not 0 <= message.wait_secs < float("inf"):
        raise Misfit([("wait_secs", "has to be a number of seconds, 0 or more")])
    return await here.use_cases.result(caller, task_of(message), wait_secs=message.wait_secs, begin=begin)


async def _output(here: Shared, caller: Caller, message: Any, begin: Begin) -> Any:
    await begin()
    item = message.item if message.HasField("item") else None
    offset = count(message, "offset", 0)
    return await here.use_cases.output(
        caller, task_of(message), text(message, "step_id"), item=item, offset=offset
    )


async def _events(here: Shared, caller: Caller, message: Any) -> Any:
    limit = count(message, "limit", EVENTS_AT_ONCE)
    found = await here.use_cases.events(caller, task_of(message), after=after_of(message), limit=limit)
    how, told, size = showing(here, message), [], 0
    for record in found:
        told.append(shown(record, how))
        size += len(json_text(told[-1]))
        if size > PAGE_BYTES:  # the rest is in the page after it
            break
    return items(told)


async def _waiting(here: Shared, caller: Caller, message: Any) -> Any:
    limit = count(message, "limit", WAITING_AT_ONCE)
    if message.HasField("task_id"):
        return items(await here.use_cases.waits(caller, message.task_id))
    cursor = message.cursor if message.HasField("cursor") else None
    return await here.use_cases.waiting(caller, cursor=cursor, limit=limit)


async def _approval(here: Shared, caller: Caller, message: Any) -> Any:
    return await here.use_cases.approval(caller, task_of(message), text(message, "approval_id"))


async def _plans(here: Shared, caller: Caller, message: Any, begin: Begin) -> Any:
    await begin()
    return items(await here.use_cases.plans(caller, task_of(message)))


async def _plan(here: Shared, caller: Caller, message: Any, begin: Begin) -> Any:
    await begin()
    return await here.use_cases.plan(caller, task_of(message), message.version)


async def _step(here: Shared, caller: Caller, message: Any, begin: Begin) -> Any:
    await begin()
    return await here.use_cases.step(caller, task_of(message), text(message, "step_id"))


async def _pause(here: Shared, caller: Caller, message: Any) -> Any:
    return await here.use_cases.pause(caller, task_of(message), await said(PauseRequest, message, "task_id"))


async def _hint(here: Shared, caller: Caller, message: Any) -> Any:
    return await here.use_cases.hint(caller, task_of(message), await said(HintRequest, message, "task_id"))


async def _retry(here: Shared, caller: Caller, message: Any) -> Any:
    given = await said(ReasonRequest, message, "task_id", "step_id")
    return await here.use_cases.retry(caller, task_of(message), text(message, "step_id"), given.reason)


async def _judge(here: Shared, caller: Caller, message: Any) -> Any:
    return await here.use_cases.judge(caller, task_of(message), await said(JudgeRequest, message, "task_id"))


async def _settle(here: Shared, caller: Caller, message: Any) -> Any:
    given = await said(SettleRequest, message, "task_id", "step_id", happened=None)
    return await here.use_cases.settle(caller, task_of(message), text(message, "step_id"), given)


async def _approve(here: Shared, caller: Caller, message: Any) -> Any:
    given = await said(ApprovalAnswer, message, "task_id", "approval_id")
    return await here.use_cases.approve(caller, task_of(message), text(message, "approval_id"), given)


async def _answer(here: Shared, caller: Caller, message: Any) -> Any:
    given = await said(QuestionAnswer, message, "task_id", "question_id")
    return await here.use_cases.answer(caller, task_of(message), text(message, "question_id"), given)


async def _signal(here: Shared, caller: Caller, message: Any) -> Any:
    given = await said(SignalRequest, message, "task_id")
    return {"told": await here.use_cases.signal(caller, task_of(message), given)}


async def _cancel(here: Shared, caller: Caller, message: Any) -> Any:
    given = await said(ReasonRequest, message, "task_id")
    return await here.use_cases.cancel(caller, task_of(message), given.reason)


async def _resume(here: Shared, caller: Caller, message: Any) -> Any:
    given = await said(ResumeRequest, message, "task_id")
    return await here.use_cases.resume(caller, task_of(message), given.reason, given.secrets)


async def _task(here: Shared, caller: Caller, message: Any) -> Any:
    return await here.use_cases.task(caller, task_of(message))


async def _skip(here: Shared, caller: Caller, message: Any) -> Any:
    return await here.use_cases.skip(caller, task_of(message), text(message, "step_id"))


async def _review(here: Shared, caller: Caller, message: Any) -> Any:
    given = await said(PlanReview, message, "task_id", "version")
    return await here.use_cases.review(caller, task_of(message), message.version, given)


async def _tools(here: Shared, caller: Caller, message: Any) -> Any:
    return items(await here.use_cases.tools(caller))


async def _tool_stats(here: Shared, caller: Caller, message: Any) -> Any:
    return await here.use_cases.tool_stats(caller, text(message, "tool_id"))


async def _workflows(here: Shared, caller: Caller, message: Any) -> Any:
    return {"items": [one.model_dump(mode="json") for one in await here.use_cases.workflows(caller)]}


async def _scenes(here: Shared, caller: Caller, message: Any) -> Any:
    return {"items": [one.model_dump(mode="json") for one in await here.use_cases.scenes(caller)]}


UNARY: Mapping[str, Unary] = {
    "SubmitTask": Unary(pb.SubmitTaskRequest, pb.Submitted, _submit),
    "PreviewTask": Unary(pb.SubmitTaskRequest, pb.Preview, _preview, timed=False, heavy=True),
    "ForkTask": Unary(pb.ForkTaskRequest, pb.Submitted, _fork),
    "GetTask": Unary(pb.TaskRequest, pb.Task, _task),
    "ListTasks": Unary(pb.ListTasksRequest, pb.TaskPage, _tasks),
    "GetResult": Unary(pb.GetResultRequest, pb.TaskResult, _result, timed=False, heavy=True, in_turn=True),
    "ListEvents": Unary(pb.ListEventsRequest, pb.EventPage, _events, heavy=True),
    "ListPlans": Unary(pb.TaskRequest, pb.PlanList, _plans, heavy=True, in_turn=True),
    "GetPlan": Unary(pb.PlanRequest, pb.Plan, _plan, heavy=True, in_turn=True),
    "GetStep": Unary(pb.StepRequest, pb.Step, _step, heavy=True, in_turn=True),
    "GetOutput": Unary(pb.GetOutputRequest, pb.OutputPiece, _output, in_turn=True),
    "ListWaiting": Unary(pb.ListWaitingRequest, pb.WaitingPage, _waiting),
    "GetApproval": Unary(pb.ApprovalRequest, pb.Waiting, _approval),
    "CancelTask": Unary(pb.ReasonRequest, pb.Task, _cancel),
    "PauseTask": Unary(pb.PauseTaskRequest, pb.Task, _pause),
    "ResumeTask": Unary(pb.ResumeTaskRequest, pb.Task, _resume),
    "GiveHint": Unary(pb.GiveHintRequest, pb.Task, _hint),
    "RetryStep": Unary(pb.StepReasonRequest, pb.Task, _retry),
    "JudgeTask": Unary(pb.JudgeTaskRequest, pb.Task, _judge),
    "SkipStep": Unary(pb.StepRequest, pb.Task, _skip),
    "SettleStep": Unary(pb.SettleStepRequest, pb.Task, _settle),
    "AnswerApproval": Unary(pb.AnswerApprovalRequest, pb.Task, _approve),
    "AnswerQuestion": Unary(pb.AnswerQuestionRequest, pb.Task, _answer),
    "SendSignal": Unary(pb.SendSignalRequest, pb.SignalTold, _signal),
    "ReviewPlan": Unary(pb.ReviewPlanRequest, pb.Task, _review),
    "ListTools": Unary(pb.Empty, pb.ToolList, _tools, heavy=True),
    "GetToolStats": Unary(pb.ToolRequest, pb.ToolStats, _tool_stats),
    "ListWorkflows": Unary(pb.Empty, pb.JsonList, _workflows),
    "ListScenes": Unary(pb.Empty, pb.JsonList, _scenes),
}
"""By the name of the call. Those that give events or pieces are in `servicer`."""

SAID: Mapping[str, str] = {
    "approve": "AnswerApproval",
    "answer": "AnswerQuestion",
    "review": "ReviewPlan",
    "hint": "GiveHint",
    "cancel": "CancelTask",
    "pause": "PauseTask",
    "resume": "ResumeTask",
    "retry": "RetryStep",
    "settle": "SettleStep",
    "judge": "JudgeTask",
    "signal": "SendSignal",
}
"""What may be said within a conversation, and which call that is."""
