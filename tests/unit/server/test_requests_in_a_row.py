"""Requests that are sent without waiting for answers: no more of them is read than is taken up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from replan.server.http.protocol import bounded
from replan.server.http.rows import AT_ONCE

pytestmark = pytest.mark.anyio
GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n"


class Line(asyncio.Transport):
    """To a client: whether it is read from, and what it was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.answers = 0

    def write(self, data: Any) -> None:
        self.answers += data.count(b"HTTP/1.1 204")

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


class Service:
    """Answers as often as it is told to."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(0)
        self.answered = asyncio.Queue[None]()
        self.begun = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += 1
        await receive()
        await self.turns.acquire()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        self.answered.put_nowait(None)

    async def answer(self, number: int) -> None:
        for _ in range(number):
            self.turns.release()
        for _ in range(number):
            await self.answered.get()


@pytest.fixture
async def service() -> Service:
    return Service()


@pytest.fixture
async def line() -> Line:
    return Line()


@pytest.fixture
async def connected(service: Service) -> Callable[[Line], Any]:
    config = uvicorn.Config(service, log_config=None)
    config.load()
    protocol, state = bounded(HttpToolsProtocol, most_connections=1_000), ServerState()

    def connect(line: Line) -> Any:
        made = protocol(config, state, {})
        made.connection_made(line)
        return made

    return connect


@pytest.fixture
async def connection(connected: Callable[[Line], Any], line: Line) -> Any:
    return connected(line)


async def test_of_rows_a_few_requests_are_begun_in_a_turn_of_the_event_loop(
    service: Service, connected: Callable[[Line], Any]
) -> None:
    for _ in range(1_000):
        service.turns.release()
    others = [Line() for _ in range(50)]
    for other in others:
        connected(other).data_received(GET * 20)
    await asyncio.sleep(0)
    begun = [service.begun]
    assert begun == [50], "the first of each at once"
    async with asyncio.timeout(20):
        while sum(other.answers for other in others) < 50 * 20:
            await asyncio.sleep(0)
            begun.append(service.begun)
    assert max(after - before for before, after in pairwise(begun)) <= AT_ONCE


async def test_nothing_is_read_until_what_was_read_is_taken_up(
    service: Service, line: Line, connection: Any
) -> None:
    connection.data_received(GET * 300)
    for _ in range(20):
        await service.answer(10)
        assert not line.is_read, f"after {line.answers} answers"
    await service.answer(100)
    assert line.answers == 300
    assert line.is_read


async def test_what_comes_all_the_same_waits_for_its_turn(
    service: Service, line: Line, connection: Any
) -> None:
    for _ in range(300):
        connection.data_received(GET)
    assert len(connection.pipeline) == 1, "of the others nothing is looked at yet"
    await service.answer(300)
    assert line.answers == 300


async def test_of_what_follows_a_body_only_the_beginning_is_taken_up_at_once(
    service: Service, line: Line, connection: Any
) -> None:
    connection.data_received(POST + b"12345")
    connection.data_received(b"12345" + GET * 3_000)
    assert len(connection.pipeline) < 300
    await service.answer(3_001)
    assert line.answers == 3_001
