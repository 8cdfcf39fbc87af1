"""Tasks, states and errors of the service as A2A has them, and its messages as the service takes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from a2a import types as t
from a2a.types import Artifact, Message, Part, Role, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp

from replan import errors as e
from replan.core.report.result import TaskResult
from replan.core.types import JsonObject
from replan.run.access.views import TaskView, WaitingTask
from replan.server.problems import problem_of

_STATES: dict[str, Any] = {
    "queued": TaskState.TASK_STATE_SUBMITTED,
    "waiting": TaskState.TASK_STATE_INPUT_REQUIRED,
    "succeeded": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "timed_out": TaskState.TASK_STATE_FAILED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
}
"""Every other status is work."""
WORKING = TaskState.TASK_STATE_WORKING
STATUSES: dict[int, tuple[str, ...]] = {
    TaskState.TASK_STATE_WORKING: ("planning", "executing", "evaluating", "reflecting", "replanning"),
    **{state: tuple(status for status, one in _STATES.items() if one == state) for state in _STATES.values()},
}
"""The statuses that a state stands for."""


def state_of(task: TaskView, *, waits: bool) -> Any:
    """`waits`: for somebody, and not for a time alone."""
    if task.status == "waiting" and not waits:
        return WORKING
    return _STATES.get(task.status, WORKING)


def said(task_id: str, context_id: str, name: str, *parts: Any, role: Any = Role.ROLE_AGENT) -> Any:
    """A message of a task; `name` tells it from the others of the task."""
    return Message(
        message_id=f"{task_id}:{name}", task_id=task_id, context_id=context_id, role=role, parts=list(parts)
    )


def part_of(value: Any) -> Any:
    """A text as a text, anything else as data."""
    if isinstance(value, str):
        return Part(text=value)
    return Part(data=ParseDict(value, Value()), media_type="application/json")


def status_of(state: Any, at: float, message: Any = None) -> Any:
    time = Timestamp()
    time.FromDatetime(datetime.fromtimestamp(at, UTC).replace(tzinfo=None))
    return TaskStatus(state=state, timestamp=time, message=message)


def artifact_of(result: TaskResult[Any]) -> Any:
    """The answer."""
    return Artifact(artifact_id="result", name="result", parts=[part_of(result.final_output)])


def asked_of(waiting: list[WaitingTask]) -> list[Any]:
    """What a person is asked: in words, and as data with what an answer has to name."""
    found = [
        {
            "id": one.waiting_for.id,
            "kind": one.waiting_for.kind,
            "text": one.waiting_for.text,
            "tool_id": one.waiting_for.tool_id,
            "parameters": one.waiting_for.parameters,
            "hash": one.hash,
            **({"review": one.review.model_dump(mode="json")} if one.review is not None else {}),
            **({"answer_schema": one.waiting_for.answer_schema} if one.waiting_for.answer_schema else {}),
        }
        for one in waiting
    ]
    words = "\n".join(one.waiting_for.text for one in waiting)
    return [part_of(words), part_of({"waiting": found})]


def text_and_data(message: Any) -> tuple[str, JsonObject]:
    """What a message says, and the objects in it laid over each other. `ContentTypeNotSupportedError` for files."""
    texts: list[str] = []
    data: JsonObject = {}
    for part in message.parts:
        kind = part.WhichOneof("content")
        if kind == "text":
            texts.append(part.text)
        elif kind == "data":
            value = MessageToDict(part.data)
            if not isinstance(value, dict):
                raise t.InvalidParamsError(message="message.parts: data has to be an object here")
            data.update(value)
        else:
            raise t.ContentTypeNotSupportedError(message="message.parts: text and data are taken, no files")
    return "\n".join(texts).strip(), data


@contextlib.contextmanager
def as_a2a(*, cancelling: bool = False) -> Iterator[None]:
    """Errors of the service as errors of the protocol, some of which are those of one method."""
    try:
        yield
    except e.ReplanError as error:
        problem = problem_of(error)
        kind = t.InternalError
        if isinstance(error, e.TaskNotFound):
            kind = t.TaskNotFoundError
        elif cancelling and isinstance(error, e.TaskEnded | e.TooLate):
            kind = t.TaskNotCancelableError
        elif isinstance(error, e.TaskEnded):
            kind = t.UnsupportedOperationError
        elif isinstance(error, e.NotAllowed | e.NotSignedIn | e.TooMany):
            kind = t.InvalidRequestError
        elif problem.kind.status in (404, 409, 422):
            kind = t.InvalidParamsError
        raise kind(message=problem.detail, data={"problem": problem.kind.name}) from None
