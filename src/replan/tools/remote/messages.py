"""What goes over the wire, the same for HTTP and gRPC (docs/reference/tool-service.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from replan.core.failures.asked_waits import seconds_asked
from replan.core.failures.faults import FaultKind
from replan.core.references.kept import without_files
from replan.core.types import JsonObject, ToolSpec
from replan.errors import ToolCallError
from replan.ports import ToolProblem
from replan.tools.large_json import parsed

PROTOCOL = "replan-tools/1"
LIST_PATH = "/v1/tools"
EXECUTE_PATH = "/v1/execute"
CANCEL_PATH = "/v1/cancel"
HEALTH_PATH = "/healthz"
JSON_TYPE = "application/json"
STREAM_TYPE = "application/x-ndjson"
GRPC_SERVICE = "replan.tools.v1.ToolService"
GRPC_HEALTH = "grpc.health.v1.Health"
ERROR_METADATA = "replan-error-bin"
"""Trailing metadata of a gRPC call that was turned away: the error as JSON in UTF-8."""
MAX_REQUEST_BYTES = 16 * 2**20
KINDS = frozenset(get_args(FaultKind))
NOT_SENT = frozenset(
    {
        "source", "in_process", "keys_in", "verify", "counterparts", "waits", "asks_model", "sample",
        "plain_description",
    }
)  # fmt: skip
"""Of a tool: what only the side that calls it can know, or decide."""
SPEC_FIELDS = tuple(name for name in ToolSpec.model_fields if name not in NOT_SENT)


class Execute(NamedTuple):
    """One `ExecuteTool`. `call_id`: a random name of this very request, by which it can be cancelled."""

    tool: str
    parameters: JsonObject
    key: str = ""
    key_store: str = ""
    task_id: str = ""
    step_id: str = ""
    attempt: int = 1
    call_id: str = ""
    deadline_secs: float | None = None
    traceparent: str = ""


class Listing(NamedTuple):
    """One answer to `ListTools`. `key_store` is empty where keys are not honoured."""

    revision: str
    tools: tuple[ToolSpec, ...]
    problems: tuple[ToolProblem, ...] = ()
    key_store: str = ""
    keys_are_durable: bool = False
    max_request_bytes: int = MAX_REQUEST_BYTES


def dumps(value: Any) -> bytes:
    """JSON as it goes over the wire: UTF-8, one line. A lone surrogate, which UTF-8 cannot hold, stays escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def loads(data: bytes | str) -> Any:
    """JSON of the other side; `ValueError` for all that is none, NaN and too deep a nesting included."""
    return parsed(data)


def spec_to_wire(spec: ToolSpec) -> JsonObject:
    """A tool as `ListTools` says it; what is not said has its default."""
    found = spec.model_dump(mode="json", include=set(SPEC_FIELDS), exclude_defaults=True)
    return {"id": spec.id, "effect": spec.effect, "parameters": spec.parameters, **found}


def specs_from_wire(
    tools: Any, *, source: str, keys_are_durable: bool
) -> tuple[list[ToolSpec], list[ToolProblem]]:
    """The tools of a listing, and why others are left out. `ValueError` if it is no list at all."""
    if not isinstance(tools, list):
        raise ValueError(f"`tools` is a list of objects, not {type(tools).__name__}")
    specs: list[ToolSpec] = []
    problems: list[ToolProblem] = []
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict):
            problems.append(ToolProblem(f"left out: tool {index} is not an object but {type(tool).__name__}"))
            continue
        named = tool.get("id") if isinstance(tool.get("id"), str) else None
        if not named:
            problems.append(ToolProblem("left out: its id is missing or empty", f"tool {index}"))
            continue
        if tool.get("effect") not in ("reads", "repeatable", "once"):
            text = (
                f"its effect is {tool.get('effect')!r}, taken as 'once'; reads, repeatable or once is right"
            )
            problems.append(ToolProblem(text, named))
            tool = {**tool, "effect": "once"}
        try:
            spec = ToolSpec.model_validate({name: tool[name] for name in SPEC_FIELDS if name in tool})
        except ValidationError as error:
            problems.append(ToolProblem(f"left out: {_in_words(error)}", named))
            continue
        # What is no `once` to the server, it may make again whatever it remembers; the user may know better.
        kept = keys_are_durable and spec.effect == "once"
        changed = {
            "source": source,
            "honours_key": spec.honours_key or kept,
            "parameters": without_files(spec.parameters),
        }
        specs.append(spec.model_copy(update=changed))
    return specs, problems


