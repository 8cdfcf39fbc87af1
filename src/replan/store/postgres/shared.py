"""What an engine gets that keeps its queue in the same database: `ports.Database`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any

import psycopg

from replan.errors import StoreBusy
from replan.store.postgres.address import Address
from replan.store.postgres.faults import FAULTS, passes
from replan.store.postgres.line import Lines
from replan.store.postgres.presence import SPACE, Presence
from replan.store.postgres.worker_loop import WorkerLoop

LINES = 3
"""Connections of an engine, made when they are needed: a heartbeat waits for no reader of the log."""
ANSWER_SECS = 5.0


class Shared:
    """The store's thread, a few lines in it, and its number."""

    def __init__(
        self,
        address: Address,
        home: WorkerLoop,
        presence: Presence,
        fault: Callable[[BaseException], BaseException],
        *,
        lines: int = LINES,
        answer_secs: float = ANSWER_SECS,
    ) -> None:
        self.shown = address.shown
        self.holder = presence.mine
        self.given: Mapping[str, Any] = address.given
        self._address = address
        self._home = home
        self._presence = presence
        self._fault = fault
        self._count = lines
        self._answer_secs = answer_secs
        self._lines: Lines | None = None

    def run(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._home.loop)

    async def ask(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        if self._lines is None:
            self._lines = Lines(self._address, self._count, answer_secs=self._answer_secs)
        try:
            async with self._lines.one() as line:
                rows: list[dict[str, Any]] = await line.ask_named(
                    sql, None if params is None else dict(params)
                )
                return rows
        except FAULTS as error:
            fault = self._fault(error)
            # Also of a full disk, or a server that takes no writes: for now.
            raise StoreBusy(str(fault)) if passes(error) else fault from None

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        await self._presence.listen(channel, heard)

    def deafen(self, channel: str) -> None:
        self._presence.deafen(channel)

    async def prepare(self, name: str, script: str) -> None:
        # Not `to_regclass`: what it did not find before it had the lock it would not find after either.
        there = f"SELECT EXISTS (SELECT FROM pg_tables WHERE tablename = '{name}' AND schemaname = current_schema())".encode()
        try:
            connection = await psycopg.AsyncConnection.connect(**self._address.given, autocommit=True)
            try:
                found = await (await connection.execute(there)).fetchone()
                if found is not None and found[0]:
                    return
                async with connection.transaction():
                    await connection.execute("SELECT pg_advisory_xact_lock(%s::bigint)", (SPACE,))
                    found = await (await connection.execute(there)).fetchone()
                    if found is None or not found[0]:  # another process may have been faster
                        await connection.execute(script.encode())
            finally:
                connection.pgconn.finish()
        except FAULTS as error:
            raise self._fault(error) from None

    def close(self) -> None:
        if self._lines is not None:
            self._lines.drop()
            self._lines = None
