"""What is known of one wait: when it is over by itself, and what was read or said so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from replan.core.types import Artifact, JsonObject
from replan.core.waits.tools import EVERY_SECS

GROWTH, MOST_TIMES = 1.5, 10.0
"""Each pause between two readings is so much longer than the one before, up to so many times the first."""


class Reading(NamedTuple):
    """What the latest reading gave."""

    value: Any
    artifact: Artifact | None
    masked: bool
    files: tuple[Artifact, ...] = ()


@dataclass(slots=True)
class Wait:
    """A wait that was begun."""

    since: float
    """Unix seconds, as all times here."""
    until: float | None
    """When it is over by itself; None: it takes as long as it takes."""
    token: str = ""
    """Of the callback that it waits for."""
    readings: int = 0
    read_at: float | None = None
    """When the latest reading came out."""
    latest: Reading | None = None
    failures: int = 0
    """Readings in a row that have failed for good."""
    error: str = ""
    """Why the latest reading came to nothing, or could not be held against the condition."""


_SKEW_SECS = 60.0
"""The clocks of two machines may differ by so much."""


def was_set_back(then: float, now: float) -> bool:
    """True if it is earlier than it was: the clock was set back, further than those of two machines differ."""
    return now < then - _SKEW_SECS


def pause(parameters: JsonObject, readings: int) -> float:
    """Seconds between so many readings and the next."""
    every = parameters.get("every_secs")
    first = float(every) if isinstance(every, int | float) else EVERY_SECS
    return first * min(MOST_TIMES, GROWTH ** min(max(0, readings - 1), 20))


def next_reading(wait: Wait, parameters: JsonObject) -> float:
    """When the condition is looked at again; never after the wait's own end."""
    if wait.read_at is None:
        return wait.since
    due = wait.read_at + pause(parameters, wait.readings)
    return due if wait.until is None else min(due, wait.until)
