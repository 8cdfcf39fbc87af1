"""One connection to the server, which is made when it is needed and made anew when it was lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import select
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import psycopg

from replan.core.data.strict_json import storable
from replan.store.postgres.address import Address
from replan.store.postgres.faults import passes

Row = tuple[Any, ...]
Params = dict[str, Any]
ANSWER_SECS = 10.0
"""How long one answer may take. What takes longer is asked again on a new connection."""
_LOOK_SECS = 0.05
LONG_SECS = 3_600.0
"""For what goes through a whole log."""
_BYTES_A_SEC = 500_000
"""A slow way still carries so much."""


def sendable(text: str) -> str:
    """As a statement can hold it; what no row can have is found nowhere."""
    return storable(text).replace("\0", "\ufffd")


def secs_for(size: int) -> float:
    """How much longer a statement of so many bytes may take."""
    return size / _BYTES_A_SEC


@contextlib.contextmanager
def answered_within(secs: float, connection: psycopg.AsyncConnection[Row]) -> Iterator[None]:
    """Hang up where an answer takes longer: whoever waits for it is told that the way is lost.

    Not `asyncio.timeout`: it would have the statement cancelled first, over a way that is lost. And not `pgconn.finish`: it
    would free what the driver is about to read, where the answer and the end of its time are seen in one turn.
    """
    loop = asyncio.get_running_loop()
    limit: asyncio.TimerHandle

    def over() -> None:
        nonlocal limit
        with contextlib.suppress(OSError, psycopg.Error):  # it is closed already
            descriptor = connection.pgconn.socket
            looking = select.poll()
            looking.register(descriptor, select.POLLIN)
            if looking.poll(0):  # something has come that nobody could look at yet
                limit = loop.call_later(_LOOK_SECS, over)
                return
            with socket.socket(fileno=os.dup(descriptor)) as way:
                way.shutdown(socket.SHUT_RDWR)

    limit = loop.call_later(secs, over)
    try:
        yield
    finally:
        limit.cancel()


class Line:
    """A connection of one event loop, for one question at a time.

    `ready`: what is done on each new connection before it is used.
    """

    def __init__(
        self,
        address: Address,
        *,
        answer_secs: float = ANSWER_SECS,
        ready: Callable[[psycopg.AsyncConnection[Row]], Awaitable[None]] | None = None,
    ) -> None:
        self._address = address
        self._answer_secs = answer_secs
        self._ready = ready
        self._connection: psycopg.AsyncConnection[Row] | None = None

    async def ask(self, sql: str, params: Params | None = None, *, more_secs: float = 0.0) -> list[Row]:
        """The rows that one statement gives. After an error that passes, the next question has a new connection.

        `more_secs`: so much longer than other answers this one may take.
        """
        return (await self._asked(sql, params, more_secs))[0]

    async def ask_named(self, sql: str, params: Params | None = None) -> list[dict[str, Any]]:
        """The same, each row by the names of its columns."""
        rows, names = await self._asked(sql, params, 0.0)
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def _asked(self, sql: str, params: Params | None, more_secs: float) -> tuple[list[Row], list[str]]:
        connection = await self.connected()
        try:
            with answered_within(self._answer_secs + more_secs, connection):
                cursor = await connection.execute(sql, params, prepare=True)
                if cursor.description is None:
                    return [], []
                return await cursor.fetchall(), [column.name for column in cursor.description]
        except BaseException as error:
            if passes(error) or not isinstance(error, Exception):
                self.drop()
            raise

    async def connected(self) -> psycopg.AsyncConnection[Row]:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        self._connection = None
        made = await psycopg.AsyncConnection.connect(**self._address.given, autocommit=True)
        try:
            if self._ready is not None:
                with answered_within(self._answer_secs, made):
                    await self._ready(made)
        except BaseException:
            made.pgconn.finish()
            raise
        self._connection = made
        return made

    def drop(self) -> None:
        """Let the connection go, whatever state it is in."""
        if self._connection is not None:
            self._connection.pgconn.finish()
            self._connection = None


class Lines:
    """A few lines, for questions that need no order among each other."""

    def __init__(self, address: Address, count: int, **options: Any) -> None:
        self._all = [Line(address, **options) for _ in range(count)]
        self._free: asyncio.LifoQueue[Line] = asyncio.LifoQueue()
        for line in self._all:
            self._free.put_nowait(line)

    async def ask(self, sql: str, params: Params | None = None, *, more_secs: float = 0.0) -> list[Row]:
        """What one statement gives, by whatever line is free."""
        async with self.one() as line:
            rows: list[Row] = await line.ask(sql, params, more_secs=more_secs)
            return rows

    @contextlib.asynccontextmanager
    async def one(self) -> Any:
        line = await self._free.get()
        try:
            yield line
        finally:
            self._free.put_nowait(line)

    def drop(self) -> None:
        for line in self._all:
            line.drop()


class Patience:
    """How often something is tried again: with growing pauses, until `secs` have passed."""

    def __init__(self, secs: float) -> None:
        self._until = time.monotonic() + secs
        self._pause = 0.02

    async def again(self) -> bool:
        """Wait a little; False if it is time to give up."""
        if time.monotonic() > self._until:
            return False
        await asyncio.sleep(self._pause * (0.5 + random.random()))
        self._pause = min(self._pause * 2, 2.0)
        return True
