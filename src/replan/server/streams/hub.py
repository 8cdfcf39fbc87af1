"""Watchers of tasks: one follower a task and process, each event encoded once a form, a watcher is a place in what was encoded.

A watcher that does not keep up is no queue that grows: it reads what it has missed from the log, when it can send again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Protocol

from replan.core.events import TERMINAL, Record
from replan.core.state.task import ENDED
from replan.errors import ReplanError, StoreError
from replan.ports import TaskSummary
from replan.run.service.tasks import Service
from replan.server.streams.ring import Ring

BEAT_SECS = 15.0
"""How long a stream is silent at most."""
PIECE_BYTES = 16_384
"""Sent at once; a single event may be more."""
PAGE = 40
"""Events of the log that are read at once for a watcher that is behind."""
_PAGES = 4
"""Read at a time: hundreds of watchers that are behind are not to have a page in memory each."""
_MANY = 50
_EACH_SECS, _MOST_SECS = 0.00001, 0.02
"""Where many watch, what is stored within so long, for each of them, is sent at once: each sending costs, whatever is in it."""
_FIRST_PAUSE, _MOST_PAUSE = 0.1, 5.0
log = logging.getLogger("replan.server")


class Form(Protocol):
    """How an event is encoded. Equal forms encode alike."""

    def __call__(self, record: Record) -> bytes:
        """Empty: it is left out in this form."""
        ...

    def __hash__(self) -> int: ...


class Hub:
    """All streams of this process."""

    def __init__(self, service: Service, *, beat_secs: float = BEAT_SECS) -> None:
        self.service = service
        self.beats = 0
        self.stopped = False
        self.pages = asyncio.Semaphore(_PAGES)
        self._beat_secs = beat_secs
        self._topics: dict[str, _Topic] = {}
        self._beating: asyncio.TimerHandle | None = None

    @property
    def watchers(self) -> int:
        """How many there are."""
        return sum(topic.watchers for topic in self._topics.values())

    @contextlib.contextmanager
    def watch(self, summary: TaskSummary, after: int, form: Form) -> Iterator[Watcher]:
        """A watcher of the task's events after that one. `summary`: the task's row, of just now."""
        ended = summary.status in ENDED
        topic = self._topics.get(summary.task_id)
        if topic is None:
            topic = _Topic(self, summary.task_id, summary.last_seq, ended=ended)
            if not ended:
                self._topics[summary.task_id] = topic
        topic.watchers += 1
        if self._beating is None and not self.stopped:
            self._beating = asyncio.get_running_loop().call_later(self._beat_secs, self._beat)
        try:
            yield Watcher(self, topic, after, form)
        finally:
            topic.watchers -= 1
            if not topic.watchers:
                topic.close()
                if self._topics.get(summary.task_id) is topic:
                    del self._topics[summary.task_id]
                if not self._topics and self._beating is not None:
                    self._beating.cancel()
                    self._beating = None

    def stop(self) -> None:
        """End every stream, now and from here on: whoever watches comes back to where it was."""
        self.stopped = True
        for topic in self._topics.values():
            topic.wake()

    async def aclose(self) -> None:
        """Stop reading. The streams have ended before."""
        self.stop()
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
        for topic in list(self._topics.values()):
            topic.close()

    def _beat(self) -> None:
        self.beats += 1
        self._beating = asyncio.get_running_loop().call_later(self._beat_secs, self._beat)
        for topic in self._topics.values():
            topic.wake()


class Watcher:
    """One of those who watch a task."""

    __slots__ = ("_at", "_beat", "_done", "_form", "_hub", "_page", "_ring", "_seq", "_topic")

    def __init__(self, hub: Hub, topic: _Topic, after: int, form: Form) -> None:
        self._hub = hub
        self._topic = topic
        self._form = form
        self._ring = topic.ring(form)
        self._seq = after
        self._at: int | None = None
        """Its place in the ring; None: behind it, or not in it yet."""
        self._beat = hub.beats
        self._page = PAGE
        self._done = False

    async def next(self, most: int = PIECE_BYTES) -> list[bytes] | None:
        """What comes next, encoded: one event at least, and as many as fit. Empty: a sign of life is due. None: that was all.

        None comes after the task's last event, when the hub stops, and when the task is there no more.
        """
        while not (self._done or self._hub.stopped):
            if self._at is None or self._at < self._ring.first:
                self._at = self._ring.place_after(self._seq)
            if self._at is None:
                if found := await self._from_the_log(most):
                    return found
                continue
            if self._at < self._ring.end:
                if found := self._from_the_ring(self._at, most):
                    return found
                continue
            if self._topic.ended:
                return None
            if self._beat != self._hub.beats:
                self._beat = self._hub.beats
                return []
            await self._topic.news()
        return None

    def wake(self) -> None:
        """Have it look again whether it is to go on."""
        self._topic.wake()

    def leave(self) -> None:
        """Nothing comes any more."""
        self._done = True
        self._topic.wake()

    def _from_the_ring(self, at: int, most: int) -> list[bytes]:
        found, self._at, self._seq = self._ring.piece(at, self._seq, most)
        if found:  # what is left out in this form is no sign of life
            self._beat = self._hub.beats
        return found

    async def _from_the_log(self, most: int) -> list[bytes]:
        async with self._hub.pages:
            return await self._page_of_the_log(most)

    async def _page_of_the_log(self, most: int) -> list[bytes]:
        try:
            records = await self._hub.service.history(self._topic.task_id, self._seq, self._page)
        except StoreError as error:
            log.warning("task %s cannot be read at the moment: %s", self._topic.task_id, error)
            await asyncio.sleep(_FIRST_PAUSE)
            return []
        except ReplanError:
            records = []
        if not records:
            self._done = self._topic.ended or self._seq < self._ring.since  # it was deleted
            if not self._done:
                self._at = self._ring.end
            return []
        found: list[bytes] = []
        size = taken = 0
        for record in records:
            data = self._form(record)
            if found and size + len(data) > most:
                break
            taken += 1
            self._seq = record.seq
            if data:
                found.append(data)
                size += len(data)
            if isinstance(record.event, TERMINAL):
                self._done = True
                break
        self._page = max(2, min(PAGE, 2 * taken))  # large ones are not read again and again
        if found:
            self._beat = self._hub.beats
        return found


class _Topic:
    """A task that is watched here."""

    def __init__(self, hub: Hub, task_id: str, last: int, *, ended: bool) -> None:
        self.task_id = task_id
        self.watchers = 0
        self.ended = ended
        """Nothing comes any more that is not in the log or the rings by now."""
        self._hub = hub
        self._last = last
        self._rings: dict[Form, Ring] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._waking: asyncio.TimerHandle | None = None
        self._tasks = (
            [] if ended else [asyncio.create_task(self._stored()), asyncio.create_task(self._unstored())]
        )

    def ring(self, form: Form) -> Ring:
        found = self._rings.get(form)
        if found is None:
            found = self._rings[form] = Ring(self._last)
        return found

    async def news(self) -> None:
        """Wait until something may have come."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def wake(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
        for task in self._tasks:
            task.cancel()

    def _add(self, record: Record, stored: bool) -> None:
        for form, ring in self._rings.items():
            ring.add(record.seq if stored else 0, form(record))
        if self.watchers < _MANY:
            self.wake()
        elif self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(
                min(_EACH_SECS * self.watchers, _MOST_SECS), self.wake
            )

    async def _stored(self) -> None:
        """Encode what is stored, as it comes, until the task has ended or nobody watches it."""
        pause = _FIRST_PAUSE
        try:
            while not self.ended:
                try:
                    async for record in self._hub.service.follow(self.task_id, self._last):
                        self._last = record.seq
                        pause = _FIRST_PAUSE
                        self.ended = isinstance(record.event, TERMINAL)
                        self._add(record, stored=True)
                    return
                except StoreError as error:  # the database is away: the streams are kept
                    log.warning("task %s cannot be followed at the moment: %s", self.task_id, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _MOST_PAUSE)
        except ReplanError:
            return  # it is there no more
        except Exception:
            log.exception("the events of task %s cannot be told", self.task_id)
        finally:
            self.ended = True
            self.wake()

    async def _unstored(self) -> None:
        """Encode what is told and not stored."""
        with self._hub.service.parts.feed.listen(self.task_id) as told:
            while not self.ended:
                self._add(await told.get(), stored=False)
