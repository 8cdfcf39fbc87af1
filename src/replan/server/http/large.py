"""Answers that are large: they lie in a file while their reader takes them, so that one that takes nothing has no memory of ours."""

from __future__ import annotations

import contextlib
import io
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable
from typing import IO, Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from replan.beside import beside
from replan.server.http.packing import packer, takes_gzip
from replan.server.streams.download import Download

LARGE_BYTES = 65_536
"""From there on an answer is one of these."""
_PIECE = 65_536


def answer(
    body: bytes,
    status: int = 200,
    headers: dict[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    """That body as the answer."""
    if len(body) <= LARGE_BYTES:
        return Response(body, status, headers, media_type)
    return LargeAnswer(body, status, headers, media_type)


class LargeAnswer(Response):
    """Sent piece by piece, each when the one before it is taken; a reader that takes nothing for too long is cut off."""

    def __init__(self, body: bytes, status: int, headers: dict[str, str] | None, media_type: str) -> None:
        super().__init__(None, status, headers, media_type)
        self._whole = body
        self._file: IO[bytes] | None = None
        self.untaken: Callable[[int], Callable[[], None]] | None = None
        """Told how many bytes there are as long as they are not taken; what it gives is called then. It may refuse them."""

    async def put_down(self, scope: Scope) -> None:
        """Into its file, so that from here on it has no memory."""
        whole, self._whole = self._whole, b""
        packed = takes_gzip(scope)
        self._file = await beside(_put_down, whole, packed=packed)
        self.headers.add_vary_header("Accept-Encoding")
        if packed:
            self.headers["content-encoding"] = "gzip"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._file is None:
            await self.put_down(scope)
        assert self._file is not None
        with self._file as file, contextlib.ExitStack() as ends:
            size = file.tell()
            if self.untaken is not None:
                ends.callback(self.untaken(size))
            self.headers["content-length"] = str(size)
            file.seek(0)
            sending = scope["app"].state.shared.sending
            headers, media_type = self.headers, str(self.media_type)
            await Download(_pieces(file), headers, media_type, sending, self.status_code)(
                scope, receive, send
            )


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    while data := file.read(_PIECE):
        yield data


def _put_down(whole: bytes, *, packed: bool) -> IO[Any]:
    try:
        return _written(tempfile.TemporaryFile(), whole, packed=packed)
    except OSError:  # no folder for it, or no room: then it has to be in memory
        return _written(io.BytesIO(), whole, packed=packed)


def _written(file: IO[Any], whole: bytes, *, packed: bool) -> IO[Any]:
    try:
        view, packing = memoryview(whole), packer() if packed else None
        for at in range(0, len(whole), _PIECE):
            piece = view[at : at + _PIECE]
            file.write(piece if packing is None else packing.compress(piece))
        if packing is not None:
            file.write(packing.flush(zlib.Z_FINISH))
        file.flush()
    except BaseException:
        file.close()
        raise
    return file
