"""Many readers of streams of events (SSE), as raw as the calls."""

from __future__ import annotations

import asyncio
import time

from bench.service.http import Address, get


class Reader(asyncio.Protocol):
    """Counts frames with an id, and of some of them how late they came."""

    def __init__(self, request: bytes, *, timed: bool) -> None:
        self._request = request
        self._timed = timed
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
        cut = data.rfind(b"\n\n") + 2
        whole, self._rest = (data[:cut], data[cut:]) if cut > 1 else (b"", data)
        count = whole.count(b"id: ")
        if count and self.first is None:
            self.first = time.perf_counter()
        self.frames += count
        if self._timed:
            at = 0
            while (at := whole.find(b'"ts":', at)) >= 0:
                at += 5
                end = whole.find(b",", at)
                self.lags.append(now - float(whole[at:end]))
        if b"event: task_completed" in whole or b"event: task_failed" in whole:
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def watch(where: Address, path: str, *, timed: bool) -> Reader:
    request = get(path, where, "text/event-stream")
    _, reader = await asyncio.get_running_loop().create_connection(
        lambda: Reader(request, timed=timed), *where
    )
    return reader


def quantile(values: list[float], share: float) -> float:
    """In milliseconds."""
    ordered = sorted(values)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
