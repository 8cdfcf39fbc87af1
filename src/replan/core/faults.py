"""What an exception from a tool call means: whose fault, worth another try, and may it have happened.

Decided in code, by the kind of failure, never by a model (specification §5): what was raised tells whether the
call may have happened; what it says (`error_class`) only whose fault it is, and whether it may pass.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from replan.core.error_class import error_class, names_parameter
from replan.core.error_text import Said, read_body, together, words
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
    "rejected",  # a person does not agree to it: no call was made
    "in_doubt",  # the very call was made before, and nobody knows whether it took effect: not made again
    "duplicate",  # another step is making this very call: no call was made
    "approval",  # a person would have to agree, and nobody can be asked: no call was made
    "internal",  # a fault of Replan
]
NOT_MADE = frozenset(
    {"approval", "duplicate", "parameter", "reference", "refused", "rejected", "unknown_tool", "unavailable"}
)


def classify(error: BaseException, tool: ToolSpec | None = None, *, now: float | None = None) -> Fault:
    """The fault that an exception of a tool call is. `now` (Unix seconds) turns a Retry-After date into a wait."""
    message = text_of(error)
    if isinstance(error, UnresolvedReference):
        return Fault(category="dependency_error", kind="reference", message=message)
    kind, status, retry_after, happened = _kind_of(error, now)
    if happened is None:
        happened = _happened(kind, status, tool)
    category, transient = _category(kind), kind in ("refused", "connection_lost", "timeout", "unavailable")
    if status is not None or kind == "tool":
        said = _said(error, message)
        category, transient = _judged(error, status, retry_after, said, _names(tool))
        if transient and retry_after is None:
            retry_after = said.wait
    return Fault(
        category=category,
        kind=kind,
        message=message,
        transient=transient,
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
    for at in _chain(error):
        status = _status(at)
        if status is not None and status >= 400:
            return "http", status, _retry_after(at, now), None
        if (kind := _transport_kind(at)) is not None:
            return kind, None, None, None
    return "tool", None, None, None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it came from."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = _cause(at)


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


def _happened(kind: str, status: int | None, tool: ToolSpec | None) -> Literal["no", "unknown"]:
    if kind in NOT_MADE:
        return "no"
    if status is not None:
        return "no" if 400 <= status < 500 and status != 408 else "unknown"
    if kind == "tool":
        return "no" if tool is None or tool.errors_are_clean else "unknown"
    return "unknown"


def _judged(
    error: BaseException, status: int | None, retry_after: float | None, said: Said, names: tuple[str, ...]
) -> tuple[Category, bool]:
    """Whose fault an answer or a tool's own error is, and whether it may pass by itself."""
    known = status if status is not None else said.status
    found = error_class(
        status=known, code=said.code, message=said.text, retry_after=retry_after, parameters=names
    )
    passes = found in ("transient", "throttled")
    if known is not None and known >= 500:
        named = found == "caller" and names_parameter(said.text, names)
        return ("parameter_error" if named else "server_error"), True
    if known is not None and known >= 400:
        return ("parameter_error" if found == "caller" else "external_error"), passes
    if found == "throttled":
        return "external_error", True
    if found == "transient":
        return "server_error", True
    if found == "outside" or _misses_something(error):
        return "external_error", False
    if names_parameter(said.text, names) or _is_about_a_value(error, names):
        return "parameter_error", False
    return "tool_error", False


def _misses_something(error: BaseException) -> bool:
    """True if a right, a module, a process or a program is missing."""
    for each in _chain(error):
        if isinstance(each, PermissionError | ImportError | ProcessLookupError | ChildProcessError):
            return True
        if isinstance(each, FileNotFoundError):  # a missing program only where one was to be started
            frame = each.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            if frame is not None and frame.tb_frame.f_globals.get("__name__") == "subprocess":
                return True
    return False


def _is_about_a_value(error: BaseException, names: tuple[str, ...]) -> bool:
    """True if the tool refused a value in Python's own terms, and mentions the parameter."""
    if not isinstance(error, ValueError | TypeError | KeyError) or isinstance(error, json.JSONDecodeError):
        return False
    text = f" {words(text_of(error).removeprefix(type(error).__name__))} "
    return any(f" {words(name)} " in text for name in names)


def _names(tool: ToolSpec | None) -> tuple[str, ...]:
    properties = tool.parameters.get("properties") if tool is not None else None
    return tuple(properties) if isinstance(properties, Mapping) else ()


def _said(error: BaseException, message: str) -> Said:
    """What the error, its causes and the answers that they carry say."""
    told = [Said(message)]
    for each in _chain(error):
        codes = (_attribute(each, name) for name in ("code", "error_code"))
        told += (Said(code=code) for code in codes if isinstance(code, str))
        with suppress(Exception):  # an answer of a form that nobody knows
            told += (said for body in _bodies(each) for said in read_body(body))
    return together(told)


def _bodies(error: BaseException) -> Iterator[Any]:
    """The answer that an error carries, where it is there already: as an object, or as its text."""
    response = _attribute(error, "response")
    # Asking `requests` for the text of an answer that was not read would read it now.
    unread = _attribute(response, "_content") is False
    for body in (response, _attribute(error, "body"), None if unread else _attribute(response, "text")):
        if isinstance(body, str | Mapping | list):
            yield body


def _category(kind: str) -> Category:
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
    """True if nobody knows whether an effect that must not be repeated has taken place.

    Of a tool that honours the key too: the same call may be made again, but no other one in its place.
    """
    return tool.effect == "once" and fault.happened == "unknown"


def may_retry(fault: Fault, tool: ToolSpec) -> bool:
    """True if code alone may make the same call again: a passing fault, and a call that bears repeating.

    A `once` call bears it where its effect surely did not take place: it never left, or was turned away (429). A tool's
    own word is not enough for that: its text may come from an answer that got lost.
    """
    turned_away = fault.happened == "no" and (
        fault.kind in NOT_MADE or (fault.kind == "http" and fault.status is not None and fault.status < 500)
    )
    return fault.transient and (tool.effect != "once" or tool.honours_key or turned_away)
