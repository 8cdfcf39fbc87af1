"""What a program writes, passed on while it runs: where nobody takes it, the program waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

_MOST_HELD = 4 * 2**20
"""So many bytes are held before the program has to wait."""


class Tee:
    """Passes a stream to `take` once it is more than `after` bytes; until then, and of less, nobody is told."""

    def __init__(self, after: int, take: Callable[[AsyncGenerator[bytes, None]], Awaitable[Any]]) -> None:
        self._after = after
        self._take = take
        self._held: deque[bytes] = deque()
        self._size = 0
        self._pipe: asyncio.ReadTransport | None = None
        self._more = asyncio.Event()
        self._ended = False
        self._taking: asyncio.Future[Any] | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done where whoever takes it has failed: nothing more is read then."""
        self.paused = False

    def reads(self, pipe: Any) -> None:
        """From where it comes, so that this can be halted."""
        self._pipe = pipe

    def add(self, data: bytes) -> None:
        self._held.append(data)
        self._size += len(data)
        if self._taking is None and self._size > self._after:
            self._taking = asyncio.ensure_future(self._take(self._pieces()))
            self._taking.add_done_callback(self._over)
        self._more.set()
        if (
            self._taking is not None
            and self._size > _MOST_HELD
            and not self.paused
            and self._pipe is not None
        ):
            self.paused = True
            self._pipe.pause_reading()

    async def result(self) -> Any:
        """What has become of all of it; None where it was not much."""
        self._ended = True
        self._more.set()
        return None if self._taking is None else await self._taking

    async def give_up(self) -> None:
        """Nobody wants it any more."""
        if self._taking is not None and not self._taking.done():
            self._taking.cancel()
            await asyncio.wait({self._taking})

    def _over(self, taking: asyncio.Future[Any]) -> None:
        if not taking.cancelled() and taking.exception() is not None and not self.failed.done():
            self.failed.set_result(None)

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        while True:
            while self._held:
                piece = self._held.popleft()
                self._size -= len(piece)
                yield piece
                if self.paused and self._size < _MOST_HELD // 2 and self._pipe is not None:
                    self.paused = False
                    self._pipe.resume_reading()
            if self._ended:
                return
            self._more.clear()
            await self._more.wait()
