"""What a watcher sees of a task: stored records and unstored news in one line."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from replan.core.events import Record
from replan.run.session.shielding import noticed, wait_through

AHEAD = 500
"""How many stored records are read ahead of a watcher that does not keep up."""
LAST_RECORDS_SECS = 0.5
"""How long after the drive broke a stored record may still be on its way to the watcher."""


class Line:
    """Stored records, all and in order, with the unstored news between them as they come.

    `driven`: ends with an error if nobody writes records any more; so does the line then, after what was stored.
    Records that are at hand are given without a turn of the event loop: one task reads ahead of the watcher.
    """

    def __init__(
        self,
        stored: AsyncIterator[Record],
        news: asyncio.Queue[Record] | None,
        driven: asyncio.Future[None] | None,
    ) -> None:
        self._stored = stored
        self._news = news
        self._driven: asyncio.Future[None] | None = driven
        self._ahead: deque[Record] = deque()
        self._more = asyncio.Event()
        """There is something ahead, or there will be nothing more."""
        self._room = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[Any] | None = None
        """For more."""
        self._next_news: asyncio.Task[Record] | None = None

    async def next(self) -> Record | None:
        """The next record; None if no more can come. Raises what broke the drive."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_ahead())
        while True:
            if self._next_news is not None and self._next_news.done():
                news, self._next_news = self._next_news, None
                return news.result()
            if self._next_news is None and self._news is not None and not self._news.empty():
                return self._news.get_nowait()
            if self._ahead:
                self._room.set()
                return self._ahead.popleft()
            if self._reading.done():
                self._reading.result()
                return None
            await self._something()

    async def _something(self) -> None:
        """Wait until there is a record or news. Raises what broke the drive, after what was stored."""
        loop = asyncio.get_running_loop()
        self._more.clear()
        if self._waiting is None or self._waiting.done():
            self._waiting = loop.create_task(self._more.wait())
        if self._next_news is None and self._news is not None:
            self._next_news = loop.create_task(self._news.get())
        wanted: set[asyncio.Future[Any]] = {self._waiting}
        if self._next_news is not None:
            wanted.add(self._next_news)
        if self._driven is not None:
            wanted.add(self._driven)
        await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
        if self._driven is None or not self._driven.done():
            return
        driven, self._driven = self._driven, None
        error = None if driven.cancelled() else driven.exception()
        if error is None:
            return
        await asyncio.wait({self._waiting}, timeout=LAST_RECORDS_SECS)
        if not self._more.is_set():
            raise error
        self._driven = driven  # there was more to tell first

    async def _read_ahead(self) -> None:
        try:
            async for record in self._stored:
                self._ahead.append(record)
                self._more.set()
                if len(self._ahead) >= AHEAD:
                    self._room.clear()
                    await self._room.wait()
        finally:
            self._more.set()

    async def aclose(self) -> None:
        asked = [task for task in (self._reading, self._waiting, self._next_news) if task is not None]
        for task in asked:
            task.cancel()
            task.add_done_callback(noticed)
        await wait_through(asked)
        close = getattr(self._stored, "aclose", None)
        if close is not None:
            await close()
