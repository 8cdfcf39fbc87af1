"""What bounds connections holds whichever of uvicorn's parsers is there."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from replan.server.http.protocol import bounded
from replan.server.http.serving import listener

pytestmark = pytest.mark.anyio
SECS = 20.0
HEAD = b"GET / HTTP/1.1\r\nhost: localhost\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers, or sends until its reader is cut off."""
    if scope["path"] == "/much":
        asyncio.get_running_loop().call_later(0.3, scope["replan.abort"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1_000):
            await send({"type": "http.response.body", "body": b"x" * 16_384, "more_body": True})
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(http: str, most: int = 100) -> AsyncIterator[int]:
    bound = listener("127.0.0.1", 0)
    config = uvicorn.Config(app, http=http, ws="none", lifespan="off", log_config=None, access_log=False)  # type: ignore[arg-type] # one of its names
    config.load()
    config.http_protocol_class = bounded(
        config.http_protocol_class,  # type: ignore[arg-type] # loaded
        most_connections=most, header_secs=0.2, body_secs=0.2,
    )  # fmt: skip
    server = Server(config)
    running = asyncio.create_task(server.serve([bound]))
    try:
        await server.up.wait()
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        await running


async def said(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            async with asyncio.timeout(SECS):
                return await reader.read()
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("http", ["httptools", "h11"])
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD + b"connection: close\r\n\r\n", 200),
        (b"", 408),
        (HEAD, 408),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nab", 408),
        (b"nonsense\r\n\r\n", 400),
        (HEAD + b"x: " + b"a" * 1_000_000 + b"\r\n\r\n", 400),
    ],
)
async def test_every_request_comes_to_an_end(http: str, sent: bytes, status: int) -> None:
    async with served(http) as port:
        answer = await said(port, sent)
        if not answer:
            assert len(sent) > 50_000, "the answer went with the connection"
            return
        found = int(answer.split()[1])
        assert found == status or (status, found) == (400, 431), answer
        if status != 200:
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == found


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_whoever_takes_nothing_can_be_cut_off(http: str) -> None:
    async with served(http) as port, asyncio.timeout(SECS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /much HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await asyncio.sleep(0.5)
        with contextlib.suppress(ConnectionError):
            assert len(await reader.read(-1)) < 16_384_000
        writer.close()


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_idle_connections_give_way(http: str) -> None:
    async with served(http, most=3) as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        assert b"200 OK" in await said(port, HEAD + b"connection: close\r\n\r\n")
        for _, writer in idle:
            writer.close()
