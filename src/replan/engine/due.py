"""Tasks whose time is to come: each is handed out once it has. Nothing of them is held meanwhile but a timer."""

from __future__ import annotations

import asyncio


class Due:
    """`at` says when, `come` waits for the next one."""

    def __init__(self) -> None:
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._came: asyncio.Queue[str] = asyncio.Queue()

    def at(self, task_id: str, secs: float) -> None:
        """So many seconds from now; what was said of the task before no longer counts."""
        if (before := self._timers.pop(task_id, None)) is not None:
            before.cancel()
        self._timers[task_id] = asyncio.get_running_loop().call_later(max(0.0, secs), self._is_due, task_id)

    async def come(self) -> str:
        """The next task whose time has come."""
        return await self._came.get()

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _is_due(self, task_id: str) -> None:
        del self._timers[task_id]
        self._came.put_nowait(task_id)
