"""The body of an answer: read as far as it is wanted, and the rest of it piece by piece."""

from __future__ import annotations

import asyncio
import base64
import codecs
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE
from replan.errors import ToolCallError
from replan.tools.bounds import FILE_BYTES, too_large

if TYPE_CHECKING:
    import httpx2

_TEXTUAL = re.compile(
    r"text/|application/(.+\+)?(json|xml|yaml|x-yaml|javascript|graphql|jsonl|x-ndjson|sql)\b"
)
_SHA_256 = re.compile(r"\bsha-256=:([A-Za-z0-9+/=]+):")


class Body:
    """The body of a streamed answer, decompressed; the answer is closed by whoever opened it.

    Decompressed bytes count, and no more than a megabyte is decompressed ahead. Raises what httpx2 does when the
    connection breaks, and `ToolCallError` where it is not compressed as it says.
    """

    def __init__(self, response: httpx2.Response, tool_id: str) -> None:
        self._response = response
        self.tool_id = tool_id
        self._held: list[bytes] = []
        self._rest: AsyncIterator[bytes] | None = None
        self._ahead = 0
        self.size = 0
        """Of what is held."""
        self.ended = False

    @property
    def media_type(self) -> str:
        """As the answer says; empty if it does not."""
        kind: str = self._response.headers.get("content-type", "")
        return kind.partition(";")[0].strip().lower()

    def check_said(self, limit: int) -> None:
        """`bounds.too_large` if the answer says of itself that it is."""
        said = self._response.headers.get("content-length", "")
        if self._is_plain and said.isascii() and said.isdigit() and int(said) > limit:
            raise too_large(self.tool_id, limit)

    async def take(self, most: int) -> bool:
        """Hold the beginning: up to its end (True), or until more than so many bytes are held."""
        while not self.ended and self.size <= most:
            if (piece := await self._next()) is not None:
                self._held.append(piece)
                self.size += len(piece)
        return self.size <= most

    async def data(self) -> bytes:
        """What is held."""
        held, self._held = self._held, []
        return await beside(b"".join, held) if self.size > 2**20 else b"".join(held)

    def is_text(self) -> bool:
        """By what the answer says, else by what is held of it."""
        if _TEXTUAL.match(self.media_type):
            return True
        if b"\0" in (start := b"".join(self._held)[:FILE_BYTES]):
            return False
        try:
            codecs.getincrementaldecoder("utf-8")().decode(start)
        except UnicodeDecodeError:
            return False
        return True

    async def pieces(self, limit: int) -> AsyncGenerator[bytes, None]:
        """All of it: what is held, and what comes. Checked against the digest that the answer says (RFC 9530)."""
        self.check_said(limit)
        wanted = self._digest() if self._is_plain else None
        hashed, size = hashlib.sha256(), 0
        held, self._held = self._held, []
        held.reverse()
        while True:
            piece = held.pop() if held else None if self.ended else await self._next()
            if piece is None:
                break
            size += len(piece)
            if size > limit:
                raise too_large(self.tool_id, limit)
            if wanted is not None:
                await beside(hashed.update, piece)
            yield piece
        if wanted is not None and hashed.digest() != wanted:
            text = f"the answer of {self.tool_id!r} is not what its digest says (sha-256): it was damaged on its way"
            raise ToolCallError(text, kind="output", happened="unknown")

    @property
    def _is_plain(self) -> bool:
        """The bytes that come are those that the headers tell of."""
        return "content-encoding" not in self._response.headers and self._response.request.method != "HEAD"

    def _digest(self) -> bytes | None:
        for name in ("content-digest", "repr-digest"):
            found = _SHA_256.search(self._response.headers.get(name, ""))
            if found is not None and self._response.status_code != 206:
                try:
                    return base64.b64decode(found[1], validate=True)
                except ValueError:
                    return None
        return None

    async def _next(self) -> bytes | None:
        """The next piece; None, and `ended`, after the last."""
        import httpx2

        if self._rest is None:
            self._rest = self._response.aiter_bytes()
        try:
            piece = await anext(self._rest, None)
        except httpx2.DecodingError as error:
            text = f"the answer of {self.tool_id!r} is not compressed as it says: {error}"
            raise ToolCallError(text, kind="output", happened="unknown") from error
        if piece is None:
            self.ended = True
            return None
        self._ahead += len(piece)
        if self._ahead > AT_ONCE:
            # what is there already, or comes out of a few bytes, is read without a turn of the loop
            self._ahead = 0
            await asyncio.sleep(0)
        return piece


async def read_limited(response: httpx2.Response, limit: int, tool_id: str) -> bytes:
    """The whole body; `bounds.too_large` as soon as it has more than `limit` bytes."""
    body = Body(response, tool_id)
    body.check_said(limit)
    if not await body.take(limit):
        raise too_large(tool_id, limit)
    return await body.data()
