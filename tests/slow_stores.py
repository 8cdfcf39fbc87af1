"""Stores in which others have their turn before and after each answer, for as long as chance has it."""

from __future__ import annotations

import asyncio
import functools
from random import Random
from typing import Any

SLOW = frozenset(
    {
        "artifact",
        "claim",
        "confirm",
        "family",
        "read",
        "release",
        "reserve",
        "rests_on",
        "signal",
        "summary",
        "take",
        "who_has",
    }
)
"""What is slow of them: what a family of forks asks for and takes, and what a drive begins and ends with."""
QUEUED = frozenset({"append", "redact"})
"""What gives a future at once, and is written in the order in which it was asked for."""


class Delayed:
    """A store that takes up to `most_secs` more for each answer, as often as not. `chance` says how long: the same for the same seed."""

    def __init__(self, store: Any, chance: Random, most_secs: float = 0.02) -> None:
        self._store = store
        self._chance = chance
        self._most_secs = most_secs
        self._last: dict[str, asyncio.Future[Any]] = {}
        """By tasks: what is written last."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in QUEUED:

            @functools.wraps(found)
            def queued(claim: Any, *args: Any, **more: Any) -> asyncio.Future[Any]:
                before = self._last.get(claim.task_id)
                write = self._written(before, lambda: found(claim, *args, **more))
                self._last[claim.task_id] = future = asyncio.ensure_future(write)
                return future

            return queued
        if name not in SLOW:
            return found

        @functools.wraps(found)
        async def slowly(*args: Any, **more: Any) -> Any:
            await self._waits()
            answer = await found(*args, **more)
            await self._turns()
            return answer

        return slowly

    async def _written(self, before: asyncio.Future[Any] | None, write: Any) -> Any:
        await self._waits()
        if before is not None:
            await asyncio.wait([before])
        answer = await write()
        await self._waits()  # it is there, and whoever has written it does not know
        return answer

    async def _waits(self) -> None:
        await self._turns()
        if self._chance.random() < 0.5:
            await asyncio.sleep(self._chance.random() * self._most_secs)

    async def _turns(self) -> None:
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)
