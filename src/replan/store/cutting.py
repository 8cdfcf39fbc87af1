"""A stream of bytes in pieces of one size, with its digest."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator

from replan.beside import beside
from replan.ports import Content


class Cut:
    """The pieces of a stream; `content` once it is at its end."""

    def __init__(self, stream: AsyncIterable[bytes], size: int) -> None:
        self._stream = stream
        self._piece = size
        self._hashed = hashlib.sha256()
        self._size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        async for some in self._stream:
            held += some
            while len(held) >= self._piece:
                piece = bytes(held[: self._piece])
                del held[: self._piece]
                yield await self._counted(piece)
        if held:
            yield await self._counted(bytes(held))

    async def _counted(self, piece: bytes) -> bytes:
        await beside(self._hashed.update, piece)
        self._size += len(piece)
        return piece

    @property
    def content(self) -> Content:
        return Content(self._hashed.hexdigest(), self._size)
