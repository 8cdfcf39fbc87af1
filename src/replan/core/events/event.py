"""What every event is."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from replan.core.types import Frozen


class Event(Frozen):
    """One recorded fact about a task."""

    stored: ClassVar[bool] = True
    """False: for watchers only."""
    signal: ClassVar[bool] = False
    """True: may be written by anyone, without holding the task."""
    masked: bool = Field(default=False, exclude_if=lambda value: not value)
    """A secret was cut out of it, which only the process that recorded it knows."""
