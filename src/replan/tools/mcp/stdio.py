"""The stdio transport: one JSON-RPC message a line (MCP, Transports, stdio).

The library's own holds a line of any length, and logs every line that is no message. Here a line is bounded, what is
no message is kept for the error text only, and a broken answer ends the call that it belongs to.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from replan.tools.mcp.process import ServerProcess
from replan.tools.mcp.traffic import Message, Traffic

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

TOO_LARGE = -32098
"""The code of an answer that was given up for its size; of our own making, it never crosses the wire."""
_ID = rb'"id"\s*:\s*(null|\d+|"[^"\\]{1,200}")'
_FIRST = re.compile(rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_LAST = re.compile(rb",\s*" + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_HEAD, _TAIL = 4096, 512
"""So much of the beginning and of the end of a line is looked at for whose answer it is."""
_METHOD, _ANSWER = re.compile(rb'"method"\s*:'), re.compile(rb'"(result|error)"\s*:')


@asynccontextmanager
async def stdio_transport(
    process: ServerProcess, traffic: Traffic, max_bytes: int, ended: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """Messages with a running server. `ended` is called when it writes or reads no more; at the end it is stopped."""
    send_in, receive_in = anyio.create_memory_object_stream[Message](0)
    send_out, receive_out = anyio.create_memory_object_stream[SessionMessage](0)

    async def incoming() -> None:
        lines = Lines(traffic, max_bytes)
        try:
            async with send_in:
                while chunk := await process.read():
                    for message in lines.feed(chunk):
                        await send_in.send(message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # the session is over; what the server still says is for nobody
        finally:
            ended()

    async def outgoing() -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with receive_out:
                async for message in receive_out:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    try:
                        await process.write(text.encode() + b"\n")
                    except OSError:  # it hears nothing any more, whatever it may still say
                        ended()
                        return

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(incoming)
            tasks.start_soon(outgoing)
            try:
                yield receive_in, send_out
            finally:
                with anyio.CancelScope(shield=True):
                    await process.stop()
                tasks.cancel_scope.cancel()
    finally:
        for stream in (send_in, receive_in, send_out, receive_out):
            stream.close()


class Lines:
    """Cuts output into lines and reads each as a message."""

    def __init__(self, traffic: Traffic, max_bytes: int) -> None:
        self._traffic = traffic
        self._max = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._ends: tuple[bytes, bytes] | None = None
        """Beginning and latest end of a line that is too large; the rest of it is dropped."""
        self._told = False
        """Whether the request that such a line answers has its error: what is asked meanwhile is not meant."""

    def feed(self, chunk: bytes) -> list[SessionMessage]:
        found = []
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            found.append(self._read(b"".join([*self._parts, end])) if self._ends is None else self._gone(end))
            self._parts, self._size, self._ends, self._told = [], 0, None, False
        if self._ends is not None:
            self._ends = (self._ends[0], (self._ends[1] + rest)[-_TAIL:])
        else:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > self._max:
                line = b"".join(self._parts)
                self._parts, self._ends = [], (line[:_HEAD], line[-_TAIL:])
                found.append(self._too_large(self._asked(line[:_HEAD], b"")))
                self._told = found[-1] is not None
        return [message for message in found if message is not None]

    def _gone(self, end: bytes) -> SessionMessage | None:
        """The end of a line that is too large, which may tell whose answer it was."""
        assert self._ends is not None
        if self._told:
            return None
        head, tail = self._ends
        return self._too_large(self._asked(head, (tail + end)[-_TAIL:]))

    def _read(self, line: bytes) -> SessionMessage | None:
        line = line.removeprefix(b"\xef\xbb\xbf").strip()  # a mark of byte order, as some runtimes begin with
        if not line:
            return None
        asked = line[:_HEAD], line[-_TAIL:]
        if len(line) > self._max:
            return self._too_large(self._asked(*asked))
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            if not line.startswith(b"{") or b'"jsonrpc"' not in line:
                return None  # a line of a log
            said = "the answer is not a valid JSON-RPC message"
            return _broken(self._asked(*asked), types.PARSE_ERROR, said)

    def _too_large(self, request: str | int | None) -> SessionMessage | None:
        return _broken(request, TOO_LARGE, f"the answer is larger than {self._max:,} bytes")

    def _asked(self, head: bytes, tail: bytes) -> str | int | None:
        """The request of ours that a line answers, as far as its ends tell: some servers write the id last.

        An id elsewhere is of something in the answer; without one, the only request that is open is meant.
        """
        if _METHOD.search(head) and not _ANSWER.search(head):
            return None
        if found := _FIRST.match(head.lstrip()) or _LAST.search(tail):
            told = found[1].decode("utf-8", "replace")
            if told == "null":
                return None  # the answer to a notification, as some servers give it
            return next((each for each in self._traffic.open if str(each) == told.strip('"')), None)
        return next(iter(self._traffic.open)) if len(self._traffic.open) == 1 else None


def _broken(request: str | int | None, code: int, text: str) -> SessionMessage | None:
    """An error in the place of an answer that cannot be read, if one can tell to what it was the answer."""
    if request is None:
        return None
    return SessionMessage(
        types.JSONRPCError(jsonrpc="2.0", id=request, error=types.ErrorData(code=code, message=text))
    )
