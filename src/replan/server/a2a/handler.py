"""The methods of A2A over the use cases."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, TypeVar

from a2a import types as t
from a2a.types import ListTasksResponse, Role, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from pydantic import BaseModel, ValidationError

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE, weight
from replan.core.report.result import TaskResult
from replan.core.state.task import ENDED
from replan.run.access.callers import Caller, need, reader
from replan.run.access.requests import (
    ApprovalAnswer,
    HintRequest,
    PlanReview,
    QuestionAnswer,
    SubmitRequest,
)
from replan.run.access.use_cases import MOST_WAIT_SECS
from replan.run.access.views import TaskView, WaitingTask
from replan.server.a2a import messages as m
from replan.server.a2a.options import options_of
from replan.server.auth.credentials import Credentials
from replan.server.mcp.story import Story
from replan.server.shared import Shared
from replan.server.told import events_until_it_stands, stands

M = TypeVar("M", bound=BaseModel)
WHO = "replan.who"
"""Where a call's context has who calls."""
_MOST_LISTED = 100
_MOST_WITH_RESULTS = 10
"""They may be large, and are in one answer."""


class Who(NamedTuple):
    caller: Caller
    credentials: Credentials

    @property
    def acts(self) -> Caller:
        """For what has to be known of a task to act on it; it is not shown by that."""
        return reader(self.caller)

    @property
    def begins(self) -> Who:
        """Whoever begins a task may see what becomes of it."""
        return self._replace(caller=reader(self.caller))


