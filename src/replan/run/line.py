"""What a watcher sees of a task: stored records and unstored news in one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from replan.core.events import Record
from replan.core.state import State
from replan.errors import TaskHeld
from replan.run.through import noticed, wait_through

LAST_RECORDS_SECS = 0.5
"""How long after the drive broke a stored record may still be on its way to the watcher."""


class Line:
    """Stored records, all and in order, with the unstored news between them as they come.

    `driving`: who writes the records; if it ends with an error, so does the line, after what was stored.
    """

    def __init__(
        self,
        stored: AsyncIterator[Record],
        news: asyncio.Queue[Record] | None,
        driving: asyncio.Future[State] | None,
    ) -> None:
        self._stored = stored
        self._news = news
        self._driving = driving
        self._next_stored: asyncio.Task[Record | None] | None = None
        self._next_news: asyncio.Task[Record] | None = None

    async def next(self) -> Record | None:
        """The next record; None if no more can come. Raises what broke the drive."""
        loop = asyncio.get_running_loop()
        if self._next_stored is None:
            self._next_stored = loop.create_task(_anext(self._stored))
        if self._next_news is None and self._news is not None:
            self._next_news = loop.create_task(self._news.get())
        wanted: set[asyncio.Future[Any]] = {self._next_stored}
        if self._next_news is not None:
            wanted.add(self._next_news)
        if self._driving is not None:
            wanted.add(self._driving)
        await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
        if self._next_news is not None and self._next_news.done():
            news, self._next_news = self._next_news, None
            return news.result()
        if not self._next_stored.done() and self._driving is not None:
            driven, self._driving = self._driving, None
            error = None if driven.cancelled() else driven.exception()
            if error is not None and not isinstance(error, TaskHeld):
                await asyncio.wait({self._next_stored}, timeout=LAST_RECORDS_SECS)
                if not self._next_stored.done():
                    raise error
                self._driving = driven  # there was more to tell first
            else:
                return await self.next()
        stored, self._next_stored = self._next_stored, None
        return stored.result()

    async def aclose(self) -> None:
        asked = [task for task in (self._next_stored, self._next_news) if task is not None]
        for task in asked:
            task.cancel()
            task.add_done_callback(noticed)
        await wait_through(asked)
        close = getattr(self._stored, "aclose", None)
        if close is not None:
            await close()


async def _anext(records: AsyncIterator[Record]) -> Record | None:
    return await anext(records, None)
