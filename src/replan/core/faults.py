"""What an exception from a tool call means: whose fault, worth another try, and may it have happened.

Decided in code, by the kind of failure, never by a model (specification §5).
"""

from __future__ import annotations

import errno
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from replan.core.types import Category, Fault, ToolSpec
from replan.errors import ToolCallError, UnresolvedReference

FaultKind = Literal[
    "parameter",  # our own check of the parameters: no call was made
    "reference",  # a reference that selects nothing: no call was made
    "refused",  # the connection was refused: no call was made
    "connection_lost",  # cut off after it was made
    "timeout",  # no answer in time
    "http",  # an answer with a status of 400 or more
    "tool",  # an error that the tool itself reports
    "output",  # it answered with something that cannot be kept
    "cancelled",  # stopped by us
    "crashed",  # the process ended before the answer was recorded
    "unknown_tool",  # no such tool
    "unavailable",  # its source is not there
    "approval",  # a person would have to agree, and nobody can be asked: no call was made
    "internal",  # a fault of Replan
]
NOT_MADE = frozenset({"approval", "parameter", "reference", "refused", "unknown_tool", "unavailable"})
TRANSIENT_STATUS = frozenset({408, 425, 429})


def classify(error: BaseException, tool: ToolSpec | None = None, *, now: float | None = None) -> Fault:
    """The fault that an exception of a tool call is. `now` (Unix seconds) turns a Retry-After date into a wait."""
    message = text_of(error)
    if isinstance(error, UnresolvedReference):
        return Fault(category="dependency_error", kind="reference", message=message)
    kind, status, retry_after, happened = _kind_of(error, now)
    if happened is None:
        happened = _happened(kind, status, tool)
    return Fault(
        category=_category(kind, status),
        kind=kind,
        message=message,
        transient=_transient(kind, status),
        happened=happened,
        status=status,
        retry_after=retry_after,
    )


def text_of(error: BaseException) -> str:
    """The error in words; its class where it says nothing, or where the class is half of the message."""
    name = type(error).__name__
    try:
        text = str(error).strip()
    except Exception:  # noqa: BLE001 - a tool's exception may be anything
        return name
    if isinstance(error, ToolCallError | UnresolvedReference) and text:
        return text
    return f"{name}: {text}" if text else name


_Kind = tuple[str, int | None, float | None, Literal["no", "unknown"] | None]
"""Kind, status, seconds to wait, and whether it happened where the error itself says so."""


def _kind_of(error: BaseException, now: float | None) -> _Kind:
    """Libraries are told by the names of their exceptions, so that none has to be imported."""
    if isinstance(error, ToolCallError):
        told: Literal["no", "unknown"] | None = None
        if error.happened is not None:
            told = "no" if error.happened == "no" else "unknown"
        return error.kind, error.status, error.retry_after, told
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        status = _status(at)
        if status is not None and status >= 400:
            return "http", status, _retry_after(at, now), None
        if (kind := _transport_kind(at)) is not None:
            return kind, None, None, None
        at = _cause(at)
    return "tool", None, None, None


def _cause(error: BaseException) -> BaseException | None:
    """What the error was raised from, or wraps: urllib's `reason`, requests' and aiohttp's arguments."""
    for inner in (error.__cause__, _attribute(error, "reason"), *error.args):
        if isinstance(inner, BaseException):
            return inner
    return None


_REFUSED = {
    "ConnectError",
    "ConnectTimeout",
    "ConnectTimeoutError",
    "PoolTimeout",
    "NewConnectionError",
    "ClientConnectorError",
    "EndpointConnectionError",
    "gaierror",
}
_LOST = {
    "TransportError",
    "NetworkError",
    "RemoteProtocolError",
    "ProtocolError",
    "RemoteDisconnected",
    "IncompleteRead",
    "IncompleteReadError",
    "ChunkedEncodingError",
    "ClientConnectionError",
    "ClientPayloadError",
    "SSLEOFError",
    "SSLZeroReturnError",
}
_TIMED_OUT = re.compile(r"(Timeout|TimeoutError|TimeoutException|DeadlineExceeded)$")
_DISCONNECTED = re.compile(r"(ConnectionError|ConnectionClosed\w*|ConnectionLost|Disconnected(Error)?)$")
_GRPC = {"UNAVAILABLE": "connection_lost", "DEADLINE_EXCEEDED": "timeout", "ABORTED": "connection_lost"}


