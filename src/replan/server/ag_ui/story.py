"""Events of a task in AG-UI's own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic_core import to_json

from replan.core.report.result import TaskResult, WaitingFor
from replan.core.types import JsonObject
from replan.run.access.views import TaskView, WaitingTask

PROTOCOL_VERSION = "1.0"
_STEP_ENDS = frozenset({"step_completed", "step_failed", "step_skipped"})
_PLANS = frozenset({"plan_generated", "plan_updated"})
_APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "hash": {"type": "string", "description": "That of `metadata.hash`; a yes has to give it."},
        "reason": {"type": "string"},
        "parameters": {"type": "object"},
    },
    "required": ["approved"],
}
_REVIEW = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "hash": {"type": "string", "description": "That of `metadata.hash`; a yes has to give it."},
        "reason": {"type": "string"},
        "plan": {"type": "object", "description": "Another plan in its place, whole."},
    },
    "required": ["approved"],
}
_ANSWER = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "output": {}},
    "required": ["text"],
}


class Story:
    """One run, told. Whatever it has opened it closes before its end."""

    def __init__(self, thread_id: str, run_id: str, task_id: str) -> None:
        self._run = {"thread_id": thread_id, "run_id": run_id}
        self._task_id = task_id
        self._steps: dict[str, None] = {}
        self._calls: dict[str, str] = {}
        """Calls that were told of and have no result yet, by key: the message that will have it."""

    def begins(self, task: TaskView) -> Iterator[BaseEvent]:
        yield RunStartedEvent(**self._run, protocol_version=PROTOCOL_VERSION)
        yield self.state(task)

    @staticmethod
    def state(task: TaskView, plan: Any = None) -> BaseEvent:
        shown = task.model_dump(mode="json", exclude={"tenant"})
        return StateSnapshotEvent(snapshot=shown if plan is None else {**shown, "plan": plan})

    @staticmethod
    def plan_of(event: JsonObject) -> Any:
        """The plan that an event brings; None: it brings none."""
        return event["data"]["plan"] if event["type"] in _PLANS else None

    def after(self, event: JsonObject) -> Iterator[BaseEvent]:
        """What this event is told by."""
        kind, data = event["type"], event["data"]
        at: dict[str, Any] = {"timestamp": int(event["ts"] * 1000)}
        if kind == "step_started" and data["step_id"] not in self._steps:
            self._steps[data["step_id"]] = None
            yield StepStartedEvent(step_name=data["step_id"], **at)
        elif kind in _STEP_ENDS and data["step_id"] in self._steps:
            del self._steps[data["step_id"]]
            yield StepFinishedEvent(step_name=data["step_id"], **at)
        elif kind == "call_started" and data["call_key"] not in self._calls:
            key = data["call_key"]
            self._calls[key] = f"{self._task_id}:{event['seq']}"
            yield ToolCallStartEvent(tool_call_id=key, tool_call_name=data["tool_id"], **at)
            yield ToolCallArgsEvent(tool_call_id=key, delta=_text(data["parameters"]), **at)
            yield ToolCallEndEvent(tool_call_id=key, **at)
        elif kind == "call_completed" and data["call_key"] in self._calls:
            kept = data.get("artifact")
            yield self._result(data["call_key"], _text(data["output"] if kept is None else kept), at)
        elif kind == "call_failed" and data["retry_in_secs"] is None and data["call_key"] in self._calls:
            yield self._result(data["call_key"], data["error"]["message"], at)

    def ends(self, result: TaskResult[Any], state: BaseEvent) -> Iterator[BaseEvent]:
        """The task has ended."""
        yield from self._closed()
        yield state
        if result.is_success:
            message = {"message_id": f"{self._task_id}:answer"}
            yield TextMessageStartEvent(**message, role="assistant")
            yield TextMessageContentEvent(**message, delta=_text(result.final_output))
            yield TextMessageEndEvent(**message)
            told = result.model_dump(
                mode="json", include={"task_id", "status", "final_output", "final_score"}
            )
            yield RunFinishedEvent(**self._run, result=told, outcome=RunFinishedSuccessOutcome())
        elif result.status == "cancelled":
            yield RunFinishedEvent(**self._run, outcome=RunFinishedCancelledOutcome())
        else:
            kind = result.failure.kind if result.failure is not None else result.status
            yield RunErrorEvent(message=result.reason or result.status, code=kind)

    def waits(self, waiting: list[WaitingTask], state: BaseEvent) -> Iterator[BaseEvent]:
        """It goes on once somebody has answered."""
        yield from self._closed()
        yield state
        outcome = RunFinishedInterruptOutcome(interrupts=[_interrupt(one) for one in waiting])
        yield RunFinishedEvent(**self._run, outcome=outcome)

    def breaks_off(self, why: str, code: str) -> Iterator[BaseEvent]:
        """Nothing more is told of it here."""
        yield from self._closed()
        yield RunErrorEvent(message=why, code=code)

    def _result(self, key: str, content: str, at: dict[str, Any]) -> BaseEvent:
        return ToolCallResultEvent(
            message_id=self._calls.pop(key), tool_call_id=key, content=content, role="tool", **at
        )

    def _closed(self) -> Iterator[BaseEvent]:
        for step in list(self._steps):
            yield StepFinishedEvent(step_name=step)
        self._steps.clear()


def _interrupt(waiting: WaitingTask) -> Interrupt:
    one = waiting.waiting_for
    schema = {"approval": _APPROVAL, "review": _REVIEW}.get(one.kind)
    until = waiting.expires
    return Interrupt(
        id=f"{waiting.task_id}/{one.id}",
        reason=one.kind,
        message=one.text,
        response_schema=schema or (_answer(one) if one.id else None),
        expires_at=None if until is None else datetime.fromtimestamp(until, UTC).isoformat(),
        metadata={
            "hash": waiting.hash,
            "background": one.background,
            "step_id": one.step_id,
            "tool_id": one.tool_id,
            "parameters": one.parameters,
            **({"review": waiting.review.model_dump(mode="json")} if waiting.review is not None else {}),
        },
    )


def _answer(one: WaitingFor) -> JsonObject:
    """What answers a question: words, or the value that a step asks for."""
    if one.kind != "question":
        return _ANSWER
    refers = '"$ref"' in _text(one.answer_schema)  # it is not the same inside another schema
    either = {"text": {"type": "string"}, "output": {} if refers else one.answer_schema}
    return {"type": "object", "properties": either, "minProperties": 1}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()
