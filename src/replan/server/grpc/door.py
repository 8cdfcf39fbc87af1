"""Who comes in over gRPC: known by name, counted, bounded, and told in words what went wrong."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

from replan.core.words import in_digits
from replan.run.access.callers import Caller
from replan.server.auth.credentials import Credentials
from replan.server.grpc.connections import Connections
from replan.server.grpc.messages import Misfit
from replan.server.grpc.statuses import Refused, status_of
from replan.server.problems import CROWDED, LEAVING, TIMED_OUT, Kind, Problem
from replan.server.shared import Shared, named_call

log = logging.getLogger("replan")
TAKES = "replan-takes-bytes"
"""The metadata in which a client says how large an answer may be."""
CLIENTS_TAKE = 4 * 2**20
"""By the libraries' own limit."""
TOO_LARGE = Kind("answer-too-large", 413, "RESOURCE_EXHAUSTED", "The answer is larger than clients take")
_REFUSED_SECS = 1.0
"""A client that is still sending would be told of that, and not why it is refused."""
_MOST_REFUSED = 32
"""Who are given that time side by side; more of them are refused at once, so that they hold nothing that others need."""


class Call:
    """A call under way, and how it ended."""

    def __init__(self, context: Any, name: str, *, stream: bool, holds: bool) -> None:
        self.context = context
        self.holds = holds
        """It may last: its caller holds a place."""
        self.leaving: list[Callable[[], None]] = []
        """What is done at its end: it gives back what it holds."""
        self.name = name
        self.stream = stream
        self.began = time.perf_counter()
        self.code = "CANCELLED"
        """What it is as long as nobody says otherwise: the client hangs up, or its deadline passes."""

    @property
    def credentials(self) -> Credentials:
        return Credentials.of(self.context.invocation_metadata() or (), self.context.peer())

    def done(self) -> None:
        self.code = "OK"

    async def refuse(self, error: Exception) -> NoReturn:
        """End it with what is told of the error."""
        found = status_of(error)
        self.code = found.code.name
        await self.context.abort(found.code, found.message, found.trailing)
        raise AssertionError  # `abort` raises


class Door:
    """The calls under way in one process."""

    def __init__(self, here: Shared, connections: Connections) -> None:
        self._here = here
        self._connections = connections
        self._open = 0
        self._streams = 0
        """Of those who are known."""
        self._refused = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def enter(self, context: Any, name: str, *, stream: bool = False, holds: bool = False) -> Call:
        call = Call(context, name, stream=stream, holds=stream or holds)
        named_call(dict(context.invocation_metadata() or ()).get("x-request-id"))
        self._open += 1
        self._idle.clear()
        context.add_done_callback(lambda _: self._left(call))
        return call

    def _left(self, call: Call) -> None:
        self._open -= 1
        for leave in call.leaving:
            leave()
        if not self._open:
            self._idle.set()
        if self._here.metrics is not None:
            secs = time.perf_counter() - call.began
            self._here.metrics.called(call.name, call.code, secs, streamed=call.stream)

    async def caller(self, call: Call) -> Caller:
        """Who calls, if the call is taken at all."""
        if self._here.leaving.now:
            words = "this service is about to end: call again, elsewhere or later"
            raise Refused(Problem(LEAVING, words, retry_after=1.0))
        caller = await self._here.signed(call.credentials)
        if not call.context.done():
            call.leaving.append(self._connections.begun(call.context.peer()))
            if call.holds:
                call.leaving.append(self._here.holding.take(caller))
            if call.stream:  # who may hold no more has none
                call.leaving.append(self._a_stream())
        return caller

    def _a_stream(self) -> Callable[[], None]:
        """Of somebody who is known; what is given says that it has ended."""
        most = self._here.settings.server.max_connections
        if self._streams >= most:
            words = f"{most} streams are open here, and no more may be"
            raise Refused(Problem(CROWDED, words, retry_after=1.0))
        self._streams += 1

        def ended() -> None:
            self._streams -= 1

        return ended

    async def let_in(
        self, call: Call, requests: AsyncIterator[bytes], asked: str = "a message"
    ) -> tuple[Caller, bytes]:
        """Who calls, and what the call begins with (`asked`, in words): of whoever is refused nothing is waited for."""
        try:
            caller = await self.caller(call)
        except Exception:
            await self._heard(requests, asked)
            raise
        with self._here.arriving.place(caller):
            secs = self._here.settings.server.request_timeout_secs
            return caller, await first_of(requests, secs, asked)

    async def _heard(self, requests: AsyncIterator[bytes], asked: str) -> None:
        """Let whoever is refused say its message, where there is room for that."""
        if self._refused >= _MOST_REFUSED:
            return
        self._refused += 1
        try:
            with contextlib.suppress(Misfit, Refused):
                await first_of(requests, _REFUSED_SECS, asked)
        finally:
            self._refused -= 1

    def check_size(self, call: Call, size: int) -> None:
        """`Refused` for an answer that the client's own library would refuse, and say only that it is too large."""
        said = str(dict(call.context.invocation_metadata() or ()).get(TAKES, ""))
        takes = int(said) if said.isascii() and said.isdecimal() and len(said) < 12 else CLIENTS_TAKE
        if size > max(takes, CLIENTS_TAKE):
            words = (
                f"the answer has {size} bytes, and clients of gRPC take {CLIENTS_TAKE} unless told otherwise: raise the option "
                f"grpc.max_receive_message_length of the channel, and say so in the metadata `{TAKES}: {size}`; or read the outputs of its "
                "steps by GetOutput, piece by piece, or GetArtifact"
            )
            raise Refused(Problem(TOO_LARGE, words))

    async def empty(self, secs: float) -> None:
        """Wait until no call is under way, for so long at most."""
        try:
            async with asyncio.timeout(secs):
                await self._idle.wait()
        except TimeoutError:
            log.info("%d calls over gRPC are cut off as the service ends", self._open)


async def first_of(requests: AsyncIterator[bytes], secs: float, asked: str) -> bytes:
    """What comes first. gRPC itself waits for ever for a message whose head has come, and counts it as a call meanwhile."""
    try:
        async with asyncio.timeout(secs):
            return await anext(aiter(requests))
    except StopAsyncIteration:
        raise Misfit([("", f"the call begins with {asked}, and nothing was said")]) from None
    except TimeoutError:
        words = f"the call begins with {asked}, and nothing was said for {in_digits(secs)} s"
        raise Refused(Problem(TIMED_OUT, words)) from None
