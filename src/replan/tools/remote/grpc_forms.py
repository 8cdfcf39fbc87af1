"""The gRPC messages of the protocol, from and to what the rest of the package uses."""

from __future__ import annotations

import importlib
from typing import Any

from replan.core.types import JsonObject
from replan.ports import Progress
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
_LISTS = ("aliases", "output_params", "secrets")
_PLAIN = ("id", "name", "description", "effect", "volatile", "honours_key", "requires_approval")
_OPTIONAL = ("timeout_secs", "errors_are_clean")


def listing_message(listing: Listing, known: str) -> Any:
    if known and known == listing.revision:
        return pb.ListToolsResponse(protocol=PROTOCOL, revision=listing.revision, unchanged=True)
    return pb.ListToolsResponse(
        protocol=PROTOCOL,
        revision=listing.revision,
        tools=[_tool_message(spec_to_wire(spec)) for spec in listing.tools],
        problems=[pb.Problem(**each) for each in problems_to_wire(listing.problems)],
        keys=pb.Keys(store=listing.key_store, durable=listing.keys_are_durable),
        max_request_bytes=listing.max_request_bytes,
    )


def _tool_message(tool: JsonObject) -> Any:
    forms = {
        f"{name}_json": dumps(tool.pop(name)) for name in ("parameters", "output_schema") if tool.get(name)
    }
    return pb.Tool(**{name: value for name, value in tool.items() if value is not None}, **forms)


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
    found: JsonObject = {name: getattr(tool, name) for name in _PLAIN}
    found |= {name: list(getattr(tool, name)) for name in _LISTS}
    found |= {name: getattr(tool, name) for name in _OPTIONAL if tool.HasField(name)}
    for name in ("parameters", "output_schema"):
        if data := getattr(tool, f"{name}_json"):
            try:
                found[name] = loads(data)
            except ValueError as error:
                found[name] = f"no JSON: {error}"
    return found


def progress_event(progress: Progress) -> Any:
    return pb.ExecuteToolEvent(
        progress=pb.Progress(
            message=progress.message.encode("utf-8", "replace").decode(),
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
    return pb.Error(**error)


def error_value(message: Any) -> JsonObject:
    found: JsonObject = {"kind": message.kind, "message": message.message, "happened": message.happened}
    for name in ("status", "retry_after"):
        if message.HasField(name):
            found[name] = getattr(message, name)
    return found
