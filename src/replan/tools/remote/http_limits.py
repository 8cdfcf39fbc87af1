"""Time limits for requests that do not arrive: uvicorn waits for ever for the rest of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

HEADER_SECS = 10.0
"""For the head of a request, from its first byte, or from the connection for the first one."""
BODY_SECS = 10.0
LEAST_RATE = 16_384
"""Bytes a second that a body comes in at the least, after `BODY_SECS`."""
_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def limited(
    protocol: type[Any],
    *,
    header_secs: float = HEADER_SECS,
    body_secs: float = BODY_SECS,
    timed_out: Callable[[], bytes] = lambda: _TIMED_OUT,
) -> type[Any]:
    """uvicorn's protocol, with an end for connections on which a request is begun and not completed, and the answer to such."""

    class Limited(protocol):  # type: ignore[misc]
        _began: float | None = None
        _body_began: float | None = None
        _body_size = 0
        _due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle = self.cycle
            if self.transport.is_closing():
                self._settle()
            elif cycle is None or (cycle.response_complete and not cycle.more_body):
                self._expect()  # the head of the first request, or of the next one
            elif cycle.more_body:
                if self._body_began is None:
                    self._body_began, self._body_size = self.loop.time(), 0
                self._body_size += len(data)
                self._expect()
            else:
                self._settle()

        def connection_lost(self, exc: Exception | None) -> None:
            self._settle()
            super().connection_lost(exc)

        def _expect(self) -> None:
            if self._began is None:
                self._began = self.loop.time()
            if self._due is None:
                self._due = self.loop.call_at(self._end(), self._look)

        def _end(self) -> float:
            if self._body_began is not None:
                return self._body_began + body_secs + self._body_size / LEAST_RATE
            assert self._began is not None
            return self._began + header_secs

        def _look(self) -> None:
            self._due = None
            if self._began is None:
                return
            if self.loop.time() < self._end():
                self._expect()
                return
            if not self.transport.is_closing():
                if self.cycle is None or (not self.cycle.response_started or self.cycle.response_complete):
                    self.transport.write(timed_out())
                self.transport.close()

        def _settle(self) -> None:
            self._began = self._body_began = None
            if self._due is not None:
                self._due.cancel()
                self._due = None

    return Limited
