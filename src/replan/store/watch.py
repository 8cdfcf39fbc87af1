"""Who waits for news of which task, and the look at what other processes wrote.

What was seen is kept between two looks, also while nobody waits: who comes later misses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from replan.errors import StoreError

LOOK_SECS = 0.1
_SHARE = 4
"""So many times as long as a look has taken is waited for before the next: thousands that wait take no thread for themselves."""
_TOGETHER = 1_000
"""Tasks that are looked at in one reading, so that others have their turn in between."""


class Seen(NamedTuple):
    """Where the last look was."""

    version: int = -1
    signal: int = -1


class News(NamedTuple):
    seen: Seen
    changed: bool
    """Something was written by another connection."""
    signalled: Sequence[str]
    """Tasks that people's events were written to."""


class Watch:
    """One waiting reader."""

    __slots__ = ("_told", "_waiter", "seen")

    def __init__(self) -> None:
        self.seen = 0
        """The last event that it has read."""
        self._told = False
        self._waiter: asyncio.Future[None] | None = None

    def clear(self) -> None:
        self._told = False

    def tell(self) -> None:
        self._told = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        if not self._told:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


class Listener:
    """Somebody who is told of what people write, by a call."""

    __slots__ = ("_among", "task_id", "tell")

    def __init__(self, task_id: str, tell: Callable[[], None], among: Watchers) -> None:
        self.task_id = task_id
        self.tell = tell
        self._among = among

    def close(self) -> None:
        self._among.forget(self)


T = TypeVar("T")
_ByTask = dict[str, tuple[T, ...]]


class Watchers:
    """All waiting readers and listeners of one store; the look runs only while there are some.

    `moved`: of tasks, each with the last event that is known of it, those of which there may be more to read, by whoever
    has written it without a word here.
    """

    def __init__(
        self,
        look: Callable[[Seen], Awaitable[News]],
        moved: Callable[[Mapping[str, int]], Awaitable[Sequence[str]]],
        seen: Seen,
    ) -> None:
        self._look = look
        self._moved = moved
        self._readers: _ByTask[Watch] = {}
        self._listeners: _ByTask[Listener] = {}
        self._seen = seen
        self._looking: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watch(self, task_id: str) -> Iterator[Watch]:
        watch = Watch()
        self._add(self._readers, task_id, watch)
        try:
            yield watch
        finally:
            self._remove(self._readers, task_id, watch)

    def listen(self, task_id: str, tell: Callable[[], None]) -> Listener:
        """Call `tell` whenever people may have written to the task, until the listener is closed."""
        listener = Listener(task_id, tell, self)
        self._add(self._listeners, task_id, listener)
        return listener

    def forget(self, listener: Listener) -> None:
        """Tell this one nothing more."""
        self._remove(self._listeners, listener.task_id, listener)

    def _add(self, waiting: _ByTask[T], task_id: str, one: T) -> None:
        waiting[task_id] = (*waiting.get(task_id, ()), one)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking())

    def _remove(self, waiting: _ByTask[T], task_id: str, one: T) -> None:
        left = tuple(other for other in waiting.get(task_id, ()) if other is not one)
        if left:
            waiting[task_id] = left
        else:
            waiting.pop(task_id, None)
        if not self._readers and not self._listeners and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def waiting(self, task_id: str) -> bool:
        """True if somebody reads along."""
        return task_id in self._readers

    def changed(self, task_id: str, *, signal: bool = False) -> None:
        """Something was written to the task; `signal`: by people."""
        for watch in self._readers.get(task_id, ()):
            watch.tell()
        if signal:
            for listener in self._listeners.get(task_id, ()):
                listener.tell()

    async def _keep_looking(self) -> None:
        took = 0.0
        while True:
            # First: what is there already is read by whoever waits.
            await asyncio.sleep(max(LOOK_SECS, _SHARE * took))
            began = time.monotonic()
            with contextlib.suppress(StoreError):  # a locked database is looked at again
                news = await self._look(self._seen)
                for task_id in news.signalled:
                    self.changed(task_id, signal=True)
                if news.changed:
                    await self._tell_of_moved()
                self._seen = news.seen
            took = time.monotonic() - began

    async def _tell_of_moved(self) -> None:
        """Not all who wait: also what this store writes itself looks like news."""
        waiting = list(self._readers)
        for at in range(0, len(waiting), _TOGETHER):
            read = {
                task_id: min(watch.seen for watch in self._readers[task_id])
                for task_id in waiting[at : at + _TOGETHER]
                if task_id in self._readers
            }
            for task_id in await self._moved(read):
                self.changed(task_id)

    async def aclose(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking
            self._looking = None
        for waiting in self._readers.values():
            for watch in waiting:
                watch.tell()
