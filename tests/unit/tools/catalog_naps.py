"""The waits of a catalogue in the hands of a test."""

from __future__ import annotations

import asyncio


class Naps:
    """The waits of a catalogue: noted, and over when the test says so."""

    def __init__(self) -> None:
        self.secs: list[float] = []
        self.over = asyncio.Event()

    async def __call__(self, secs: float) -> None:
        self.secs.append(secs)
        await self.over.wait()
        self.over.clear()


async def settled() -> None:
    """Until everything that is due in the event loop has been done."""
    for _ in range(50):
        await asyncio.sleep(0)
