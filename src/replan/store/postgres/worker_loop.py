"""The thread that all connections live in, with an event loop of its own.

Whoever uses the store may be in any loop, in several, or in one after the other; a loop that a tool holds up neither
delays a commit nor lets the server take this process for gone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from replan.store.settling import settle, waiter

T = TypeVar("T")
_END_SECS = 5.0


class WorkerLoop:
    """A daemon thread that runs one event loop until it is stopped."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._asked: set[asyncio.Task[Any]] = set()
        self._beside: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="replan-postgres", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there, and wait here, blocking."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def do(self, work: Coroutine[Any, Any, T], fault: Callable[[BaseException], BaseException]) -> T:
        """Run it there to its end, also if nobody here waits for it any more."""
        asked = waiter()

        def begin() -> None:
            task = self.loop.create_task(work)
            self._asked.add(task)
            task.add_done_callback(ended)

        def ended(task: asyncio.Task[T]) -> None:
            self._asked.discard(task)
            if task.cancelled():
                settle([(asked, None, fault(TimeoutError("the store is closed")))])
            elif (error := task.exception()) is not None:
                settle([(asked, None, fault(error))])
            else:
                settle([(asked, task.result(), None)])

        try:
            self.loop.call_soon_threadsafe(begin)
        except RuntimeError:
            work.close()
            raise
        asked.future.add_done_callback(_noticed)
        found: T = await asyncio.shield(asked.future)
        return found

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside, in the loop's own thread."""
        task = self.loop.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """End what runs, then the thread. What somebody waits for may come to its end first; `last` is done after it."""
        self.call(self._end())
        if last is not None:
            self.call(last())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    async def _end(self) -> None:
        if self._asked:
            await asyncio.wait(list(self._asked), timeout=_END_SECS)
        tasks = [*self._asked, *self._beside]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _noticed(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
