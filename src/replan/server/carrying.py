"""Acts that are carried through although whoever asked for them has hung up: half of one may be done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Carrying:
    """What is being carried through in one process."""

    def __init__(self) -> None:
        self._acts: set[asyncio.Task[Any]] = set()

    def begin(self, act: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(act)
        self._acts.add(task)
        task.add_done_callback(self._ended)
        return task

    async def through(self, act: Coroutine[Any, Any, T]) -> T:
        """What it comes to; it goes on if this is cancelled."""
        return await asyncio.shield(self.begin(act))

    async def all_ended(self) -> None:
        while self._acts:
            await asyncio.wait(self._acts)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._acts.discard(task)
        if not task.cancelled():
            task.exception()  # whoever has asked is told, if somebody is there
