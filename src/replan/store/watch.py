"""Who waits for news of which task, and the look at what other processes wrote."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from replan.errors import StoreError

LOOK_SECS = 0.1


class Seen(NamedTuple):
    """Where the last look was."""

    version: int = -1
    signal: int = -1


class News(NamedTuple):
    seen: Seen
    changed: bool
    """Something was written by another connection."""
    signalled: Sequence[str]
    """Tasks that people's events were written to."""


class Watch:
    """One waiting reader."""

    def __init__(self, task_id: str, signals_only: bool) -> None:
        self.task_id = task_id
        self.signals_only = signals_only
        self._news = asyncio.Event()

    def clear(self) -> None:
        self._news.clear()

    def tell(self) -> None:
        self._news.set()

    async def wait(self) -> None:
        await self._news.wait()


class Watchers:
    """All waiting readers of one store; the look runs only while there are some."""

    def __init__(self, look: Callable[[Seen], Awaitable[News]]) -> None:
        self._look = look
        self._by_task: dict[str, set[Watch]] = {}
        self._looking: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watch(self, task_id: str, signals_only: bool) -> Iterator[Watch]:
        watch = Watch(task_id, signals_only)
        self._by_task.setdefault(task_id, set()).add(watch)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking())
        try:
            yield watch
        finally:
            waiting = self._by_task[task_id]
            waiting.discard(watch)
            if not waiting:
                del self._by_task[task_id]
            if not self._by_task and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def waiting(self, task_id: str) -> bool:
        return task_id in self._by_task

    def changed(self, task_id: str, *, signal: bool = False) -> None:
        """This process wrote to the task."""
        for watch in self._by_task.get(task_id, ()):
            if signal or not watch.signals_only:
                watch.tell()

    async def _keep_looking(self) -> None:
        seen = Seen()
        while True:
            with contextlib.suppress(StoreError):  # a locked database is looked at again
                news = await self._look(seen)
                if seen.version == -1:  # what came between a reader's own look and this first one
                    news = News(news.seen, True, tuple(self._by_task))
                self._spread(news)
                seen = news.seen
            await asyncio.sleep(LOOK_SECS)

    def _spread(self, news: News) -> None:
        for task_id in news.signalled:
            self.changed(task_id, signal=True)
        if news.changed:
            for task_id in list(self._by_task):
                self.changed(task_id)

    async def aclose(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking
            self._looking = None
        for waiting in self._by_task.values():
            for watch in waiting:
                watch.tell()
