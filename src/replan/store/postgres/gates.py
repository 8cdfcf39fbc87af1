"""Large outputs are stored before the append that names them gets its place: what others append goes on meanwhile.

What comes for the same task waits behind it, so that each task's own order is kept.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

J = TypeVar("J")


class Gates(Generic[J]):
    """By task, the jobs that are held back. `store` makes a job ready; `through` gets each in order, within the store's loop."""

    def __init__(
        self,
        store: Callable[[J], Awaitable[None]],
        through: Callable[[J], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._store = store
        self._through = through
        self._spawn = spawn
        self._held: dict[str, deque[tuple[J, bool]]] = {}
        self._lock = threading.Lock()
        """Jobs come from any thread."""
        self._turn = asyncio.Lock()
        """One is stored at a time, as one that is large may be in memory whole."""

    @property
    def empty(self) -> bool:
        return not self._held

    def holds(self, task_id: str, job: J, *, unready: bool) -> bool:
        """True if the job is held back: it is not ready, or comes behind one that is not."""
        with self._lock:
            waiting = self._held.get(task_id)
            if waiting is not None:
                waiting.append((job, unready))
                return True
            if not unready:
                return False
            self._held[task_id] = deque([(job, True)])
        self._spawn(self._open(task_id))
        return True

    async def _open(self, task_id: str) -> None:
        while True:
            with self._lock:
                job, unready = self._held[task_id][0]
            if unready:
                async with self._turn:
                    await self._store(job)
            with self._lock:  # whoever comes now finds it behind this one, or after all of them
                self._through(job)
                self._held[task_id].popleft()
                if not self._held[task_id]:
                    del self._held[task_id]
                    return
