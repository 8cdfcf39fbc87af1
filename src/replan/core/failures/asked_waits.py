"""How long somebody asks to be left alone: what of that is a number, and how much of it holds for others than who was told."""

from __future__ import annotations

from typing import Any

LONGEST_FOR_ALL_SECS = 300.0
"""One that was told so waits, or gives up by its own time. All others of the process ask again after this: the service may be well long before,
and what is asked for may be a mistake."""
_NEVER_SECS = 1e9


def seconds_asked(value: Any) -> float | None:
    """Seconds that a service or a provider asks for, as it says them in a message; None where that is no such number."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        return None
    return None if value >= _NEVER_SECS else float(value)


def for_all(secs: float) -> float:
    """For how long all of a process leave alone what one of them was asked to leave alone."""
    return min(secs, LONGEST_FOR_ALL_SECS) if secs > 0 else 0.0