def _in_words(error: ValidationError) -> str:
    found = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5]]
    return "; ".join(found)


def listing_from_wire(value: Any, *, source: str) -> Listing:
    """A listing as the other side said it; `ValueError` in words if it is none."""
    if not isinstance(value, dict):
        raise ValueError(f"a listing is an object, not {type(value).__name__}")
    protocol = value.get("protocol")
    if protocol != PROTOCOL:
        raise ValueError(f"`protocol` is {protocol!r}; {PROTOCOL!r} is what can be spoken")
    keys = value.get("keys") or {}
    store = keys.get("store", "") if isinstance(keys, dict) else ""
    durable = isinstance(store, str) and bool(store) and keys.get("durable") is True
    specs, problems = specs_from_wire(value.get("tools"), source=source, keys_are_durable=durable)
    for each in value.get("problems") or ():
        if isinstance(each, dict) and isinstance(each.get("message"), str):
            tool = each.get("tool")
            problems.append(ToolProblem(each["message"], tool if isinstance(tool, str) else None))
    limit = value.get("max_request_bytes")
    return Listing(
        revision=str(value.get("revision", "")),
        tools=tuple(specs),
        problems=tuple(problems),
        key_store=store if isinstance(store, str) else "",
        keys_are_durable=durable,
        max_request_bytes=limit if type(limit) is int and limit > 0 else MAX_REQUEST_BYTES,
    )


def error_to_wire(error: ToolCallError) -> JsonObject:
    """A failed call as the answer says it; `happened` is always said."""
    found: JsonObject = {"kind": error.kind, "message": str(error), "happened": error.happened or "unknown"}
    if error.status is not None:
        found["status"] = error.status
    if error.retry_after is not None:
        found["retry_after"] = error.retry_after
    return found


def error_from_wire(value: Any) -> ToolCallError:
    """The error that an answer says; what is not said clearly counts as unknown."""
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        return ToolCallError(
            "the tool service answered with an error of no known form (message, kind, happened)",
            kind="output",
            happened="unknown",
        )
    kind, status, wait = value.get("kind"), value.get("status"), value.get("retry_after")
    return ToolCallError(
        value["message"] or "the tool failed without a word",
        kind=kind if isinstance(kind, str) and kind in KINDS else "tool",
        happened="no" if value.get("happened") == "no" else "unknown",
        status=status if type(status) is int and 100 <= status < 600 else None,
        retry_after=seconds_asked(wait),
    )


def execute_from_wire(value: Any, traceparent: str = "") -> Execute:
    """An `ExecuteTool` as the client said it; `ToolCallError` (nothing was done) names what is wrong."""
    if not isinstance(value, dict):
        raise wrong_request(f"the request is an object, not {type(value).__name__}")
    unknown = sorted(set(value) - set(Execute._fields))
    if unknown:
        raise wrong_request(f"unknown fields: {', '.join(unknown)}; known are {', '.join(Execute._fields)}")
    for name in ("tool", "key", "key_store", "task_id", "step_id", "call_id"):
        if not isinstance(value.get(name, ""), str):
            raise wrong_request(f"{name} is a text, not {type(value[name]).__name__}")
    if not value.get("tool"):
        raise wrong_request("`tool` is missing: the id of the tool")
    if not isinstance(value.get("parameters", {}), dict):
        raise wrong_request(f"parameters is an object, not {type(value['parameters']).__name__}")
    attempt, secs = value.get("attempt", 1), value.get("deadline_secs")
    if type(attempt) is not int or attempt < 1:
        raise wrong_request(f"attempt is a whole number from 1, not {attempt!r}")
    if secs is not None and (
        isinstance(secs, bool) or not isinstance(secs, int | float) or not math.isfinite(secs) or secs <= 0
    ):
        raise wrong_request(f"deadline_secs is a number of seconds above 0, not {secs!r}")
    return Execute(**{"parameters": {}, **value, "traceparent": value.get("traceparent") or traceparent})


def wrong_request(message: str) -> ToolCallError:
    return ToolCallError(message, kind="parameter", happened="no", status=400)


def events_of(value: Any) -> Mapping[str, Any]:
    """One event of an answer: an object with `progress`, `output` or `error`; `ValueError` for anything else."""
    if isinstance(value, dict) and len({"progress", "output", "error"} & set(value)) == 1:
        return value
    raise ValueError("an event is an object with one of progress, output and error")


def problems_to_wire(problems: Sequence[ToolProblem]) -> list[JsonObject]:
    return [{"message": each.message, **({"tool": each.tool} if each.tool else {})} for each in problems]