def _transport_kind(error: BaseException, depth: int = 0) -> str | None:
    """How the connection failed, if it did; `refused` only where nothing can have been sent."""
    names = [kind.__name__ for kind in type(error).__mro__]
    if isinstance(error, ConnectionRefusedError) or _REFUSED.intersection(names):
        return "refused"
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "refused"
    if isinstance(error, TimeoutError) or any(_TIMED_OUT.search(name) for name in names):
        return "timeout"
    inner = _cause(error) if depth < 8 else None
    if inner is not None and _transport_kind(inner, depth + 1) == "refused":
        return "refused"
    if isinstance(error, ConnectionError | EOFError) or _LOST.intersection(names):
        return "connection_lost"
    if any(_DISCONNECTED.search(name) for name in names):
        return "connection_lost"
    code = _attribute(error, "code")
    if callable(code) and "RpcError" in names:
        try:
            return _GRPC.get(str(getattr(code(), "name", "")))
        except Exception:  # noqa: BLE001 - somebody else's method
            return None
    return None


def _attribute(holder: object, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a property may raise what it likes
        return None


def _status(error: BaseException) -> int | None:
    for holder in (_attribute(error, "response"), error):
        for name in ("status_code", "status", "code"):
            value = _attribute(holder, name)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return int(value)
    return None


def _retry_after(error: BaseException, now: float | None) -> float | None:
    for holder in (_attribute(error, "response"), error):
        headers = _attribute(holder, "headers")
        try:
            pairs = (
                [(str(name).lower(), value) for name, value in headers.items()] if headers is not None else []
            )
        except Exception:  # noqa: BLE001 - headers of a form that nobody knows
            continue
        for name, value in pairs:
            if name == "retry-after":
                return retry_after_secs(str(value), now)
    return None


def retry_after_secs(value: str, now: float | None) -> float | None:
    """Seconds of a Retry-After header (RFC 9110 §10.2.3): a number, or a date; None for anything else."""
    if re.fullmatch(r"\s*\d{1,9}(\.\d+)?\s*", value):
        return float(value)
    if now is None:
        return None
    try:
        when = parsedate_to_datetime(value)
        return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _transient(kind: str, status: int | None) -> bool:
    if status is not None:
        return status in TRANSIENT_STATUS or status >= 500
    return kind in ("refused", "connection_lost", "timeout", "unavailable")


def _happened(kind: str, status: int | None, tool: ToolSpec | None) -> Literal["no", "unknown"]:
    if kind in NOT_MADE:
        return "no"
    if status is not None:
        return "no" if 400 <= status < 500 and status != 408 else "unknown"
    if kind == "tool":
        return "no" if tool is None or tool.errors_are_clean else "unknown"
    return "unknown"


def _category(kind: str, status: int | None) -> Category:
    if status is not None:
        if status >= 500:
            return "server_error"
        if status in (401, 402, 403, 407, 408, 425, 429, 451):
            return "external_error"
        return "parameter_error"
    match kind:
        case "parameter":
            return "parameter_error"
        case "reference":
            return "dependency_error"
        case "refused" | "connection_lost" | "timeout" | "unavailable" | "cancelled" | "crashed" | "approval":
            return "external_error"
        case "tool" | "output" | "unknown_tool":
            return "tool_error"
        case _:
            return "unknown"


def in_doubt(fault: Fault, tool: ToolSpec) -> bool:
    """True if nobody knows whether an effect that must not be repeated has taken place."""
    return tool.effect == "once" and not tool.honours_key and fault.happened == "unknown"


def may_retry(fault: Fault, tool: ToolSpec) -> bool:
    """True if code alone may make the same call again: a passing fault, and a call that bears repeating."""
    return fault.transient and (tool.effect != "once" or tool.honours_key)
