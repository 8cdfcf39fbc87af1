"""The service in the process of the test: for what a real one would take minutes for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from replan import Replan
from replan.config import Settings
from replan.server.run import Up, serve
from replan.server.shared import Pace

SECS = 20.0


class Here(NamedTuple):
    """A service that runs here."""

    replan: Replan
    url: str
    stop: asyncio.Event
    port: int
    grpc_port: int

    async def raw(self, data: bytes, *, eof: bool = False) -> bytes:
        """All that comes back for these bytes, until the service closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            if eof:
                writer.write_eof()
            async with asyncio.timeout(SECS):
                return await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def service_here(
    path: Path, *, tools: Any = (), pace: Pace | None = None, **server: Any
) -> AsyncIterator[Here]:
    """The service on a database in that folder; `server`: of its section in the settings."""
    settings = Settings()
    section = settings.server.model_copy(update={"port": 0, **server})
    settings = settings.model_copy(update={"server": section})
    replan = Replan(db=path / "tasks.db", tools=tools, settings=settings, evaluation="steps")
    async with service_on(replan, pace) as here:
        yield here


@asynccontextmanager
async def service_on(replan: Replan, pace: Pace | None = None) -> AsyncIterator[Here]:
    """The service of that `Replan`, on any free port."""
    stop, up = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with replan:

        def ready(found: Up) -> None:
            up.set_result(found.urls)

        running = asyncio.create_task(
            serve(replan, port=0, stop=stop, ready=ready, grace_secs=0, pace=pace or Pace())
        )
        try:
            await asyncio.wait({running, up}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            urls = await up
            port, grpc_port = (int(url.rpartition(":")[2]) for url in urls)
            yield Here(replan, urls[0], stop, port, grpc_port)
        finally:
            stop.set()
            await running
