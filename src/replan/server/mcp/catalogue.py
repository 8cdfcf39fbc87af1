"""The tools that are offered, each over one use case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pydantic import BaseModel

from replan.run.access.callers import Caller, Scope
from replan.run.access.requests import (
    ApprovalAnswer,
    Body,
    ForkChanges,
    ForkRequest,
    HintRequest,
    JudgeRequest,
    PauseRequest,
    PlanReview,
    QuestionAnswer,
    SettleRequest,
    SubmitRequest,
)
from replan.run.access.shown import Showing, shown
from replan.run.access.views import (
    OutputPiece,
    Page,
    Preview,
    SceneView,
    StepView,
    Submitted,
    TaskRow,
    TaskView,
    ToolView,
    WaitingTask,
    WorkflowView,
)
from replan.server.mcp import messages as m
from replan.server.shared import Shared

Does = Callable[[Shared, Caller, Any], Awaitable[BaseModel]]


class Offered(NamedTuple):
    """A tool: what it takes and gives, and what it does to tasks, for clients that ask before a call."""

    description: str
    takes: type[BaseModel]
    gives: type[BaseModel]
    scope: Scope
    does: Does | None
    """None: it may wait and ask, which takes more than a caller."""
    reads: bool = False
    destructive: bool = False
    repeatable: bool = False


def request_of(given: m.NewTask) -> SubmitRequest:
    context = {"session_id": given.session_id, "previous_task_id": given.previous_task_id}
    return SubmitRequest.model_validate({
        "task_description": given.task,
        "metadata": given.metadata,
        "context": {name: value for name, value in context.items() if value is not None},
        "options": given.options,
    })  # fmt: skip


def _part(kind: type[Body], given: BaseModel) -> Any:
    """The body of a call, from the arguments that have it."""
    return kind.model_validate({name: getattr(given, name) for name in kind.model_fields})


async def submit(here: Shared, caller: Caller, given: m.NewTask) -> Submitted:
    return await here.use_cases.submit(caller, request_of(given), idempotency_key=given.idempotency_key)


async def _preview(here: Shared, caller: Caller, given: m.NewTask) -> Preview:
    return await here.use_cases.preview(caller, request_of(given), idempotency_key=given.idempotency_key)


async def _fork(here: Shared, caller: Caller, given: m.Fork) -> Submitted:
    changes = {name: getattr(given, name) for name in ForkChanges.model_fields}
    return await here.use_cases.fork(
        caller, given.task_id, ForkRequest.model_validate({**changes, "task_id": given.fork_id})
    )


async def _task(here: Shared, caller: Caller, given: m.OfTask) -> TaskView:
    return await here.use_cases.task(caller, given.task_id)


async def _tasks(here: Shared, caller: Caller, given: m.ListTasks) -> Page[TaskRow]:
    return await here.use_cases.tasks(
        caller, status=given.status, session_id=given.session_id, cursor=given.cursor, limit=given.limit
    )


async def _step(here: Shared, caller: Caller, given: m.OfStep) -> StepView:
    with here.turns.turn(caller) as turn:
        await turn.begin()
        return await here.use_cases.step(caller, given.task_id, given.step_id)


async def _output(here: Shared, caller: Caller, given: m.ReadOutput) -> OutputPiece:
    with here.turns.turn(caller) as turn:
        await turn.begin()
        return await here.use_cases.output(
            caller, given.task_id, given.step_id, item=given.item, offset=given.offset
        )


async def _events(here: Shared, caller: Caller, given: m.ReadEvents) -> m.Events:
    found = await here.use_cases.events(caller, given.task_id, after=given.after, limit=given.limit)
    how = Showing(mode=here.settings.response.mode, light=True)
    return m.Events(
        items=[shown(record, how) for record in found], next_after=found[-1].seq if found else given.after
    )


async def _waiting(here: Shared, caller: Caller, given: m.ListWaiting) -> Page[WaitingTask]:
    if given.task_id is not None:
        return Page(items=await here.use_cases.waits(caller, given.task_id))
    return await here.use_cases.waiting(caller, cursor=given.cursor)


async def _approve(here: Shared, caller: Caller, given: m.Approve) -> TaskView:
    part = _part(ApprovalAnswer, given)
    return await here.use_cases.approve(caller, given.task_id, given.approval_id, part)


async def _review(here: Shared, caller: Caller, given: m.ReviewPlan) -> TaskView:
    return await here.use_cases.review(caller, given.task_id, given.version, _part(PlanReview, given))


async def _answer(here: Shared, caller: Caller, given: m.Answer) -> TaskView:
    part = _part(QuestionAnswer, given)
    return await here.use_cases.answer(caller, given.task_id, given.question_id, part)


async def _hint(here: Shared, caller: Caller, given: m.Hint) -> TaskView:
    return await here.use_cases.hint(caller, given.task_id, _part(HintRequest, given))


async def _cancel(here: Shared, caller: Caller, given: m.WithReason) -> TaskView:
    return await here.use_cases.cancel(caller, given.task_id, given.reason)


async def _pause(here: Shared, caller: Caller, given: m.Pause) -> TaskView:
    return await here.use_cases.pause(caller, given.task_id, _part(PauseRequest, given))


async def _resume(here: Shared, caller: Caller, given: m.WithReason) -> TaskView:
    return await here.use_cases.resume(caller, given.task_id, given.reason)


async def _retry(here: Shared, caller: Caller, given: m.RetryStep) -> TaskView:
    return await here.use_cases.retry(caller, given.task_id, given.step_id, given.reason)


async def _settle(here: Shared, caller: Caller, given: m.SettleStep) -> TaskView:
    return await here.use_cases.settle(caller, given.task_id, given.step_id, _part(SettleRequest, given))


async def _judge(here: Shared, caller: Caller, given: m.Judge) -> TaskView:
    return await here.use_cases.judge(caller, given.task_id, _part(JudgeRequest, given))


async def _tools(here: Shared, caller: Caller, given: m.Nothing) -> m.Listed[ToolView]:
    return m.Listed[ToolView](items=await here.use_cases.tools(caller))


async def _workflows(here: Shared, caller: Caller, given: m.Nothing) -> m.Listed[WorkflowView]:
    return m.Listed[WorkflowView](items=await here.use_cases.workflows(caller))


async def _scenes(here: Shared, caller: Caller, given: m.Nothing) -> m.Listed[SceneView]:
    return m.Listed[SceneView](items=await here.use_cases.scenes(caller))


OFFERED: dict[str, Offered] = {
    "run_task": Offered(
        "Do a task with the tools of this service: it is planned, checked, carried out, judged and repaired. Waits for its end, for a "
        "while, and tells progress. A task that takes longer goes on, and is waited for with `wait_task`: do not run it twice.",
        m.RunTask, m.Outcome, "run", None, destructive=True,
    ),
    "submit_task": Offered(
        "Begin a task and do not wait for it. `wait_task` waits for its end.",
        m.NewTask, Submitted, "run", submit, destructive=True,
    ),
    "wait_task": Offered(
        "Wait for the end of a task that was begun before, for a while; tells progress, and asks what waits for a person.",
        m.WaitTask, m.Outcome, "read", None, reads=True,
    ),
    "preview_task": Offered(
        "What a task would do: its checked plan, what it would change, which calls a person would be asked about, time and cost. "
        "Nothing is stored or run.",
        m.NewTask, Preview, "run", _preview, reads=True,
    ),
    "get_task": Offered("How a task stands.", m.OfTask, TaskView, "read", _task, reads=True),
    "get_result": Offered(
        "What a task has come to, without waiting: its answer, or why there is none.",
        m.OfTask, m.Outcome, "read", None, reads=True,
    ),
    "list_tasks": Offered("Tasks, the newest first.", m.ListTasks, Page[TaskRow], "read", _tasks, reads=True),
    "get_step": Offered(
        "A step of a task: its calls, its output or error, and what was thought of it.",
        m.OfStep, StepView, "read", _step, reads=True,
    ),
    "get_output": Offered(
        "The output of a step, by piece where it is large.",
        m.ReadOutput, OutputPiece, "read", _output, reads=True,
    ),
    "get_events": Offered(
        "What has happened in a task, event by event; large outputs are left out.",
        m.ReadEvents, m.Events, "read", _events, reads=True,
    ),
    "waiting": Offered(
        "What waits for a person: calls that need a yes, each with its parameters and its hash, and questions.",
        m.ListWaiting, Page[WaitingTask], "read", _waiting, reads=True,
    ),
    "approve": Offered(
        "Hand on a person's yes or no to a call that waits. Show the person the call first, as `waiting` tells it; a yes gives its hash. "
        "It is the person's decision, not yours.",
        m.Approve, TaskView, "approve", _approve, destructive=True,
    ),
    "review_plan": Offered(
        "Hand on a person's yes or no to a plan that waits, or another plan in its place. Show the person its steps and effects first, as "
        "`waiting` with the task's id tells them (`review`); a yes gives its hash. It is the person's decision, not yours.",
        m.ReviewPlan, TaskView, "approve", _review, destructive=True,
    ),
    "answer": Offered(
        "Hand on a person's answer to a question of a task. Of a call in doubt: yes, no or cannot tell; to a step's question what its "
        "`answer_schema` says, in words (`text`) or as a value (`output`).",
        m.Answer, TaskView, "approve", _answer, destructive=True,
    ),
    "hint": Offered(
        "Tell a task something that whoever plans or reflects next should know.",
        m.Hint, TaskView, "run", _hint,
    ),
    "cancel": Offered(
        "Ask for a task's end. What was done stays done.",
        m.WithReason, TaskView, "run", _cancel, destructive=True, repeatable=True,
    ),
    "pause": Offered(
        "Hold a task: nothing new is begun until it is resumed.",
        m.Pause, TaskView, "run", _pause, repeatable=True,
    ),
    "resume": Offered(
        "Let a paused task go on, or one that nobody drives any more.",
        m.WithReason, TaskView, "run", _resume,
    ),
    "retry_step": Offered(
        "Have a failed step of a task tried again.", m.RetryStep, TaskView, "run", _retry, destructive=True
    ),
    "settle_step": Offered(
        "Say what became of a call of which nobody knows whether it took effect.",
        m.SettleStep, TaskView, "approve", _settle, destructive=True,
    ),
    "judge_again": Offered("Have what a task has done judged anew.", m.Judge, TaskView, "run", _judge),
    "fork_task": Offered(
        "Begin a new task that goes on from an event of another: with a hint, another plan, or failed steps tried again.",
        m.Fork, Submitted, "run", _fork, destructive=True,
    ),
    "list_tools": Offered(
        "The tools that tasks may use here.", m.Nothing, m.Listed[ToolView], "read", _tools, reads=True
    ),
    "list_workflows": Offered(
        "Plans that are written beforehand, with the slots that they have. One is run by a task with `options`: its `workflow` and `slots`.",
        m.Nothing, m.Listed[WorkflowView], "read", _workflows, reads=True,
    ),
    "list_scenes": Offered(
        "The kinds of tasks for which there is guidance here.", m.Nothing, m.Listed[SceneView], "read", _scenes, reads=True
    ),
}  # fmt: skip
"""By name."""
FOR_PEOPLE = frozenset({"approve", "review_plan", "answer", "settle_step"})
"""What hands on the word of a person; may be left out, so that no model can say it in a person's place."""
