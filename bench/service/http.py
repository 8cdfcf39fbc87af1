"""A load generator over HTTP/1.1: raw protocols, so that it costs little beside what it measures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

Request = Callable[[int], bytes]
"""What is sent as the n-th call."""


class Address(NamedTuple):
    host: str
    port: int


@dataclass(slots=True)
class Answers:
    """What came of many calls."""

    secs: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    broken: int = 0
    took: float = 0.0
    bodies: list[bytes] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.secs) / self.took if self.took else 0.0

    def ms(self, share: float) -> float:
        """A quantile of the times, in milliseconds."""
        ordered = sorted(self.secs)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Connection(asyncio.Protocol):
    """One keep-alive connection; one call at a time."""

    def __init__(self) -> None:
        self._got = bytearray()
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._got[:end]).lower()
        at = head.find(b"content-length:")
        size = (
            int(head[at + 15 : head.find(b"\r\n", at) if head.find(b"\r\n", at) > 0 else len(head)])
            if at > 0
            else 0
        )
        if len(self._got) < end + 4 + size:
            return
        body = bytes(self._got[end + 4 : end + 4 + size])
        del self._got[: end + 4 + size]
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionError("cut off"))

    async def call(self, data: bytes) -> tuple[int, bytes]:
        assert self.transport is not None
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return await self._waiter


async def connect(where: Address) -> Connection:
    _, made = await asyncio.get_running_loop().create_connection(Connection, *where)
    return made


def post(path: str, body: bytes, where: Address) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: {where.host}:{where.port}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def get(path: str, where: Address, accept: str = "application/json") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {where.host}:{where.port}\r\nAccept: {accept}\r\n\r\n".encode()


async def closed(
    where: Address, clients: int, calls: int, request: Request, *, keep: bool = False
) -> Answers:
    """So many clients, each of which calls again as soon as it is answered."""
    found, numbers = Answers(), iter(range(calls))

    async def client() -> None:
        try:
            connection = await connect(where)
            for n in numbers:
                await _one(connection, request(n), found, keep=keep)
        except OSError:
            found.broken += 1

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    found.took = time.perf_counter() - begun
    return found


async def open_loop(where: Address, rate: float, secs: float, clients: int, request: Request) -> Answers:
    """So many calls a second, whether they are answered or not; times count from when each was due."""
    found, free = Answers(), [await connect(where) for _ in range(clients)]
    waiting: set[asyncio.Task[None]] = set()

    async def one(n: int, due: float) -> None:
        connection = free.pop() if free else await connect(where)
        await _one(connection, request(n), found, since=due)
        free.append(connection)

    begun = time.perf_counter()
    for n in _numbers(int(rate * secs)):
        due = begun + n / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(one(n, due))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    found.took = time.perf_counter() - begun
    return found


async def _one(
    connection: Connection, data: bytes, found: Answers, *, keep: bool = False, since: float | None = None
) -> None:
    begun = time.perf_counter() if since is None else since
    try:
        status, body = await connection.call(data)
    except OSError:
        found.broken += 1
        raise
    found.secs.append(time.perf_counter() - begun)
    found.statuses[status] = found.statuses.get(status, 0) + 1
    if keep:
        found.bodies.append(body)


def _numbers(count: int) -> Iterator[int]:
    yield from range(count)
