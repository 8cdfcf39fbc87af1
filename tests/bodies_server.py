"""An HTTP server on the loopback whose bodies are large, come in pieces, break off, or are not what they say."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

MIB = 1 << 20


def block(n: int) -> bytes:
    """A mebibyte that is no text, another one for each number."""
    return bytes([0, 128 + n % 100]) * (MIB // 2)


def sha256_of(mib: int) -> str:
    hashed = hashlib.sha256()
    for n in range(mib):
        hashed.update(block(n))
    return hashed.hexdigest()


class Received(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    size: int
    sha256: str
    start: bytes


class Bodies:
    """`/bytes?mib=3` gives so many blocks; `said=N` says another length, `after=N` breaks off after so many, `type=…` and
    `digest=…` are headers, `chunked=1` says no length, `hang=1` goes silent in the middle, `text=1` gives text. All else
    tells what it has received."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self.halfway = asyncio.Event()
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            method, target, _ = lines[0].split()
            headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:] if ": " in line)}
            at = urlsplit(target)
            asked = dict(parse_qsl(at.query))
            if at.path.startswith("/bytes"):
                await self._give(writer, asked)
            else:
                await self._take(reader, writer, method, target, headers)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            writer.close()

    async def _give(self, writer: asyncio.StreamWriter, asked: dict[str, str]) -> None:
        mib = int(asked["mib"])
        lines = ["HTTP/1.1 200 OK", "Connection: close"]
        if "type" in asked:
            lines.append(f"Content-Type: {asked['type']}")
        if "digest" in asked:
            value = bytes.fromhex(asked["digest"])
            lines.append(f"Content-Digest: sha-256=:{base64.b64encode(value).decode()}:")
        chunked = "chunked" in asked
        lines.append(
            "Transfer-Encoding: chunked"
            if chunked
            else f"Content-Length: {int(asked.get('said', mib * MIB))}"
        )
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for n in range(mib):
            if n == int(asked.get("after", mib)):
                return
            data = b"0123456789abcde\n" * (MIB // 16) if "text" in asked else block(n)
            writer.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            await writer.drain()
            if "hang" in asked and n == mib // 2:
                self.halfway.set()
                while True:  # until the other side has gone
                    writer.write(b"")
                    await asyncio.sleep(0.01)
                    if writer.transport.is_closing():
                        self.gone.set()
                        return
        if chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _take(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        method: str,
        target: str,
        headers: dict[str, str],
    ) -> None:
        hashed, size, start = hashlib.sha256(), 0, b""
        async for piece in _body(reader, headers):
            hashed.update(piece)
            size += len(piece)
            start = (start + piece)[:2000]
        one = Received(method, target, headers, size, hashed.hexdigest(), start)
        self.received.append(one)
        said: dict[str, Any] = {"size": size, "sha256": one.sha256, "type": headers.get("content-type", "")}
        body = json.dumps(said).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        await writer.drain()


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    if "content-length" in headers:
        left = int(headers["content-length"])
        while left:
            piece = await reader.read(min(left, MIB))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece
    elif headers.get("transfer-encoding") == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)


@contextlib.asynccontextmanager
async def bodies() -> AsyncIterator[Bodies]:
    made = Bodies()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 16)
    async with server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield made
