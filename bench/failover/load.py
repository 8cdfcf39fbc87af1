"""Callers that call again and again, and what they see."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class Seen:
    """Every call: when it began, how long it took, and what went wrong."""

    calls: list[tuple[float, float]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def longest(self, begin: float, end: float) -> float:
        """Of the calls that were under way between these moments."""
        return max((secs for at, secs in self.calls if at <= end and at + secs >= begin), default=0.0)

    def quiet(self, begin: float, end: float) -> float:
        """The longest time between two answers there: nobody was answered."""
        ends = sorted(at + secs for at, secs in self.calls if begin <= at + secs <= end)
        return max(
            (later - one for one, later in zip([begin, *ends], ends, strict=False)), default=end - begin
        )


@contextlib.asynccontextmanager
async def load(call: Callable[[], Awaitable[object]], callers: int) -> AsyncIterator[Seen]:
    """So many callers at a time, until the block ends; each call that has begun is waited for."""
    seen, stop = Seen(), asyncio.Event()

    async def go_on() -> None:
        while not stop.is_set():
            begun = time.monotonic()
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - whatever it is, the call is lost
                seen.lost.append(f"{type(error).__name__}: {error}"[:300])
            else:
                seen.calls.append((begun, time.monotonic() - begun))

    tasks = [asyncio.create_task(go_on()) for _ in range(callers)]
    try:
        yield seen
    finally:
        stop.set()
        await asyncio.gather(*tasks)
