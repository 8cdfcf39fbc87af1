"""Endpoints in this process that die, freeze and come back when they are told to."""

from __future__ import annotations

import asyncio
import contextlib
import json

_ANSWER = json.dumps(
    {
        "id": "1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": '{"final_output": "x"}'}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()  # fmt: skip


class Endpoint:
    """An OpenAI-compatible endpoint: `secs` for each answer. `frozen`: it takes questions and answers none."""

    def __init__(self, secs: float = 0.005) -> None:
        self.secs = secs
        self.frozen = False
        self.port = 0
        self.answers = 0
        self.at_once = 0
        """The most questions that were in it at a time before it first answered since it was started."""
        self._here = 0
        self._fresh = True
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        self._fresh, self.at_once, self._here = True, 0, 0
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(sizes[0].partition(b":")[2]) if sizes else 0)
                self._here += 1
                if self._fresh:
                    self.at_once = max(self.at_once, self._here)
                try:
                    await asyncio.sleep(3_600 if self.frozen else self.secs)
                finally:
                    self._here -= 1
                self._fresh = False
                self.answers += 1
                writer.write(
                    f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(_ANSWER)}\r\n\r\n".encode()
                    + _ANSWER
                )
                await writer.drain()
        self._open.discard(writer)
        writer.close()


class Relay:
    """A way to a server that can be cut, as if the server were killed."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await server.wait_closed()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._open |= {writer, back}
        await asyncio.gather(_pump(reader, back), _pump(there, writer))
        self._open -= {writer, back}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    writer.close()
