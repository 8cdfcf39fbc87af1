"""What went wrong with a call, as the library raises it, in our terms."""

from __future__ import annotations

import re

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from replan.errors import ToolCallError
from replan.tools.bounds import too_large
from replan.tools.mcp.http import SessionExpired
from replan.tools.mcp.stdio import TOO_LARGE

_TOO_LARGE = re.compile(r"Server-sent event exceeded the (\d+) byte limit")
_NO_TOOL = re.compile(
    r"\b(unknown tool|tool .{0,200}not found|no such tool|not found|method not found)\b", re.IGNORECASE
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
        text = f"the answer of {tool_id!r} is no valid result of MCP: {where}: {first['msg']}"
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
    code, said = error.code, error.message.strip() or f"error {error.code}"
    if code == TOO_LARGE or _TOO_LARGE.search(said):
        return too_large(tool_id, max_bytes)
    if code == types.PARSE_ERROR:
        return ToolCallError(
            f"the answer of {tool_id!r} cannot be read: {said}", kind="output", happened="unknown"
        )
    if code == types.REQUEST_TIMEOUT:
        return ToolCallError(f"{server} did not answer in time: {said}", kind="timeout", happened="unknown")
    if code == types.CONNECTION_CLOSED:
        text = f"the connection to {server} was lost: {said}"
        return ToolCallError(text, kind="connection_lost", happened="unknown")
    if code == types.INVALID_REQUEST and "session" in said.lower():
        return SessionExpired(f"{server}: {said}")
    if code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
        kind = "unknown_tool" if code == types.METHOD_NOT_FOUND or _NO_TOOL.search(said) else "parameter"
        return ToolCallError(
            f"{server} does not take the call of {tool_id!r}: {said}", kind=kind, happened="no"
        )
    if code in (types.INVALID_REQUEST, types.HEADER_MISMATCH, types.UNSUPPORTED_PROTOCOL_VERSION):
        return ToolCallError(f"{server} does not take the request: {said}", kind="unavailable", happened="no")
    if code == types.URL_ELICITATION_REQUIRED:
        return ToolCallError(f"{tool_id!r} needs a person to open an address first: {said}", happened="no")
    happened = "unknown" if code == types.INTERNAL_ERROR else None
    return ToolCallError(f"{said} (code {code})", happened=happened)


def is_gone(error: ToolCallError) -> bool:
    """Whether the connection cannot be used any more after this."""
    return error.kind in ("refused", "connection_lost") or isinstance(error, SessionExpired)
