"""Events in their stored form: written, read, in their place in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from replan.core.events.calls import CallCompleted, CallStarted, OutcomeSettled, OutcomeUnknown
from replan.core.events.known import KINDS, AnyEvent, UnknownEvent
from replan.core.events.people import ApprovalRequested, QuestionAnswered, QuestionAsked
from replan.core.events.planning import PlanGenerated, PlanUpdated, ToolSelectionCompleted
from replan.core.events.reviews import PlanReviewRequested
from replan.core.events.task import TaskSubmitted, TaskWaiting
from replan.core.types import JsonObject


class Record(NamedTuple):
    """An event in its place in the log."""

    seq: int
    task_id: str
    ts: float
    """Unix seconds."""
    round: int
    event: AnyEvent

    @property
    def type(self) -> str:
        return self.event.type

    def wire(self) -> JsonObject:
        """The form that programs see: `{seq, task_id, ts, round, type, data}`."""
        return {
            "seq": self.seq,
            "task_id": self.task_id,
            "ts": self.ts,
            "round": self.round,
            "type": self.event.type,
            "data": data_of(self.event),
        }


def data_of(event: AnyEvent) -> JsonObject:
    """The `data` of an event as plain JSON values."""
    if isinstance(event, UnknownEvent):
        return event.data
    return event.model_dump(mode="json", exclude={"type"})


def dump(event: AnyEvent) -> str:
    """The `data` of an event as JSON text."""
    if isinstance(event, UnknownEvent):
        import json

        return json.dumps(event.data, ensure_ascii=False)
    return to_json(_fields(event), inf_nan_mode="null").decode()


_LEFT_OUT: Mapping[type, tuple[str, ...]] = {
    TaskSubmitted: ("secrets", "tenant", "by", "workflow", "asked"),
    ToolSelectionCompleted: ("scene", "workflow"),
    PlanGenerated: ("scene", "workflow"),
    ApprovalRequested: ("origin", "expires"),
    PlanUpdated: ("review_id", "by"),
    PlanReviewRequested: ("expires", "problems"),
    CallStarted: ("keys_in",),
    CallCompleted: ("of_call",),
    OutcomeUnknown: ("taken_on",),
    OutcomeSettled: ("at", "refused", "of_call"),
    QuestionAsked: ("answer_schema",),
    QuestionAnswered: ("step_id",),
    TaskWaiting: ("reviews", "secrets"),
}
"""Fields that are not stored where there is nothing in them."""


def _fields(event: AnyEvent) -> JsonObject:
    fields = dict(event.__dict__)  # not the model: the same text in a third of the time
    del fields["type"]
    if not fields["masked"]:
        del fields["masked"]
    if not fields.get("files", True):
        del fields["files"]
    for name in _LEFT_OUT.get(type(event), ()):
        if not fields[name]:
            del fields[name]
    if isinstance(event, TaskWaiting) and not event.until_resumed:
        del fields["because"]
    return fields


def dump_together(events: Sequence[AnyEvent]) -> str:
    """Several events of known kinds as one JSON text: a list of `[type, data]`."""
    return to_json([(event.type, _fields(event)) for event in events], inf_nan_mode="null").decode()


def dump_pair(event: AnyEvent) -> str:
    """One of them."""
    return to_json((event.type, _fields(event)), inf_nan_mode="null").decode()


def split_together(text: str | bytes) -> list[tuple[str, JsonObject]]:
    """The kinds and the `data` of events that were dumped together; `read` makes an event of each."""
    pairs: list[tuple[str, JsonObject]] = from_json(text)
    return pairs


def load(kind: str, data: str | bytes) -> AnyEvent:
    """An event from its stored kind and JSON text; what cannot be read as that kind is kept as unknown."""
    known = KINDS.get(kind)
    if known is not None:
        try:
            return known.model_validate_json(data)  # type: ignore[return-value]
        except ValidationError:
            pass
    import json

    found = json.loads(data)
    return UnknownEvent(type=cast("Any", kind), data=found if isinstance(found, dict) else {"value": found})


def read(kind: str, data: JsonObject) -> AnyEvent:
    """The same, where the JSON text is read already."""
    known = KINDS.get(kind)
    if known is not None:
        try:
            return known.model_validate(data)  # type: ignore[return-value]
        except ValidationError:
            pass
    return UnknownEvent(type=cast("Any", kind), data=data)
