"""An HTTP endpoint that keeps what it is sent, and answers as it is told: slowly, with other codes, not at all, or not there."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

SECS = 30.0
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


class Answer(NamedTuple):
    status: int = 204
    headers: tuple[tuple[str, str], ...] = ()
    hangs: bool = False
    """It says nothing until the other side has gone."""
    drops: bool = False
    """It ends the connection without a word."""


class Came(NamedTuple):
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.body)
        return said

    @property
    def place(self) -> tuple[str, int]:
        return self.said["data"]["task_id"], self.said["data"]["seq"]

    def is_signed_with(self, secret: str) -> bool:
        """As a receiver checks it, by the convention's own words."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = b".".join(
            [self.headers["webhook-id"].encode(), self.headers["webhook-timestamp"].encode(), self.body]
        )
        right = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return right in self.headers["webhook-signature"].split(" ")


class Endpoint:
    """On a port of its own, which it keeps while it is down."""

    def __init__(self) -> None:
        self.came: list[Came] = []
        self.next: deque[Answer] = deque()
        """What is answered next; then `to`."""
        self.to: Callable[[Came], Answer] = lambda _: Answer()
        self.taken: list[Came] = []
        """What was answered with a yes."""
        self.port = 0
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Condition()
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks?token=hunter2"

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Nobody listens there any more, and what is under way is cut off."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until that holds of what came."""
        async with asyncio.timeout(SECS), self._changed:
            await self._changed.wait_for(condition)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        came = Came(first.split(" ")[1], headers, body)
        answer = self.next.popleft() if self.next else self.to(came)
        async with self._changed:
            self.came.append(came)
            if 200 <= answer.status < 300 and not answer.hangs and not answer.drops:
                self.taken.append(came)
            self._changed.notify_all()
        if answer.drops:
            return
        if answer.hangs:
            await reader.read()
            return
        more = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        writer.write(f"HTTP/1.1 {answer.status} x\r\n{more}content-length: 0\r\n\r\n".encode())
        await writer.drain()
