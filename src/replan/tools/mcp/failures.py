"""What went wrong with a call, as the library raises it, in our terms."""

from __future__ import annotations

import json
import re
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from replan.core.failures.doubt import refusal_speaks_of_doubt
from replan.errors import ToolCallError
from replan.tools.bounds import too_large
from replan.tools.mcp.stdio import TOO_LARGE
from replan.tools.mcp.traffic import OfServer

_SHOWN = 1_000
"""So many characters of an error's data are told."""
_TOO_LARGE = re.compile(r"Server-sent event exceeded the (\d+) byte limit")
_NO_TOOL = (
    r"\b(unknown tool|no such tool|no tool (named|with (the )?name))\W{{0,3}}{name}(?![\w-])"
    r"|\btool\W{{1,3}}{name}\W{{1,2}}((was|is) )?(not found|unknown)|\btool\W{{1,3}}{name}\W{{1,2}}does not exist"
)


def failure(error: BaseException, tool_id: str, server: str, max_bytes: int) -> ToolCallError:
    """The typed error for what a call of the tool has raised."""
    if isinstance(error, ToolCallError):
        return error
    if isinstance(error, MCPError):
        return _answered(error, tool_id, server, max_bytes)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        text = f"the answer of {tool_id!r} is not a valid result of MCP: {where}: {first['msg']}"
        return ToolCallError(text, kind="output", happened="unknown")
    if type(error).__name__ == "InputRequiredRoundsExceededError":
        return ToolCallError(
            f"{tool_id!r} asks for input without end: {error}", kind="output", happened="unknown"
        )
    said = str(error) or type(error).__name__
    return ToolCallError(
        f"the connection to {server} broke off: {said}", kind="connection_lost", happened="unknown"
    )


def _answered(error: MCPError, tool_id: str, server: str, max_bytes: int) -> ToolCallError:
    sent = isinstance(error.data, OfServer)
    data = error.data.data if isinstance(error.data, OfServer) else error.data
    code, said = error.code, with_remedy(error.message.strip()) or f"error {error.code}"
    if data not in (None, "", {}, []):
        said = f"{said} ({_beginning(data)})"
    if code == TOO_LARGE or _TOO_LARGE.search(said):
        return too_large(tool_id, max_bytes)
    if code == types.PARSE_ERROR:
        return ToolCallError(
            f"the answer of {tool_id!r} cannot be read: {said}", kind="output", happened="unknown"
        )
    if code == types.REQUEST_TIMEOUT and not sent:
        return ToolCallError(f"{server} did not answer in time: {said}", kind="timeout", happened="unknown")
    if code == types.CONNECTION_CLOSED and (
        not sent or said.startswith("SSE stream")
    ):  # the library's words for it
        text = f"the connection to {server} was lost: {said}"
        return ToolCallError(text, kind="connection_lost", happened="unknown")
    happened = "unknown" if code == types.INTERNAL_ERROR else None
    reported = ToolCallError(f"{said} (code {code})", happened=happened)
    missing = says_no_such_tool(said, tool_id)
    if code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND) and (
        missing or not refusal_speaks_of_doubt(said)
    ):
        kind = "unknown_tool" if code == types.METHOD_NOT_FOUND or missing else "parameter"
        return ToolCallError(
            f"{server} does not take the call of {tool_id!r}: {said}", kind=kind, happened="no"
        )
    if code in (types.INVALID_REQUEST, types.HEADER_MISMATCH, types.UNSUPPORTED_PROTOCOL_VERSION):
        # The server's answer to this call, whatever its words: nothing that asking again would change.
        return ToolCallError(f"{server} does not take the request: {said}")
    if code == types.URL_ELICITATION_REQUIRED:
        return ToolCallError(f"{tool_id!r} needs a person to open an address first: {said}", happened="no")
    return reported


def _beginning(data: Any) -> str:
    """The beginning of what an error carries beside its words, as JSON: a large one is not written as a whole."""
    text = ""
    for part in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(data):
        text += part[:_SHOWN]
        if len(text) > _SHOWN:
            return text[:_SHOWN] + "…"
    return text


_ASKED_BACK = re.compile(r"back-channel|elicitation/create", re.IGNORECASE)
_REMEDY = (
    " (its tool asks a person in the way of the protocols before 2026-07-28, which the newest has no more; "
    'let it be spoken to in an older one: McpSource(…, protocol="legacy"), or "protocol": "legacy" in its entry)'
)


def with_remedy(said: str) -> str:
    """The words of an error, and what to do where a server cannot put its question in the protocol that was agreed on."""
    return said + _REMEDY if _ASKED_BACK.search(said[:2000]) else said


def says_no_such_tool(said: str, tool_id: str) -> bool:
    """Whether it is this very tool that is said to be unknown; whatever else is not found is a parameter's affair."""
    return re.search(_NO_TOOL.format(name=re.escape(tool_id)), said[:2000], re.IGNORECASE) is not None


def is_gone(error: ToolCallError) -> bool:
    """Whether the connection cannot be used any more after this."""
    if error.kind == "http":
        # Some servers have 400 for a session that they forgot: the next call begins a new one, this one is over.
        return error.status in (400, 404)
    return error.kind in ("refused", "connection_lost")
