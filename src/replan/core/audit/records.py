"""The audit record of an event: what a task has done, and who had it do so, for people who were not there.

`{timestamp, service, module, level, message, task_id, fields}`; `fields` has the event's `seq`, by which one that came twice is told. A record is made of
its event alone, so that the same event gives the same record whenever it is delivered, and is bounded, whatever stands in the event.
"""

from __future__ import annotations

import time
from typing import Any

from pydantic_core import to_json

from replan.core import events as e
from replan.core.audit.said import said_of
from replan.core.types import JsonObject
from replan.core.words import beginning, one_line

SERVICE = "task-orchestration-service"
MOST_BYTES = 4_000
"""Of one field, as JSON."""
SHOWN_CHARS = 1_000
"""Of the beginning of one that is longer."""
_LATEST_TS = 253_402_300_799.0
"""The last second of the year 9999."""


def audit_record(record: e.Record) -> JsonObject | None:
    """The audit record of an event; None for one that is no matter of audit."""
    said = said_of(record.event)
    if said is None:
        return None
    place = {"seq": record.seq, "event": record.type, "round": record.round}
    return {
        "timestamp": moment(record.ts),
        "service": SERVICE,
        "module": said.module,
        "level": said.level,
        "message": beginning(one_line(beginning(said.message)), 300),
        "task_id": record.task_id,
        "fields": place | {name: bounded(value) for name, value in said.fields.items()},
    }


def essence(record: JsonObject) -> JsonObject:
    """The same record as small as it can be told, with the size that it had."""
    fields = record["fields"]
    place = {name: fields[name] for name in ("seq", "event", "round")}
    kept = {name: fields[name] for name in ("phase", "replanning") if name in fields}
    size = len(to_json(record, inf_nan_mode="null"))
    return record | {
        "message": beginning(record["message"], 100),
        "fields": {**place, **kept, "cut": {"bytes": size}},
    }


def bounded(value: Any) -> Any:
    """The value, or where it is too large its beginning and its size."""
    if isinstance(value, str) and len(value) <= SHOWN_CHARS:
        return value
    text = to_json(value, inf_nan_mode="null", serialize_unknown=True)
    if len(text) <= MOST_BYTES:
        return value
    told = value[:SHOWN_CHARS] if isinstance(value, str) else text[:SHOWN_CHARS].decode("utf-8", "ignore")
    return {"beginning": told, "bytes": len(text)}


def moment(ts: float) -> str:
    """A time as ISO 8601 has it, whatever number it is."""
    held = min(max(ts, 0.0), _LATEST_TS) if ts == ts else 0.0
    millis = int(held * 1000) % 1000
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(held)) + f".{millis:03}Z"
