"""What the store has said lately, for a few seconds: many who ask at once are one query."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

MOST_REMEMBERED = 4_096
V = TypeVar("V")


class Fresh(Generic[V]):
    """Answers by key, none older than so many seconds. What is None is not kept: it is not worth the room of what is there."""

    def __init__(
        self,
        ask: Callable[[str], Awaitable[V]],
        secs: float,
        *,
        monotonic: Callable[[], float] | None = None,
        most: int = MOST_REMEMBERED,
    ) -> None:
        self._ask = ask
        self._secs = secs
        self._most = most
        self._monotonic = monotonic or asyncio.get_running_loop().time
        self._known: OrderedDict[str, tuple[float, V]] = OrderedDict()
        """With the time until which each counts."""
        self._asked: dict[str, asyncio.Task[V]] = {}

    async def get(self, key: str) -> V:
        known = self._known.get(key)
        if known is not None and self._monotonic() < known[0]:
            self._known.move_to_end(key)
            return known[1]
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(self._find(key))
            task.add_done_callback(functools.partial(self._answered, key))
        return await asyncio.shield(task)  # whoever goes away takes no other along

    async def aclose(self) -> None:
        asked = list(self._asked.values())
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    async def _find(self, key: str) -> V:
        since = self._monotonic()
        found = await self._ask(key)
        self._known.pop(key, None)
        if found is not None:
            self._known[key] = (since + self._secs, found)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return found

    def _answered(self, key: str, task: asyncio.Task[V]) -> None:
        self._asked.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever asked may have gone
