"""What speaks against a record as the proof that a call took effect: what it says of its own state, and when it was made.

A field of this kind is known by its name; what it says counts only where it affirms. A word that is not known affirms
nothing, and then a person reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from replan.core.data.nothing import is_nothing
from replan.core.types import JsonObject
from replan.core.words import beginning

_STATE = frozenset({"status", "state", "phase", "outcome", "disposition"})
_NOT_YET = frozenset(
    {"draft", "dry", "planned", "preview", "quote", "scheduled", "simulated", "simulation", "test"}
)
"""What is no effect, or none yet."""
_KIND = frozenset({"kind", "type", "mode"})
_AFFIRMED = frozenset(
    [
        "ok",
        "success",
        "successful",
        "succeeded",
        "done",
        "complete",
        "completed",
        "paid",
        "sent",
        "settled",
        "confirmed",
        "accepted",
        "booked",
        "created",
        "posted",
        "executed",
        "processed",
        "captured",
        "delivered",
        "shipped",
        "active",
        "approved",
        "cleared",
        "finished",
        "final",
        "issued",
        "placed",
        "reserved",
        "registered",
        "transferred",
        "成功",
        "已完成",
        "完成",
        "open",
        "opened",
        "new",
        "received",
        "submitted",
        "published",
        "已支付",
        "已发送",
    ]
)
_AGAINST = frozenset(
    [
        "fail",
        "failed",
        "failure",
        "error",
        "errors",
        "cancel",
        "cancelled",
        "canceled",
        "cancellation",
        "reject",
        "rejected",
        "rejection",
        "decline",
        "declined",
        "void",
        "voided",
        "reverse",
        "reversed",
        "revert",
        "reverted",
        "abort",
        "aborted",
        "expired",
        "pending",
        "queued",
        "draft",
        "deleted",
        "bounced",
        "returned",
        "undelivered",
        "unpaid",
        "queue",
        "drafts",
        "scheduled",
        "outbox",
        "dry",
        "simulated",
        "preview",
        "denied",
        "refused",
        "blocked",
        "insufficient",
    ]
)
_RESULT = frozenset({"result", "message", "response"})
"""Fields that may say anything: only what speaks against it counts."""
_FOR = (_AFFIRMED - {"final"}) | {"authorized"}
_CREATED = frozenset({"created", "inserted", "made", "issued", "placed", "booked", "sent", "paid", "posted"})
_TIMES = frozenset({"at", "on", "date", "datetime", "time", "timestamp", "ts", "when"})
_OTHER_TIMES = frozenset(
    [
        "due",
        "expires",
        "expiry",
        "expiration",
        "valid",
        "until",
        "scheduled",
        "start",
        "starts",
        "end",
        "ends",
        "birth",
        "arrival",
        "departure",
    ]
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[\u3400-\u9fff]+")
_NONE_THERE = re.compile(r"(?i)\b(no|not|none|without|never|zero|0)\b")
"""In a line of a text: "No payments found for order 17" has all that identifies the call."""
_SKEW_SECS = 2.0
"""So much the clock of the other side may be behind."""
_MINUTE, _DAY, _ZONES = 60.0, 86_400.0, 50_400.0
"""What a time without seconds, a date, and a time without a zone leave open."""


def objection(
    record: Any, around: Sequence[tuple[str, Any]], parameters: JsonObject, since: float | None
) -> str:
    """Why the record does not show that the call took effect; empty if nothing speaks against it.

    `around`: what it stands in, from the outside in: the field's name, and the object's own fields. `since`: when the
    call was first made.
    """
    for name, outer in around:
        if against := _AGAINST.intersection(words(name)):
            return f"it stands under {name!r}, which says {min(against)}"
        if found := next(_states(outer, parameters), ""):
            return found
    if isinstance(record, Mapping):
        return next(_states(record, parameters), "") or too_old(record, parameters, since)
    text = str(record)
    if against := _AGAINST.intersection(words(text)):
        return f"it says {min(against)}"
    return "it says that there is none" if _NONE_THERE.search(text) else ""


def words(text: str) -> set[str]:
    """The words of a name or a line, however they are joined."""
    return {found.casefold() for found in _WORD.findall(text)}


def _states(value: Any, parameters: JsonObject) -> Iterator[str]:
    """What the object itself says that does not affirm; of what it lists its records speak for themselves."""
    for name, one in _fields(value):
        if name in parameters and parameters[name] == one:
            continue
        said = words(name)
        if (
            (said & _AGAINST and not is_nothing(one))
            or (said & _STATE and not _affirms(one))
            or (said & _FOR and (_is_no(one) or (one is None and said & (_TIMES | _CREATED | {"settled"}))))
            or (said & _NOT_YET and one is True)
            or (said & _KIND and isinstance(one, str) and words(one) & _NOT_YET)
            or (said & _RESULT and isinstance(one, str) and (words(one) & _AGAINST or _denied(one)))
        ):
            yield f"its {name!r} is {_short(one)}"


def _is_no(value: Any) -> bool:
    return (
        value is False
        or value == 0
        or (isinstance(value, str) and value.strip().casefold() in ("no", "false", "none", "0"))
    )


def _affirms(value: Any) -> bool:
    if value is None or value is True:
        return True
    if isinstance(value, int):
        return 200 <= value < 300
    if not isinstance(value, str):
        return not isinstance(value, bool | float)
    said = words(value)
    return value.strip() == "" or (bool(said & _AFFIRMED) and not said & _AGAINST and not _denied(value))


def _denied(text: str) -> bool:
    return bool(re.search(r"(?i)\b(not|no|un\w+|in\w*complete|partially|partly|never|awaiting)\b", text))


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Every field of the object and of the objects in it, but for those of lists."""
    nodes = [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, Mapping):
            for name, one in node.items():
                if isinstance(one, Mapping):
                    nodes.append(one)
                yield str(name), one


def too_old(record: Any, parameters: JsonObject, since: float | None) -> str:
    """That the record was there before the call, so that it is none of its; empty where that cannot be seen."""
    if since is None or not isinstance(record, Mapping):
        return ""
    created: list[tuple[float, str, Any]] = []
    others: list[tuple[float, str, Any]] = []
    for name, value in _fields(record):
        said = words(name)
        if (name in parameters and parameters[name] == value) or said & _OTHER_TIMES:
            continue
        if not said & (_TIMES | _CREATED) or (latest := _latest(value)) is None:
            continue
        (created if said & _CREATED else others).append((latest, name, value))
    known = created or others
    if not known:
        return ""
    latest, name, value = max(known, key=lambda one: one[0])
    if latest >= since - _SKEW_SECS:
        return ""
    return f"its {name!r} is {_short(value)}, which is before the call was made"


def _latest(value: Any) -> float | None:
    """The latest moment (Unix seconds) that a time in a record can mean; None if it is none that can be read."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if 5e8 < value < 5e9 else value / 1000 if 5e11 < value < 5e12 else None
    if not isinstance(value, str) or not re.match(r"\s*\d{4}-?\d\d-?\d\d", value):
        return None
    text = value.strip()
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is not None:
            at, slack = when.timestamp(), 0.0
        else:
            at, slack = when.replace(tzinfo=UTC).timestamp(), _ZONES
    except (ValueError, OverflowError):
        return None
    if len(text) <= len("2024-01-01"):
        return at + slack + _DAY
    return at + slack + (1.0 if text.count(":") >= 2 else _MINUTE)


def _short(value: Any) -> str:
    return beginning(repr(value), 40)
