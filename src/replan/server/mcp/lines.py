"""Lines of a client that are no messages: each is answered as JSON-RPC says, and the next one is read."""

from __future__ import annotations

import contextvars
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError


class Understood:
    """The messages of a stream, without what could not be read as one."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read = read
        self._write = write

    @property
    def last_context(self) -> contextvars.Context | None:
        found: contextvars.Context | None = getattr(self._read, "last_context", None)
        return found

    async def receive(self) -> SessionMessage:
        while True:
            item = await self._read.receive()
            if isinstance(item, SessionMessage):
                return item
            if (fault := _fault(item)) is not None:
                answer = types.JSONRPCError(jsonrpc="2.0", id=None, error=fault)
                await self._write.send(SessionMessage(answer))

    def close(self) -> None:
        self._read.close()

    async def aclose(self) -> None:
        await self._read.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _fault(error: Exception) -> types.ErrorData | None:
    """What is wrong with a line; None for an empty one, which nobody asks anything with."""
    if not isinstance(error, ValidationError):
        return types.ErrorData(code=types.INTERNAL_ERROR, message="the line cannot be read")
    first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] != "json_invalid":
        words = "the line is JSON, and no message of JSON-RPC 2.0: an object with `jsonrpc`, `method` and, of a request, `id`"
        return types.ErrorData(code=types.INVALID_REQUEST, message=words)
    if isinstance(first["input"], str) and not first["input"].strip():
        return None
    return types.ErrorData(
        code=types.PARSE_ERROR, message="the line is no JSON: a message is one line of JSON"
    )
