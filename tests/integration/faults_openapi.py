"""The faults that a server behind an OpenAPI document may have, each brought about by a real one on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fault_table import Broken

from replan.ports import ToolCall
from replan.tools.openapi import OpenApiSource

SOURCE = "openapi"
_LIMIT = 1_000_000


def _document(field: str = "n") -> dict[str, Any]:
    schema = {"type": "object", "properties": {field: {"type": "integer"}}, "required": [field]}
    answer = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "faulty", "version": "1"},
        "paths": {
            "/step": {
                "post": {
                    "operationId": "step",
                    "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
                    "responses": {
                        "200": {"description": "", "content": {"application/json": {"schema": answer}}}
                    },
                }
            }
        },
    }


Answer = Callable[["FaultyServer", asyncio.StreamWriter], Awaitable[None]]


class FaultyServer:
    """A server that speaks HTTP/1.1 byte by byte, so that it can break off anywhere."""

    def __init__(self, answer: Answer, *, document: dict[str, Any] | None = None, lists: bool = True) -> None:
        self.answer = answer
        self.document = document or _document()
        self.lists = lists
        self.served = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop_listening(self) -> None:
        """Take no further connections; the present ones stay."""
        if self._server is not None:
            self._server.close()

    async def kill(self) -> None:
        """As when its process is killed: no connection lives on, and none is taken."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.lower().split(b"\r\n")
                        if line.startswith(b"content-length")
                    ),
                    0,
                )
                await reader.readexactly(length)
                if head.startswith(b"GET /openapi.json"):
                    if not self.lists:
                        await asyncio.Event().wait()
                    await reply(writer, json.dumps(self.document))
                    continue
                self.served += 1
                await self.answer(self, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()


async def reply(writer: asyncio.StreamWriter, text: str, status: str = "200 OK", more: str = "") -> None:
    data = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n{more}\r\n"
    writer.write(head.encode() + data)
    await writer.drain()


async def right(server: FaultyServer, writer: asyncio.StreamWriter) -> None:
    await reply(writer, '{"n": 2}')


async def killed_in(server: FaultyServer, writer: asyncio.StreamWriter) -> None:
    await server.kill()


async def killed_after(server: FaultyServer, writer: asyncio.StreamWriter) -> None:
    await right(server, writer)
    writer.write_eof()
    await writer.drain()
    server.stop_listening()


async def hang(server: FaultyServer, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def huge(server: FaultyServer, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b'"' + b"x" * 65_534 + b'"'
    while True:
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()


async def invalid(server: FaultyServer, writer: asyncio.StreamWriter) -> None:
    await reply(writer, '{"n": 2')


async def unauthorized(server: FaultyServer, writer: asyncio.StreamWriter) -> None:
    await reply(writer, '{"message": "bad credentials"}', "401 Unauthorized")


async def changed(server: FaultyServer, writer: asyncio.StreamWriter) -> None:
    if "count" in json.dumps(server.document):
        await reply(writer, '{"detail": "count is required"}', "422 Unprocessable Content")
    else:
        await right(server, writer)


def _faulty(
    answer: Answer,
    *kinds: str,
    happened: str | None = None,
    lists: bool = True,
    mends: bool = False,
    change: Any = None,
) -> Any:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        server = FaultyServer(answer, lists=lists)
        await server.start()
        source = OpenApiSource(
            f"{server.url}/openapi.json", max_result_bytes=_LIMIT, list_timeout_secs=20.0 if lists else 0.5
        )
        broken = Broken(source, "step", {"n": 1}, kinds=frozenset(kinds), happened=happened, lists=lists)
        if change is not None:
            broken.prepare = lambda: change(server)
        if mends:

            async def mend() -> None:
                await server.kill()
                server.answer, server.lists = right, True
                await server.start()

            broken.mend, broken.works = mend, ToolCall("step", {"n": 1}, "later")
        try:
            yield broken
        finally:
            await source.aclose()
            await server.kill()

    return made


async def _kill(server: FaultyServer) -> None:
    await server.kill()


async def _change(server: FaultyServer) -> None:
    server.document = _document("count")


@contextlib.asynccontextmanager
async def refused() -> AsyncIterator[Broken]:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        source = OpenApiSource(_document(), server=f"http://127.0.0.1:{taken.getsockname()[1]}")
        yield Broken(source, "step", {"n": 1}, kinds=frozenset({"refused"}), happened="no")
        await source.aclose()


FAULTS = {
    "killed before": _faulty(right, "refused", happened="no", mends=True, change=_kill),
    "killed in": _faulty(killed_in, "connection_lost", happened="unknown", mends=True),
    "killed after": _faulty(killed_after, mends=True),
    "hang": _faulty(hang, "timeout", happened="unknown", mends=True),
    "slow list": _faulty(right, lists=False, mends=True),
    "huge result": _faulty(huge, "output", happened="unknown", mends=True),
    "invalid JSON": _faulty(invalid, "output", happened="unknown", mends=True),
    "changed schema": _faulty(changed, "http", happened="no", change=_change),
    "unauthorized": _faulty(unauthorized, "http", happened="no", mends=True),
    "refused": refused,
}
