"""What a reader sees of an event: less for a user than for a developer, and less still where a picture is all that is wanted."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from pydantic_core import to_json

from replan.core.events import LlmCallCompleted, LlmCallStarted, LlmToken, Record
from replan.core.types import JsonObject

Mode = Literal["user", "developer"]
LIGHT_BYTES = 1024
"""Of an output in the light view; a larger one is a link."""
_OUTPUTS = ("output", "final_output", "data", "evaluation", "tasks")


class Showing(NamedTuple):
    """How events are shown to one reader. Equal ones are shown the same, and may be encoded together."""

    mode: Mode = "user"
    light: bool = False
    root: str = "/api/v1"
    """What links begin with."""


def shown(record: Record, how: Showing) -> JsonObject:
    """`{seq, task_id, ts, round, type, data}` as that reader sees it. Secrets are masked before: in the log."""
    wire = record.wire()
    data: JsonObject = wire["data"]
    if isinstance(record.event, LlmCallStarted | LlmCallCompleted | LlmToken):
        if how.mode == "user" or how.light:
            data = _without_text(data, how, record)
    elif how.light:
        data = {
            name: _light(value, record, how, data) if name in _OUTPUTS else value
            for name, value in data.items()
        }
    wire["data"] = data
    return wire


def _without_text(data: JsonObject, how: Showing, record: Record) -> JsonObject:
    """A request or an answer of a model without its words."""
    text = data.get("text") or ""
    rest = {name: value for name, value in data.items() if name != "text"}
    if how.mode == "developer":
        return {**rest, "text": _link(len(text.encode()), _event(record, how))}
    return {**rest, "text_bytes": len(text.encode())}


def _light(value: Any, record: Record, how: Showing, data: JsonObject) -> Any:
    size = len(to_json(value, inf_nan_mode="null"))
    if size <= LIGHT_BYTES:
        return value
    step_id = data.get("step_id")
    if isinstance(step_id, str) and "output" in data:
        task = quote(record.task_id, safe="")
        return _link(size, f"{how.root}/tasks/{task}/steps/{quote(step_id, safe='')}/output")
    return _link(size, _event(record, how))


def _link(size: int, href: str) -> JsonObject:
    return {"left_out": True, "bytes": size, "href": href}


def _event(record: Record, how: Showing) -> str:
    """Where the whole event is."""
    task = quote(record.task_id, safe="")
    return f"{how.root}/tasks/{task}/events?after={record.seq - 1}&limit=1"
