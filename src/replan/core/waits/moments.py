"""Points in time as plans name them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from replan.core.references.refs import has_references
from replan.core.types import JsonObject
from replan.core.waits.tools import LONGEST_SECS
from replan.core.words import in_digits


def due_at(parameters: JsonObject, now: float) -> float:
    """When a wait for a time is over, as Unix seconds; `ValueError` says what is wrong with what it was given.

    A time that is not there, as the clocks go forward, is as much later; of one that is there twice the first is meant.
    """
    seconds, until = parameters.get("seconds"), parameters.get("until")
    if (seconds is None) == (until is None):
        raise ValueError("give seconds or until, one of the two")
    if seconds is not None:
        return now + _bounded(float(seconds), f"{seconds} seconds")
    due = _moment(str(until), parameters.get("zone") or "UTC")
    return now + _bounded(due - now, str(until))


def misread(parameters: JsonObject) -> str:
    """What is wrong with the constants of a planned wait for a time, whenever it begins; empty if nothing is."""
    seconds, until, zone = (parameters.get(name) for name in ("seconds", "until", "zone"))
    try:
        if isinstance(seconds, int | float):
            _bounded(seconds, f"{in_digits(seconds)} seconds")
        elif isinstance(until, str) and not has_references({"until": until, "zone": zone}):
            _moment(until, str(zone or "UTC"))
    except ValueError as error:
        return str(error)
    return ""


def limit_problem(parameters: JsonObject) -> str:
    """What is wrong with how long a wait may take; empty if nothing is, or it is yet to be read."""
    limit = parameters.get("limit_secs")
    if isinstance(limit, int | float) and limit > LONGEST_SECS:
        days = f"{LONGEST_SECS / 86_400:.0f} days"
        return f"limit_secs is more than {days}, which is as long as a step may wait"
    return ""


def _moment(until: str, zone: str) -> float:
    try:
        known = UTC if zone == "UTC" else ZoneInfo(zone)
    except (OSError, ValueError, LookupError):
        raise ValueError(
            f"there is no time zone {zone[:100]!r}; right is Europe/Berlin, for instance"
        ) from None
    try:
        found = datetime.fromisoformat(until.strip())
        return (found if found.tzinfo is not None else found.replace(tzinfo=known)).timestamp()
    except (ValueError, OverflowError):
        right = "2026-03-01, 2026-03-01T09:30 or 2026-03-01T09:30:00+02:00"
        raise ValueError(f"{until[:100]!r} is not a date or time; right are {right}") from None


def _bounded(secs: float, what: str) -> float:
    if secs > LONGEST_SECS:
        days = f"{LONGEST_SECS / 86_400:.0f} days"
        raise ValueError(f"{what} is more than {days} away, which is as long as a step may wait")
    return secs


def told(moment: float) -> str:
    """A point in time for people and programs."""
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{moment:.0f}"
