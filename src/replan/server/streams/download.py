"""Kept bytes as an answer: as long as its reader takes them, however slowly, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from replan.server.streams.sse import Sending, send_in_pieces

UNHURRIED = "replan.unhurried"
"""Where a call is told that its answer has begun, and that from here on its reader alone says how long it takes."""


class Download(Response):
    """What goes wrong before the first piece is answered as any error; a reader that takes nothing is cut off."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        headers: Mapping[str, str],
        media_type: str,
        sending: Sending,
        status: int = 200,
    ) -> None:
        super().__init__(None, status, dict(headers), media_type)
        if "content-length" not in headers:
            del self.headers["content-length"]
        self._pieces = pieces
        self._sending = sending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            first = await anext(self._pieces, b"")
            await self._send(first, scope, receive, send)
        finally:
            if (close := getattr(self._pieces, "aclose", None)) is not None:
                await close()

    async def _send(self, first: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        scope.get(UNHURRIED, _nobody)()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        gone = asyncio.create_task(_left(receive))
        with self._sending.of(scope.get("replan.abort")) as clock:
            try:
                await send_in_pieces(send, first, clock)
                while not gone.done() and (piece := await anext(self._pieces, None)) is not None:
                    await send_in_pieces(send, piece, clock)
            finally:
                gone.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _nobody() -> None:
    """Where no limit is set."""
