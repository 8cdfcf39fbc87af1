"""Requests that are sent in a row, without waiting for answers: whose turn it is."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

AT_ONCE = 8
"""Of all connections, in one turn of the event loop."""


class InTurn:
    """Requests of rows, of all connections: a few are begun in each turn of the event loop, so that turns are short and whoever asks for
    one thing does not wait for rows of others."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, loop: asyncio.AbstractEventLoop, begin: Callable[[], None]) -> None:
        if not self._waiting:
            loop.call_soon(self._begin, loop)
        self._waiting.append(begin)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(len(self._waiting), AT_ONCE)):
            self._waiting.popleft()()
        if self._waiting:
            loop.call_soon(self._begin, loop)
