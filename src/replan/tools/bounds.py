"""What sources check around a call, and the errors that they have in common."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from replan.core import trace
from replan.core.data.schemas import parameter_problems
from replan.errors import ToolCallError
from replan.tools.names import nearest

if TYPE_CHECKING:
    from replan.core.types import ToolSpec
    from replan.ports import ToolCall

MAX_RESULT_BYTES = 64 * 2**20
"""An answer may be that large, unless a source is told otherwise: it has to pass through memory."""

FILE_BYTES = 1 << 20
"""Bytes that are no text are a file of the task where they are more than that."""
MOST_FILE_BYTES = 4 * 2**30
"""So large a file may be, unless a source is told otherwise."""

IDLE_SECS = 2.0
"""A connection that was idle for longer is not used again. Many servers (uvicorn, Node.js, Apache) close theirs after
5 s, and of a call that crosses that end nobody can tell whether it was made."""

_KEY_HEADER = re.compile(r"(x-)?idempotency[-_]?key", re.IGNORECASE)


def check_parameters(spec: ToolSpec, call: ToolCall) -> None:
    """`ToolCallError` of kind `parameter` for what does not match the tool's schema; nothing is sent then."""
    if found := parameter_problems(spec, call.parameters):
        text = f"the parameters do not fit tool {spec.id!r}: " + "; ".join(found[:10])
        raise ToolCallError(text, kind="parameter", happened="no")


def unknown_tool(name: str, source: str, known: Collection[str]) -> ToolCallError:
    """The error for a tool that the source does not have. It names the nearest; where none is like it, what there is."""
    near = nearest(name, known)
    hint = (
        f"the nearest are: {', '.join(near)}" if near else f"it has: {', '.join(list(known)[:20]) or 'none'}"
    )
    return ToolCallError(
        f"there is no tool {name!r} in {source!r}; {hint}", kind="unknown_tool", happened="no"
    )


def too_large(tool_id: str, limit: int) -> ToolCallError:
    """The error for an answer that is given up at `limit` bytes; by then the call has been made."""
    return ToolCallError(
        f"the answer of {tool_id!r} is larger than {limit:,} bytes", kind="output", happened="unknown"
    )


def is_idempotency_key(header: str) -> bool:
    """True for a header that holds the key of a call: it is Replan's, never a model's."""
    return _KEY_HEADER.fullmatch(header) is not None


def traceparent(call: ToolCall) -> str:
    """The call as a `traceparent` header (W3C Trace Context): one trace a task, one span an attempt."""
    return trace.traceparent(
        call.trace or trace.trace_of(call.task_id), trace.span_of(call.key, call.attempt)
    )
