"""Workers in the test's own process, and what tests of them say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

import workers as world
from postgres_server import PostgresServer, asked
from workers import SECS, Gate

LOOK_SECS = 0.02
"""So often the database is asked for what is waited for."""
JOBS = "SELECT lock, priority, status FROM procrastinate_jobs ORDER BY id"


class Here:
    """Workers in the test's own process, on a database of their own."""

    def __init__(self, folder: Path, address: str, server: PostgresServer) -> None:
        self.spec = {"folder": str(folder), "address": address}
        self.gate = Gate(folder / "gate")
        self.folder = folder
        self.address = address
        self._server = server

    def replan(self, *tools: str, **spec: Any) -> Any:
        return world.replan({**self.spec, "tools": tools, **spec})

    @asynccontextmanager
    async def worker(
        self, *tools: str, spec: dict[str, Any] | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """A worker that is at work."""
        stop, at_work = asyncio.Event(), asyncio.Event()
        async with self.replan(*tools, **(spec or {})) as made:
            working = asyncio.create_task(made.work(stop=stop, ready=at_work.set, **options))
            async with asyncio.timeout(SECS):
                await at_work.wait()
            try:
                yield made
            finally:
                stop.set()
                await working

    def sql(self, statement: str) -> str:
        return self._server.sql(
            f"SET search_path = replan; {statement}", database=self.address.rsplit("/", 1)[1]
        )

    def done(self) -> list[str]:
        path = self.folder / "journal"
        return [line.split('"')[3] for line in path.read_text().splitlines()] if path.exists() else []

    async def until(self, statement: str, found: str) -> None:
        """Wait until the database says so."""

        def look() -> None:
            limit = time.monotonic() + SECS
            with psycopg.connect(self.address, autocommit=True) as connection:
                connection.execute("SET search_path = replan")
                while (said := asked(connection, statement)) != found:
                    assert time.monotonic() < limit, said
                    time.sleep(LOOK_SECS)

        await asyncio.to_thread(look)

    async def arrives(self) -> world.Arrival:
        return await asyncio.to_thread(self.gate.next)


@contextmanager
def here_on(address: str, server: PostgresServer) -> Iterator[Here]:
    with TemporaryDirectory(prefix="rpw", dir="/tmp") as folder:  # short: a socket's path is
        made = Here(Path(folder), address, server)
        try:
            yield made
        finally:
            made.gate.close()


async def submitted(replan: Any, *steps: dict[str, Any], **options: Any) -> str:
    task_id: str = await replan.submit("do it", plan={"steps": list(steps)}, **options)
    return task_id


async def ended(replan: Any, task_id: str) -> Any:
    async with asyncio.timeout(SECS):
        return await replan.wait(task_id)
