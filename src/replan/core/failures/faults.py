"""What an exception from a tool call means: whose fault, worth another try, and may it have happened.

Decided in code, by the kind of failure, never by a model (specification §5): what was raised, with all that it
carries (`carried`), tells whether the call may have happened; its words (`error_class`) only whose fault it is, and
whether it may pass. Words may raise a doubt (`speaks_of_doubt`), and never clear one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any, Literal

from replan.core.failures.carried import Unread, carried
from replan.core.failures.classes import error_class, names_parameter
from replan.core.failures.doubt import refusal_speaks_of_doubt, speaks_of_doubt, states_doubt
from replan.core.failures.text import MAX_BODY, MAX_TEXT, Said, read_body, together, words
from replan.core.failures.transport import Known, attribute, happened_after, status_of, transport_kind
from replan.core.types import Category, Fault, ToolSpec
from replan.errors import ToolCallError, UnresolvedReference

FaultKind = Literal[
    "parameter",  # our own check of the parameters: no call was made
    "reference",  # a reference that selects nothing: no call was made
    "condition",  # a `when` that cannot be worked out: no call was made
    "refused",  # the connection was refused: no call was made
    "later",  # the tool has done nothing, and says when it may be called again
    "connection_lost",  # cut off after it was made
    "timeout",  # no answer in time
    "http",  # an answer with a status that is no success
    "tool",  # an error that the tool itself reports
    "output",  # it answered with something that cannot be kept
    "model",  # a model was asked, and gave no answer to what it was given that can be used
    "no_model",  # the model cannot be asked, and that will not pass by itself
    "cancelled",  # stopped by us
    "crashed",  # the process ended before the answer was recorded
    "process_ended",  # so did the process of each of its tries: it is what ends it, most likely
    "unknown_tool",  # no such tool
    "unavailable",  # its source is not there
    "rejected",  # a person does not agree to it: no call was made
    "in_doubt",  # the very call was made before, and nobody knows whether it took effect: not made again
    "repeated",  # another step of the plan makes this very call, and neither says that it is meant twice: not made
    "duplicate",  # another step is making this very call: no call was made
    "undone",  # what its step comes after was taken back since by another task of the family: not made
    "expired",  # nobody has agreed to it, or refused, in time: no call was made
    "approval",  # a person would have to agree, and nobody can be asked: no call was made
    "question",  # a person would have to answer, and nobody can be asked
    "internal",  # a fault of Replan
]
NOT_MADE = frozenset(
    {
        "approval",
        "condition",
        "duplicate",
        "expired",
        "later",
        "parameter",
        "reference",
        "refused",
        "repeated",
        "rejected",
        "tool_changed",
        "undone",
        "unknown_tool",
        "unavailable",
    }
)
DONE_ALREADY = frozenset({"repeated", "duplicate"})
"""Kinds of failures of a call that was not made since its effect is had, or meant, elsewhere: in other words, or by another tool, its step would
have it again. Only a plan can say that this is meant, or leave it out; the step may only be given what is done."""


def is_had_elsewhere(fault: Fault | None) -> bool:
    """True if the call was not made since its effect is had, or meant, elsewhere; not where nobody knows whether it was had."""
    return fault is not None and fault.kind in DONE_ALREADY and not fault.unsure


TURNED_AWAY = frozenset({425, 429})
"""Statuses that say by themselves that the call was not taken (RFC 8470, RFC 6585)."""
CHECKED_FIRST = TURNED_AWAY | {
    401, 403, 404, 405, 406, 407, 410, 411, 412, 413, 414, 415, 416, 417, 421, 426, 428, 431, 451,
}  # fmt: skip
"""Statuses for what is looked at before anything is done: rights, the address, the form, the preconditions. Their words may be the
names of fields, or tell of a session. Not 422: many services answer so to all that has failed, also behind them."""
_ABOUT_THE_FORM = 422
_NO_SUCCESS = 300
"""From here on a status tells of a failure. An error about an answer below it is a report of whoever read that."""
_MOST_PARTS = 2_000
"""Of a body that is written out again: names, values and signs."""
_PASSING = frozenset({"connection_lost", "later", "refused", "timeout", "unavailable"})


def classify(error: BaseException, tool: ToolSpec | None = None, *, now: float | None = None) -> Fault:
    """The fault that an exception of a tool call is. `now` (Unix seconds) turns a Retry-After date into a wait."""
    message = text_of(error)
    if isinstance(error, UnresolvedReference):
        return Fault(category="dependency_error", kind="reference", message=message)
    known: Known = {}
    everything = tuple(carried(error, known))
    kind, status, retry_after, happened = _kind_of(error, everything, known, now)
    if happened is None:
        doubted = any(_casts_doubt(one, known) for one in everything)
        happened = _happened(error, kind, status, message, tool, doubted, everything)
        if _passes_on(error, tool) and (
            kind == "refused" or status in TURNED_AWAY or retry_after is not None
        ):
            happened = "unknown"  # what was turned away may be the second of its requests
    clean = tool.errors_are_clean if tool is not None else None
    if clean is False and kind == "http" and happened == "no":
        happened = "unknown"  # an answer to one of several requests, perhaps
    if happened == "no" and status is not None and status not in CHECKED_FIRST and clean is not True:
        said_so = (*_texts(everything, message), _said(everything, message).text)
        heeded = refusal_speaks_of_doubt if status == _ABOUT_THE_FORM else speaks_of_doubt
        if any(map(heeded, said_so)) or any(map(states_doubt, _coded(everything))):
            happened = "unknown"  # the answer of one behind whom something may have been lost
    category, transient = _category(kind), kind in _PASSING
    turned_away = retry_after is not None and happened == "no"
    if status is not None or kind == "tool":
        said = _said(everything, message)
        category, transient = _judged(error, status, retry_after, said, _names(tool), everything)
        if kind == "tool" and happened == "no" and said.wait is not None and category == "tool_error":
            category, transient = "external_error", True  # it says when to come back
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
        turned_away=turned_away,
    )


def _passes_on(error: BaseException, tool: ToolSpec | None) -> bool:
    """True if the error is one of somebody whom a function has asked, and says nothing of what the function did before.

    What it says itself of its outcome it says with `RetryLater` or a `ToolCallError`; or once for all, with `errors_are_clean`.
    """
    return (
        tool is not None
        and tool.in_process
        and tool.errors_are_clean is not True
        and not isinstance(error, ToolCallError)
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


_All = tuple[BaseException, ...]
"""An error with all that it carries."""


def _kind_of(error: BaseException, everything: _All, known: Known, now: float | None) -> _Kind:
    """Libraries are told by the names of their exceptions, so that none has to be imported."""
    if isinstance(error, ToolCallError):
        told: Literal["no", "unknown"] | None = None
        if error.happened is not None:
            told = "no" if error.happened == "no" else "unknown"
        return error.kind, error.status, error.retry_after, told
    for at in everything:
        status = status_of(at)
        if status is not None and status >= _NO_SUCCESS:
            return "http", status, _retry_after(at, now), None
        if (kind := transport_kind(at, known)) is not None:
            return kind, None, None, None
    return "tool", None, None, None


def _retry_after(error: BaseException, now: float | None) -> float | None:
    for holder in (attribute(error, "response"), error):
        headers = attribute(holder, "headers")
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


_LONGEST_NUMBER = 300
_NEVER_SECS = 1e12
"""More than this is told as this."""


def retry_after_secs(value: str, now: float | None) -> float | None:
    """Seconds of a Retry-After header (RFC 9110 §10.2.3): a number, however large, or a date; None for anything else."""
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", value[:_LONGEST_NUMBER], re.ASCII):
        return min(float(value[:_LONGEST_NUMBER]), _NEVER_SECS)
    if now is None:
        return None
    try:
        when = parsedate_to_datetime(value)
        return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _happened(
    error: BaseException,
    kind: str,
    status: int | None,
    message: str,
    tool: ToolSpec | None,
    doubted: bool,
    everything: _All,
) -> Literal["no", "unknown"]:
    """`no` only where the structure says so: a word, or anything that the error carries, may cast doubt on it."""
    if kind in NOT_MADE and isinstance(error, ToolCallError):
        return "no"  # whoever says so knows: no call was made
    clean = tool.errors_are_clean if tool is not None else None
    if clean is False:
        return "unknown"  # a part of it may have happened before, whatever this error says
    if status is None and kind not in NOT_MADE and kind != "tool":
        return "unknown"
    if status is not None and happened_after(status) == "unknown":
        return "unknown"
    if doubted:
        return "unknown"
    spoken = (
        kind == "tool"
        and status is None
        and clean is None
        and not isinstance(error, KeyError | AttributeError | NameError | ImportError)  # they say a name
    )
    return "unknown" if spoken and any(map(speaks_of_doubt, _texts(everything, message))) else "no"


def _casts_doubt(error: BaseException, known: Known) -> bool:
    """True if this one alone would leave it open whether the call happened."""
    if isinstance(error, Unread):
        return True
    status = status_of(error)
    if status is not None and status >= _NO_SUCCESS and happened_after(status) == "unknown":
        return True
    return transport_kind(error, known) in ("timeout", "connection_lost")


def _texts(everything: _All, message: str) -> Iterator[str]:
    """What the error and all that it carries say, with notes, and what a program that failed has written."""
    yield message
    for each in everything[1:]:
        yield text_of(each)
    for each in everything:
        notes, written = attribute(each, "__notes__"), attribute(each, "stderr")
        yield from (note for note in (notes if type(notes) is list else ()) if isinstance(note, str))
        if isinstance(written, str | bytes):
            yield (
                written[-MAX_TEXT:]
                if isinstance(written, str)
                else written[-MAX_TEXT:].decode("utf-8", "replace")
            )


def _judged(
    error: BaseException,
    status: int | None,
    retry_after: float | None,
    said: Said,
    names: tuple[str, ...],
    everything: _All,
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
    if found == "outside" or _misses_something(everything):
        return "external_error", False
    if names_parameter(said.text, names) or _is_about_a_value(error, names):
        return "parameter_error", False
    return "tool_error", False


def _misses_something(everything: _All) -> bool:
    """True if a right, a module, a process or a program is missing."""
    for each in everything:
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


def _said(everything: _All, message: str) -> Said:
    """What the error, its causes and the answers that they carry say."""
    told = [Said(message)]
    for each in everything:
        codes = (attribute(each, name) for name in ("code", "error_code"))
        told += (Said(code=code) for code in codes if isinstance(code, str))
        with suppress(Exception):  # an answer of a form that nobody knows
            told += (said for body in _bodies(each) for said in read_body(body))
    return together(told)


def _coded(everything: _All) -> Iterator[str]:
    """The codes of the error and its causes, and the answers that they carry, as they are written."""
    for each in everything:
        codes = (attribute(each, name) for name in ("code", "error_code"))
        yield from (f"code: {code}" for code in codes if isinstance(code, str))
        with suppress(Exception):  # an answer of a form that nobody knows
            for body in _bodies(each):
                parts = [body] if isinstance(body, str) else json.JSONEncoder(default=str).iterencode(body)
                yield "".join(islice(parts, _MOST_PARTS))[:MAX_BODY]


def _bodies(error: BaseException) -> Iterator[Any]:
    """The answer that an error carries, where it is there already: as an object, or as its text."""
    response = attribute(error, "response")
    # Asking `requests` for the text of an answer that was not read would read it now.
    unread = attribute(response, "_content") is False
    for body in (response, attribute(error, "body"), None if unread else attribute(response, "text")):
        if isinstance(body, str | Mapping | list):
            yield body


def _category(kind: str) -> Category:
    match kind:
        case "parameter" | "model":
            return "parameter_error"
        case "repeated":
            return "decomposition_error"
        case "reference" | "condition" | "undone":
            return "dependency_error"
        case (
            "later"
            | "refused"
            | "connection_lost"
            | "timeout"
            | "unavailable"
            | "cancelled"
            | "crashed"
            | "no_model"
            | "approval"
            | "expired"
            | "question"
        ):
            return "external_error"
        case "tool" | "output" | "process_ended" | "unknown_tool":
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

    A `once` call bears it where its effect surely did not take place: it never left, was turned away (425, 429, or another
    status with a `Retry-After`), or the tool itself has refused it and says how long to wait. The words of an answer do
    not tell that.
    """
    turned_away = fault.happened == "no" and (
        fault.kind in NOT_MADE
        or (fault.kind == "http" and (fault.status in TURNED_AWAY or fault.turned_away))
        or (fault.kind == "tool" and fault.retry_after is not None)
    )
    return fault.transient and (tool.effect != "once" or tool.honours_key or turned_away)
