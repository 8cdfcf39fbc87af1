"""Prefect's rows, in an environment of their own. Nothing here may need more than Prefect.

Its API keeps the states of runs in a database, here that of a server that the flow starts by itself. A task goes on when
its state has been handed over, not when it is on disk: what it promises is less than what the others do.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from bench.rows import Layers, Ready

LEVEL = "handed over"


def prefect_row(database: str) -> Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]:
    @asynccontextmanager
    async def row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
        url = f"sqlite+aiosqlite:///{folder / 'prefect.db'}"
        if database == "postgres":
            url = (folder / "address").read_text().replace("postgresql://", "postgresql+asyncpg://")
        os.environ |= {
            "PREFECT_HOME": str(folder),
            "PREFECT_API_DATABASE_CONNECTION_URL": url,
            "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
            "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
            "PREFECT_LOGGING_LEVEL": "ERROR",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
            "DO_NOT_TRACK": "1",
        }
        from prefect import flow, task  # type: ignore[import-not-found, unused-ignore]

        @task
        async def step(i: int) -> int:
            return i

        @flow
        async def run(widths: list[int]) -> int:
            done = 0
            for width in widths:
                done += len(await asyncio.gather(*(step(done + n) for n in range(width))))
            return done

        async def once() -> None:
            assert await run([len(layer) for layer in layers]) == 100

        async def level() -> str:
            return LEVEL

        yield Ready(once, level)

    return row
