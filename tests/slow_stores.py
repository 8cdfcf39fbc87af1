"""Stores in which others have their turn before and after each answer, for as long as chance has it."""

from __future__ import annotations

import asyncio
import functools
from random import Random
from typing import Any

SLOW = frozenset({"artifact", "family", "read", "reserve", "rests_on", "summary", "take", "who_has"})
"""What is slow of them: what a family of forks asks for and takes."""


class Delayed:
    """A store that takes up to `most_secs` more for each answer, as often as not. `chance` says how long: the same for the same seed."""

    def __init__(self, store: Any, chance: Random, most_secs: float = 0.02) -> None:
        self._store = store
        self._chance = chance
        self._most_secs = most_secs

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in SLOW:
            return found

        @functools.wraps(found)
        async def slowly(*args: Any, **more: Any) -> Any:
            await self._turns()
            if self._chance.random() < 0.5:
                await asyncio.sleep(self._chance.random() * self._most_secs)
            answer = await found(*args, **more)
            await self._turns()
            return answer

        return slowly

    async def _turns(self) -> None:
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)