class Handler:
    """What the SDK's dispatcher calls."""

    def __init__(self, here: Shared) -> None:
        self._here = here
        self._cases = here.use_cases

    # ── begin, and answer ──

    async def on_message_send(self, params: Any, context: Any) -> Any:
        who: Who = context.state[WHO]
        with m.as_a2a():
            who, task_id, after = await self._taken(who, params)
            if not params.configuration.return_immediately:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(MOST_WAIT_SECS):
                        async for _ in events_until_it_stands(
                            self._here, who.caller, who.credentials, task_id, after
                        ):
                            pass
            return await self._came_of(who, task_id)

    async def on_message_send_stream(self, params: Any, context: Any) -> AsyncIterator[Any]:
        who: Who = context.state[WHO]
        with m.as_a2a():
            if params.message.task_id:  # before anything is done that nothing could be told of
                need(who.caller, "read")
            who, task_id, after = await self._taken(who, params)
            async for update in self._updates(who, task_id, after):
                yield update

    async def on_subscribe_to_task(self, params: Any, context: Any) -> AsyncIterator[Any]:
        who: Who = context.state[WHO]
        with m.as_a2a():
            task = await self._cases.task(who.caller, params.id)
            if task.status in ENDED:
                raise t.UnsupportedOperationError(message="the task has ended: GetTask has its result")
            async for update in self._updates(who, task.task_id, task.last_seq):
                yield update

    # ── look, and stop ──

    async def on_get_task(self, params: Any, context: Any) -> Any:
        with m.as_a2a():
            return await self._shown(context.state[WHO].caller, params.id)

    async def on_list_tasks(self, params: Any, context: Any) -> Any:
        who: Who = context.state[WHO]
        results = params.include_artifacts
        size = min(params.page_size or 50, _MOST_WITH_RESULTS if results else _MOST_LISTED)
        with m.as_a2a():
            page = await self._cases.tasks(
                who.caller,
                status=m.STATUSES.get(params.status, ()),
                session_id=params.context_id or None,
                cursor=params.page_token or None,
                limit=size,
            )
            tasks = [await self._shown(who.caller, row.task_id, results=results) for row in page.items]
        return ListTasksResponse(
            tasks=tasks, next_page_token=page.next_cursor or "", page_size=size, total_size=len(tasks)
        )

    async def on_cancel_task(self, params: Any, context: Any) -> Any:
        who: Who = context.state[WHO]
        with m.as_a2a(cancelling=True):
            task = await self._cases.cancel(who.caller, params.id)
            async with asyncio.timeout(MOST_WAIT_SECS):
                async for _ in events_until_it_stands(
                    self._here, who.caller, who.credentials, task.task_id, task.last_seq
                ):
                    pass
            return await self._came_of(who, task.task_id)

    # ── what there is none of ──

    async def on_get_extended_agent_card(self, params: Any, context: Any) -> Any:
        raise t.ExtendedAgentCardNotConfiguredError

    async def on_create_task_push_notification_config(self, params: Any, context: Any) -> Any:
        raise t.PushNotificationNotSupportedError(
            message="nothing is pushed: stream, subscribe, or ask for the task"
        )

    on_get_task_push_notification_config = on_create_task_push_notification_config
    on_list_task_push_notification_configs = on_create_task_push_notification_config
    on_delete_task_push_notification_config = on_create_task_push_notification_config

    # ── inside ──

    async def _taken(self, who: Who, params: Any) -> tuple[Who, str, int]:
        """The task that a message is about, and after which event it goes on; and what of it whoever has sent that may see."""
        message = params.message
        if message.role not in (Role.ROLE_USER, Role.ROLE_UNSPECIFIED):
            raise t.InvalidParamsError(message="message.role: whoever hands in a task or answers is the user")
        text, data = m.text_and_data(message)
        options = options_of(params)
        if message.task_id:
            return who, *await self._said(who, message.task_id, text, data, options)
        given: dict[str, Any] = {
            "task_description": text,
            "context": {"session_id": message.context_id or message.message_id},
            "metadata": data,
        }
        if message.reference_task_ids:
            given["context"]["previous_task_id"] = message.reference_task_ids[-1]
        if options is not None:
            given["options"] = options
        if not text:
            raise t.InvalidParamsError(message="message.parts: there is no text, which is the task")
        request = _read(SubmitRequest, given, "metadata")
        key = f"a2a:{message.message_id}"[:200]
        made = await self._cases.submit(who.caller, request, idempotency_key=key)
        return who.begins, made.task_id, 0

    async def _said(
        self, who: Who, task_id: str, text: str, data: dict[str, Any], options: Any
    ) -> tuple[str, int]:
        """An answer to what the task waits for; a hint where it works."""
        task = await self._cases.task(who.acts, task_id)
        if options:
            raise t.InvalidParamsError(
                message="metadata.options: these are chosen with a new task; an answer or a hint has none"
            )
        if task.status in ENDED:
            raise t.UnsupportedOperationError(
                message="the task has ended: begin another one, with its id in referenceTaskIds"
            )
        waiting = await self._cases.waits(who.acts, task.task_id)
        if not waiting:
            await self._cases.hint(who.caller, task.task_id, _read(HintRequest, {"text": text}, "parts"))
            return task.task_id, task.last_seq
        one = _meant(waiting, data.pop("id", None))
        if one.waiting_for.kind == "approval":
            if not data:
                raise t.InvalidParamsError(
                    message='a call waits for a yes or no: answer with a data part, {"approved": true, "hash": "…"}'
                )
            answer = _read(ApprovalAnswer, {"reason": text, **data}, "parts.data")
            await self._cases.approve(who.caller, task.task_id, one.waiting_for.id, answer)
        elif one.review is not None:
            if not data:
                raise t.InvalidParamsError(
                    message='a plan waits for a yes or no: answer with a data part, {"approved": true, "hash": "…"}'
                )
            said = _read(PlanReview, {"reason": text, **data}, "parts.data")
            await self._cases.review(who.caller, task.task_id, one.review.version, said)
        else:
            words = "" if one.waiting_for.kind == "question" and "output" in data else text
            reply = _read(QuestionAnswer, {"text": words, **data}, "parts")
            await self._cases.answer(who.caller, task.task_id, one.waiting_for.id, reply)
        return task.task_id, task.last_seq

    async def _updates(self, who: Who, task_id: str, after: int) -> AsyncIterator[Any]:
        first = await self._cases.task(who.caller, task_id)
        yield await self._shown(who.caller, task_id, patient=True)
        if stands(first) and first.last_seq <= after:
            return
        context_id, story = _context(first), Story()
        async for events in events_until_it_stands(self._here, who.caller, who.credentials, task_id, after):
            for event in events:
                if (told := story.after(event)) is not None:
                    message = m.said(task_id, context_id, str(event["seq"]), m.part_of(told[2]))
                    status = m.status_of(m.WORKING, event["ts"], message)
                    yield TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=status)
        last = await self._shown(who.caller, task_id, patient=True)
        for artifact in last.artifacts:
            yield TaskArtifactUpdateEvent(
                task_id=task_id, context_id=context_id, artifact=artifact, last_chunk=True
            )
        yield TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=last.status)

    async def _came_of(self, who: Who, task_id: str) -> Any:
        """The task that was acted on. Who may not read hears how it stands, as with every act over HTTP, and of no result."""
        if who.caller.may("read"):
            return await self._shown(who.caller, task_id, patient=True)
        return _as_task(await self._cases.task(who.acts, task_id))

    async def _shown(
        self, caller: Caller, task_id: str, *, results: bool = True, patient: bool = False
    ) -> Any:
        """A task with what it waits for, or what came of it. `results`: those of success, too, which may be large. `patient`: this very
        call has begun it, or has gone on with it.
        """
        task = await self._cases.task(caller, task_id)
        context_id = _context(task)
        message, artifacts = None, []
        if task.status in ENDED and (results or task.status != "succeeded"):
            with self._here.turns.turn(caller, patient=patient) as turn:
                result = await self._cases.result(caller, task.task_id, begin=turn.begin)
                if result.is_success:
                    artifacts.append(await _artifact(result))
                else:
                    message = m.said(task.task_id, context_id, "reason", m.part_of(result.reason))
        elif task.status not in ENDED and (waiting := await self._cases.waits(caller, task.task_id)):
            message = m.said(task.task_id, context_id, f"asked:{task.last_seq}", *m.asked_of(waiting))
        return _as_task(task, message, artifacts)


def _as_task(task: TaskView, message: Any = None, artifacts: Sequence[Any] = ()) -> Any:
    context_id = _context(task)
    request = m.said(task.task_id, context_id, "request", m.part_of(task.description), role=Role.ROLE_USER)
    return Task(
        id=task.task_id,
        context_id=context_id,
        status=m.status_of(m.state_of(task, waits=stands(task)), task.updated, message),
        artifacts=artifacts,
        history=[request],
    )


async def _artifact(result: TaskResult[Any]) -> Any:
    if weight(result.final_output, AT_ONCE) > AT_ONCE:
        return await beside(m.artifact_of, result)
    return m.artifact_of(result)


def _context(task: TaskView) -> str:
    return task.session_id or task.task_id


def _meant(waiting: list[WaitingTask], name: Any) -> WaitingTask:
    found = [one for one in waiting if name is None or one.waiting_for.id == name]
    if len(found) != 1:
        ids = ", ".join(one.waiting_for.id for one in waiting)
        raise t.InvalidParamsError(
            message=f"parts.data.id: say which is answered, as several may wait; there are {ids}"
        )
    return found[0]


def _read(model: type[M], given: Any, where: str) -> M:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part)[:100] for part in first["loc"])
        raise t.InvalidParamsError(message=f"{where}.{place}: {first['msg']}") from None
