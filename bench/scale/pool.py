"""A server, workers on it, and somebody who hands in: what the measures of queues have in common."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg

from bench.workers import Workers
from postgres_server import PostgresServer

ENGINE = {"kind": "procrastinate"}


def tools(_: Path) -> list[Any]:
    from replan import tool

    @tool(effect="once")
    async def nothing(i: int) -> int:
        """Do nothing."""
        return i

    @tool(effect="once", requires_approval=True)
    async def agreed(i: int) -> int:
        """Do nothing, once a person has agreed."""
        return i

    return [nothing, agreed]


class Pool:
    """One server and what is on it."""

    def __init__(self, server: PostgresServer, folder: Path, replan: Any, workers: Workers) -> None:
        self.server = server
        self.folder = folder
        self.replan = replan
        self.workers = workers
        self._asking: psycopg.Connection[tuple[Any, ...]] | None = None

    def number(self, statement: str) -> int:
        """The one number that it gives."""
        if self._asking is None:
            self._asking = psycopg.connect(
                self.server.url(), autocommit=True, options="-c search_path=replan"
            )
        row = self._asking.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def count(self, where: str) -> int:
        return self.number(f"SELECT count(*) FROM task WHERE {where}")

    async def until(self, where: str, count: int, every_secs: float = 0.05) -> None:
        """Wait until so many tasks are so."""
        while await asyncio.to_thread(self.count, where) < count:  # noqa: ASYNC110 - others do it
            await asyncio.sleep(every_secs)


@contextlib.asynccontextmanager
async def pool() -> AsyncIterator[Pool]:
    from replan import Replan
    from replan.config import Settings

    server = PostgresServer(fsync=True, settings={"shared_buffers": "512MB", "max_wal_size": "2GB"})
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            common = {"address": server.url(), "tools": "bench.scale.pool:tools", "concurrency": 16}
            settings = Settings.model_validate({"engine": ENGINE})
            with Workers(folder, **common) as workers:
                async with Replan(
                    tools=tools(folder),
                    db=server.url(),
                    settings=settings,
                    evaluation="steps",
                    interactive=True,
                ) as replan:
                    yield Pool(server, folder, replan, workers)
    finally:
        server.close()


def chain(count: int, last: str = "nothing") -> dict[str, Any]:
    return {
        "steps": [
            {
                "step_id": f"s{n}",
                "tool": "nothing" if n < count - 1 else last,
                "parameters": {"i": n},
                "dependencies": [f"s{n - 1}"] if n else [],
            }
            for n in range(count)
        ]
    }


async def hand_in(replan: Any, count: int, plan: dict[str, Any], at_once: int = 64) -> None:
    """Submit so many, a number of them at a time."""
    left = iter(range(count))

    async def one() -> None:
        for _ in left:
            await replan.submit("nothing", plan=plan)

    await asyncio.gather(*(one() for _ in range(min(at_once, count))))
