"""Time and new ids, which the core knows nothing of."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall time in Unix seconds, and waiting. Deadlines use the event loop's own time."""

    def now(self) -> float: ...
    async def sleep(self, secs: float) -> None: ...


class Ids(Protocol):
    """New unique ids."""

    def new(self, prefix: str) -> str: ...
