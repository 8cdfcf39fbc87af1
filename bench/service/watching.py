"""Many readers of streams of events (SSE), as raw as the calls."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.service.http import Address, get


class Reader(asyncio.Protocol):
    """Counts frames, and of some of them how late they came."""

    def __init__(
        self,
        request: bytes,
        *,
        timed: bool,
        mark: bytes = b"id: ",
        gap: bytes = b"\n\n",
        ends: tuple[bytes, ...] = (b"event: task_completed", b"event: task_failed"),
    ) -> None:
        """`mark`: what each frame that counts has once; `gap`: between frames; `ends`: what the last one has, one of these."""
        self._request = request
        self._timed = timed
        self._mark, self._gap, self._ends = mark, gap, ends
        self._rest = b""
        self.frames = 0
        self.lags: list[float] = []
        self.first: float | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time()
        data = self._rest + data
        last = data.rfind(self._gap)
        cut = last + len(self._gap) if last >= 0 else 0
        whole, self._rest = data[:cut], data[cut:]
        count = whole.count(self._mark)
        if count and self.first is None:
            self.first = time.perf_counter()
        self.frames += count
        if self._timed:
            at = 0
            while (at := whole.find(b'"ts":', at)) >= 0:
                at += 5
                end = whole.find(b",", at)
                self.lags.append(now - float(whole[at:end]))
        if any(end in whole or self._rest.endswith(end) for end in self._ends):
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def watch(where: Address, path: str, *, timed: bool) -> Reader:
    return await stream(where, get(path, where, "text/event-stream"), timed=timed)


async def stream(where: Address, request: bytes, **how: Any) -> Reader:
    """Whoever reads what that request is answered with."""
    _, reader = await asyncio.get_running_loop().create_connection(lambda: Reader(request, **how), *where)
    return reader


def quantile(values: list[float], share: float) -> float:
    """In milliseconds."""
    ordered = sorted(values)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
