"""What is kept for each address of a service whose addresses come and go."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Generic, TypeVar

from replan.errors import ReplanError
from replan.ports import Endpoints, ServiceState

T = TypeVar("T")
GONE_SECS = 60.0
"""How long what belongs to an address is kept once it is listed no more: it may be back in a moment."""


class Fixed:
    """Addresses that never change, as `Endpoints`."""

    def __init__(self, urls: Sequence[str], service: str = "") -> None:
        self.service = service
        self._urls = tuple(dict.fromkeys(urls))

    async def begin(self) -> None:
        pass

    def order(self) -> Sequence[str]:
        return self._urls

    def known(self) -> Sequence[str]:
        return self._urls

    def answered(self, url: str) -> None:
        pass

    def watch(self, changed: Callable[[], None]) -> None:
        pass

    def state(self) -> ServiceState:
        return ServiceState(self.service, "the configuration", len(self._urls), "", 0, 0, 0)

    async def aclose(self) -> None:
        pass


class _Entry(Generic[T]):
    __slots__ = ("gone", "url", "users", "value")

    def __init__(self, url: str, value: T) -> None:
        self.url = url
        self.value = value
        self.users = 0
        self.gone: float | None = None
        """Since when it is listed no more."""


class Kept(Generic[T]):
    """A `T` for each address: made when it is first listed, closed when it is not and nobody uses it any more."""

    def __init__(
        self,
        endpoints: Endpoints,
        make: Callable[[str], T],
        close: Callable[[T], Awaitable[None]],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoints = endpoints
        self._make = make
        self._close = close
        self._now = now
        self._entries: dict[str, _Entry[T]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        await self.endpoints.begin()

    def order(self) -> list[T]:
        """In the order in which one call is to try them."""
        return self._at(self.endpoints.order())

    def known(self) -> list[T]:
        """In an order that stays from call to call."""
        return self._at(self.endpoints.known())

    def recent(self) -> list[T]:
        """With those that were listed a moment ago."""
        listed = self.known()
        return listed + [each.value for each in self._entries.values() if each.gone is not None]

    @contextlib.contextmanager
    def using(self, value: T) -> Iterator[None]:
        """It is not closed within."""
        entry = self._entry(value)
        if entry is None:
            yield
            return
        entry.users += 1
        try:
            yield
        finally:
            entry.users -= 1

    def answered(self, value: T) -> None:
        if (entry := self._entry(value)) is not None:
            self.endpoints.answered(entry.url)

    async def aclose(self) -> None:
        """Close all; what is called later is made anew."""
        await self.endpoints.aclose()
        entries, self._entries = list(self._entries.values()), {}
        async with contextlib.AsyncExitStack() as closing:  # each, whatever becomes of the others
            for entry in entries:
                closing.push_async_callback(self._close, entry.value)
        if self._closing:
            await asyncio.wait(set(self._closing))

    def _entry(self, value: T) -> _Entry[T] | None:
        return next((each for each in self._entries.values() if each.value is value), None)

    def _at(self, urls: Sequence[str]) -> list[T]:
        found = []
        for url in dict.fromkeys(urls):
            if (entry := self._entries.get(url)) is None:
                entry = self._entries[url] = _Entry(url, self._make(url))
            entry.gone = None
            found.append(entry.value)
        if len(self._entries) > len(found):
            self._retire(set(urls))
        return found

    def _retire(self, listed: set[str]) -> None:
        now = self._now()
        for url, entry in list(self._entries.items()):
            if url in listed:
                continue
            if entry.gone is None:
                entry.gone = now
            elif now - entry.gone >= GONE_SECS and entry.users == 0:
                del self._entries[url]
                task = asyncio.get_running_loop().create_task(self._closed(entry.value))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    async def _closed(self, value: T) -> None:
        with contextlib.suppress(ReplanError, OSError):
            await self._close(value)
