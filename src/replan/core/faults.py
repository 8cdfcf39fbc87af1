"""What an exception from a tool call means: whose fault, worth another try, and may it have happened.

Decided in code, by the kind of failure, never by a model (specification §5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    "internal",  # a fault of Replan
]
NOT_MADE = frozenset({"parameter", "reference", "refused", "unknown_tool", "unavailable"})
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
    text = str(error).strip()
    if isinstance(error, ToolCallError | UnresolvedReference) and text:
        return text
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _kind_of(
    error: BaseException, now: float | None
) -> tuple[str, int | None, float | None, Literal["no", "unknown"] | None]:
    if isinstance(error, ToolCallError):
        told: Literal["no", "unknown"] | None = None
        if error.happened is not None:
            told = "no" if error.happened == "no" else "unknown"
        return error.kind, error.status, error.retry_after, told
    names = {kind.__name__ for kind in type(error).__mro__}
    status = _status(error)
    if status is not None and status >= 400:
        return "http", status, _retry_after(error, now), None
    if isinstance(error, ConnectionRefusedError) or names & {"ConnectError", "ConnectTimeout", "NewConnectionError"}:
        return "refused", None, None, None
    if isinstance(error, TimeoutError) or names & {"TimeoutException", "Timeout", "ReadTimeout"}:
        return "timeout", None, None, None
    reason = getattr(error, "reason", None)  # urllib wraps the cause
    if isinstance(reason, ConnectionRefusedError):
        return "refused", None, None, None
    if isinstance(reason, TimeoutError):
        return "timeout", None, None, None
    lost = {"TransportError", "NetworkError", "RemoteProtocolError", "RemoteDisconnected", "IncompleteRead"}
    if isinstance(error, ConnectionError | EOFError) or isinstance(reason, ConnectionError) or names & lost:
        return "connection_lost", None, None, None
    return "tool", None, None, None


def _status(error: BaseException) -> int | None:
    for holder in (getattr(error, "response", None), error):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return value
    return None


def _retry_after(error: BaseException, now: float | None) -> float | None:
    for holder in (getattr(error, "response", None), error):
        headers = getattr(holder, "headers", None)
        if isinstance(headers, Mapping) or hasattr(headers, "get"):
            value: Any = headers.get("Retry-After") or headers.get("retry-after")  # type: ignore[union-attr]
            if value is not None:
                return retry_after_secs(str(value), now)
    return None


def retry_after_secs(value: str, now: float | None) -> float | None:
    """Seconds of a Retry-After header (RFC 9110 §10.2.3): a number, or a date."""
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
        return float(value)
    try:
        return None if now is None else max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (TypeError, ValueError):
        return None


def _transient(kind: str, status: int | None) -> bool:
    if kind == "http" and status is not None:
        return status in TRANSIENT_STATUS or status >= 500
    if status is not None and (status in TRANSIENT_STATUS or status >= 500):
        return True
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
        case "refused" | "connection_lost" | "timeout" | "unavailable" | "cancelled" | "crashed":
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
