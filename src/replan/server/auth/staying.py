"""Whoever is let in stays so long as the key or token is good: streams and waits end with it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from replan.errors import NotSignedIn, ReplanError
from replan.run.access.callers import Caller
from replan.server.auth.credentials import Credentials

log = logging.getLogger("replan.auth")
CHECK_SECS = 2.0


class Leaves(Protocol):
    """A stream that can be ended."""

    def leave(self) -> None: ...


class _Wait:
    """A wait as such."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self.left = False

    def leave(self) -> None:
        self.left = True
        self._task.cancel()


T = TypeVar("T")
W = TypeVar("W", bound=Leaves)


class Staying:
    """Looks again and again whether callers of streams and waits are still known, once for all streams of one key or token."""

    def __init__(
        self, authenticate: Callable[[Credentials], Awaitable[Caller]], *, check_secs: float = CHECK_SECS
    ) -> None:
        self._authenticate = authenticate
        self._check_secs = check_secs
        self._streams: dict[Credentials, list[Leaves]] = {}
        self._checking: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def while_known(self, credentials: Credentials, stream: AbstractContextManager[W]) -> Iterator[W]:
        """The stream, which is ended when whoever has these credentials is known no more."""
        credentials = credentials.alone()
        with stream as open_:
            self._streams.setdefault(credentials, []).append(open_)
            if self._checking is None:
                self._checking = asyncio.create_task(self._check())
            try:
                yield open_
            finally:
                streams = self._streams[credentials]
                streams.remove(open_)
                if not streams:
                    del self._streams[credentials]
                if not self._streams and self._checking is not None:
                    self._checking.cancel()
                    self._checking = None

    async def unless_gone(self, credentials: Credentials, waiting: Coroutine[Any, Any, T]) -> T:
        """What it gives that may be long in coming; `NotSignedIn` as soon as whoever has these credentials is known no more."""
        task = asyncio.get_running_loop().create_task(waiting)
        wait = _Wait(task)
        try:
            with self.while_known(credentials, contextlib.nullcontext(wait)):
                await asyncio.wait({task})
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if wait.left and task.cancelled():
            await self._authenticate(credentials)  # says why
            raise NotSignedIn("the service did not know for a moment who calls: call again")
        return task.result()

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(self._check_secs)
            for credentials in list(self._streams):
                if not await self._known(credentials):
                    for stream in list(self._streams.get(credentials, ())):
                        stream.leave()
                await asyncio.sleep(0)  # thousands of tokens take a while

    async def _known(self, credentials: Credentials) -> bool:
        try:
            await self._authenticate(credentials)
        except NotSignedIn:
            return False
        except ReplanError as error:  # who cannot be asked has not said no
            log.warning("whether a caller is still known cannot be told: %s", error)
        except Exception:
            log.exception("whether a caller is still known cannot be told")
        return True
