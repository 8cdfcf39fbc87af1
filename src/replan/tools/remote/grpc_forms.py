"""The gRPC messages of the protocol, from and to what the rest of the package uses."""

from __future__ import annotations

import importlib
from typing import Any

from replan.core.data.strict_json import storable
from replan.core.types import JsonObject
from replan.ports import Progress, ToolProblem
from replan.tools.remote.messages import (
    GRPC_SERVICE,
    PROTOCOL,
    Listing,
    dumps,
    loads,
    problems_to_wire,
    spec_to_wire,
)

pb: Any = importlib.import_module("replan.tools.remote.proto.tools_pb2")
LIST = f"/{GRPC_SERVICE}/ListTools"
EXECUTE = f"/{GRPC_SERVICE}/ExecuteTool"
CANCEL = f"/{GRPC_SERVICE}/CancelTool"
_FIELDS = tuple(pb.Tool.DESCRIPTOR.fields)
_JSON = "_json"
"""How the name of a field ends that holds JSON."""
_WORDS = frozenset({"name", "description"})
"""Texts that are read and nothing more: half a surrogate pair, which a message cannot hold, is replaced in them."""


def listing_message(listing: Listing, known: str) -> Any:
    if known and known == listing.revision:
        return pb.ListToolsResponse(protocol=PROTOCOL, revision=listing.revision, unchanged=True)
    tools, problems = [], list(listing.problems)
    for spec in listing.tools:
        try:
            tools.append(_tool_message(spec_to_wire(spec)))
        except ValueError as error:  # what has no form in a message takes no other tool with it
            problems.append(ToolProblem(f"left out: gRPC has no form for it: {error}", spec.id))
    return pb.ListToolsResponse(
        protocol=PROTOCOL,
        revision=listing.revision,
        tools=tools,
        problems=[
            pb.Problem(**{name: storable(text) for name, text in each.items()})
            for each in problems_to_wire(problems)
        ],
        keys=pb.Keys(store=listing.key_store, durable=listing.keys_are_durable),
        max_request_bytes=listing.max_request_bytes,
    )


def _tool_message(tool: JsonObject) -> Any:
    """`ValueError` for a value that does not fit its field."""
    found: dict[str, Any] = {}
    for field in _FIELDS:
        name = field.name.removesuffix(_JSON)
        value = tool.get(name)
        if name != field.name:
            found[field.name] = dumps(value) if value else b""
        elif value is not None:
            found[field.name] = storable(value) if name in _WORDS else value
    return pb.Tool(**found)


def listing_value(message: Any) -> JsonObject:
    """The listing as its JSON form, as HTTP has it. A tool whose schema is no JSON has the words instead."""
    return {
        "protocol": message.protocol,
        "revision": message.revision,
        "tools": [_tool_value(tool) for tool in message.tools],
        "problems": [{"message": each.message, "tool": each.tool or None} for each in message.problems],
        "keys": {"store": message.keys.store, "durable": message.keys.durable},
        "max_request_bytes": message.max_request_bytes,
    }


def _tool_value(tool: Any) -> JsonObject:
    found: JsonObject = {}
    for field in _FIELDS:
        value, name = getattr(tool, field.name), field.name.removesuffix(_JSON)
        if field.is_repeated:
            found[name] = list(value)
        elif name == field.name:
            if not field.has_presence or tool.HasField(name):
                found[name] = value
        elif value:
            try:
                found[name] = loads(value)
            except ValueError as error:
                found[name] = f"no JSON: {error}"
    return found


def progress_event(progress: Progress) -> Any:
    return pb.ExecuteToolEvent(
        progress=pb.Progress(
            message=storable(progress.message),
            progress=progress.progress,
            total=progress.total,
        )
    )


def progress_value(message: Any) -> Progress:
    return Progress(
        message.message,
        message.progress if message.HasField("progress") else None,
        message.total if message.HasField("total") else None,
    )


def error_message(error: JsonObject) -> Any:
    return pb.Error(**{**error, "message": storable(error.get("message", ""))})


def error_value(message: Any) -> JsonObject:
    found: JsonObject = {"kind": message.kind, "message": message.message, "happened": message.happened}
    for name in ("status", "retry_after"):
        if message.HasField(name):
            found[name] = getattr(message, name)
    return found
