"""What the tests of the page stand on: a service in a thread of its own, and a browser that has the page's modules."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from replan import Replan
from replan.config import Settings
from replan.server.run import Up, serve
from replan.server.shared import Pace

SECS = 20.0
T = TypeVar("T")


class Served:
    """A service, and the loop that it runs in."""

    def __init__(self, replan: Replan, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.replan = replan
        self.url = url
        self._loop = loop

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have it done where the service runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECS)


@contextlib.contextmanager
def served(
    folder: Path,
    *,
    tools: Any = (),
    model: Any = None,
    pace: Pace | None = None,
    server: Any = None,
    **more: Any,
) -> Iterator[Served]:
    """A service on a database in that folder; `server`: of its section in the settings; `more`: of `Replan`."""
    settings = Settings()
    section = settings.server.model_copy(update={"port": 0, **(server or {})})
    settings = settings.model_copy(update={"server": section})
    up: asyncio.Future[Served] | Any = threading.Event()
    found: list[Served] = []
    failed: list[BaseException] = []
    ends: list[Any] = []

    async def run() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        ends.append(lambda: loop.call_soon_threadsafe(stop.set))
        replan = Replan(model, db=folder / "tasks.db", tools=tools, settings=settings, **more)

        def ready(said: Up) -> None:
            found.append(Served(replan, said.urls[0], loop))
            up.set()

        async with replan:
            await serve(
                replan, port=0, stop=stop, ready=ready, grace_secs=0, page_only=True, pace=pace or Pace()
            )

    def in_thread() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 -- told where it was asked for
            failed.append(error)
        finally:
            up.set()

    thread = threading.Thread(target=in_thread, daemon=True)
    thread.start()
    assert up.wait(SECS), "the service does not start"
    if failed:
        raise failed[0]
    try:
        yield found[0]
    finally:
        ends[0]()
        thread.join(SECS)
        if failed:
            raise failed[0]
