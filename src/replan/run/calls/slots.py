"""Places for running calls: when one is free, the most urgent that waits gets it.

A place belongs to a task. However that ends, its place goes back; to give it back earlier is a courtesy to who waits.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Protocol

from replan.core.state.task import StepState


class PlacesClosed(Exception):
    """No more places are given: the execution is being stopped."""


class Place:
    """One place, or the right to wait for one: held or not, by the task that owns it."""

    __slots__ = ("_places", "held", "owner")

    def __init__(self, places: Places, *, held: bool = False) -> None:
        self._places = places
        self.owner: asyncio.Task[None] | None = None
        """Whoever made this task calls `ended`."""
        self.held = held

    def belongs_to(self, task: asyncio.Task[None]) -> None:
        """From now on it goes back when this task ends."""
        self.owner = task
        task.add_done_callback(self.ended)

    def ended(self, task: asyncio.Task[None]) -> None:
        if self.held and self.owner is task:
            self.give()

    def give(self) -> None:
        """Give it back, if it is held."""
        if self.held:
            self.held = False
            self._places.one_more()

    async def take(self, urgency: float) -> None:
        """Wait for it, unless it is held; `PlacesClosed` if there will be none."""
        if not self.held:
            await self._places.fill(self, urgency)

    @asynccontextmanager
    async def away(self, urgency: float) -> AsyncIterator[None]:
        """`async with`: what is waited for inside needs no place; it is taken again afterwards."""
        self.give()
        yield
        await self.take(urgency)

    @asynccontextmanager
    async def taken(self, urgency: float) -> AsyncIterator[None]:
        """`async with`: it is held inside, and not any longer."""
        await self.take(urgency)
        try:
            yield
        finally:
            self.give()


_Waiting = tuple[float, int, Callable[..., None], Callable[[], None] | None, tuple[Any, ...]]
"""Urgency, order, what launches; what refuses, for those who wait for a place of their own; and with what."""


class Places:
    """At most `limit` holders at a time. Equal urgency: first come, first served.

    `handed_out` is called each time that places have been given away, with how many still wait: these have to.
    """

    __slots__ = (
        "_closed", "_giving", "_handed_out", "_held", "_no_offers", "_order", "_together", "_waiting", "free",
    )  # fmt: skip

    def __init__(self, limit: int, handed_out: Callable[[int], None] = lambda _: None) -> None:
        self.free = limit
        self._waiting: list[_Waiting] = []
        self._no_offers = False
        self._order = count()
        self._giving = False
        self._held = 0
        self._together = _Together(self)
        self._closed = False
        self._handed_out = handed_out

    def offer(self, urgency: float, launch: Callable[..., None], *what: Any) -> None:
        """Queue something to be launched: `launch(*what, place)`. A place that no task owns afterwards goes back at once."""
        if not (self._no_offers or self._closed):
            heapq.heappush(self._waiting, (-urgency, next(self._order), launch, None, what))
            if not (self._held or self._giving):
                self.hand_out()

    def refuse_offers(self) -> None:
        """Nothing that is offered is launched any more; who runs may still take places."""
        self._no_offers = True
        self._waiting = [entry for entry in self._waiting if entry[3] is not None]
        heapq.heapify(self._waiting)

    async def fill(self, place: Place, urgency: float) -> None:
        """Wait until `place` is held; `PlacesClosed` if there will be none."""
        waiter = asyncio.get_running_loop().create_future()

        def launch() -> None:
            if waiter.done():
                self.free += 1  # whoever waited has gone
            else:
                place.held = True
                waiter.set_result(None)

        def refuse() -> None:
            if not waiter.done():
                waiter.set_exception(PlacesClosed())

        self._queue(urgency, launch, refuse)
        try:
            await waiter
        except asyncio.CancelledError:
            place.give()
            raise

    def one_more(self) -> None:
        """A place has come back."""
        self.free += 1
        if not (self._held or self._giving):
            self.hand_out()

    def add(self, more: int) -> None:
        """From now on there are so many more."""
        self.free += more
        if not (self._held or self._giving):
            self.hand_out()

    def take_back(self, place: Place) -> None:
        """The place comes back, if it is held, and nothing is handed out until this is undone as a hold is."""
        self._held += 1
        if place.held:
            place.held = False
            self.free += 1

    def together(self) -> _Together:
        """`with`: what is given back and queued inside is handed out at the end, the most urgent first."""
        return self._together

    def hold(self, more: int) -> None:
        """Hand nothing out until as many holds are undone."""
        self._held += more
        if not self._held:
            self.hand_out()

    def hand_out(self) -> None:
        """Launch what waits while there are places. Never re-entered: a launch that ends at once only queues."""
        if self._giving or self._held:
            return
        self._giving = True
        try:
            while self.free > 0 and self._waiting and not self._closed:
                self.free -= 1
                _, _, launch, refuse, what = heapq.heappop(self._waiting)
                if refuse is not None:
                    launch()
                    continue
                place = Place(self, held=True)
                try:
                    launch(*what, place)
                finally:
                    if place.owner is None:
                        place.give()
        finally:
            self._giving = False
        if not self._closed:
            self._handed_out(len(self._waiting))

    def close(self) -> None:
        """Nothing is launched any more; whoever waits is told."""
        self._closed = True
        waiting, self._waiting = self._waiting, []
        for _, _, _, refuse, _ in waiting:
            if refuse is not None:
                refuse()

    @property
    def closed(self) -> bool:
        """No places are given any more."""
        return self._closed

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _queue(self, urgency: float, launch: Callable[..., None], refuse: Callable[[], None]) -> None:
        if self._closed:
            refuse()
            return
        heapq.heappush(self._waiting, (-urgency, next(self._order), launch, refuse, ()))
        if not (self._held or self._giving):
            self.hand_out()


class _Together:
    """The block of `Places.together`; one serves all of them, within each other too."""

    __slots__ = ("_places",)

    def __init__(self, places: Places) -> None:
        self._places = places

    def __enter__(self) -> None:
        self._places.hold(1)

    def __exit__(self, *_: object) -> None:
        self._places.hold(-1)


class Host(Protocol):
    """Whoever schedules the steps."""

    def spawn(self, step: StepState, work: Coroutine[Any, Any, None], place: Place) -> asyncio.Task[None]: ...
    def stop(self, error: BaseException) -> None: ...
    def look_idle(self) -> None:
        """Something that was waited for here is over."""
        ...
