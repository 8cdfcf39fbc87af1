"""The thread that all connections live in, with an event loop of its own.

Whoever uses the store may be in any loop, in several, or in one after the other; a loop that a tool holds up neither
delays a commit nor lets the server take this process for gone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
_END_SECS = 5.0


class Waiter(NamedTuple):
    """A future of somebody else's loop."""

    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


def waiter() -> Waiter:
    """A future of the running loop, to be settled from the store's."""
    loop = asyncio.get_running_loop()
    return Waiter(loop.create_future(), loop)


Settled = tuple[Waiter, Any, BaseException | None]


def settle(done: Iterable[Settled]) -> None:
    """Hand results over, one wake-up a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
    for item in done:
        by_loop.setdefault(item[0].loop, []).append(item)
    for loop, items in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, items)
        except RuntimeError:  # the loop is gone, and with it whoever waited
            continue


def _settle(items: list[Settled]) -> None:
    for (future, _), result, error in items:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


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
