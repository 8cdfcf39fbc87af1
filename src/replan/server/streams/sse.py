"""Server-sent events: the form of an event, and an answer that is a stream of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from replan.core.events import LlmToken, Record
from replan.run.access.shown import Showing, shown
from replan.server.streams.hub import PIECE_BYTES, Watcher

BEAT = b":\n\n"
FAREWELL = b": the service is about to end; the task goes on: come back in a moment, with Last-Event-ID\n\n"
_HEAD = b"retry: 1000\n\n"
"""Milliseconds after which a browser comes back that was cut off."""


@dataclass(frozen=True)
class Sse:
    """An event as one of a stream. What is not stored has no id: nobody could come back to it."""

    how: Showing

    def __call__(self, record: Record) -> bytes:
        if self.how.light and isinstance(record.event, LlmToken):
            return b""
        data = to_json(shown(record, self.how), inf_nan_mode="constants")
        named = record.type.encode()
        if record.seq:
            return b"id: %d\nevent: %b\ndata: %b\n\n" % (record.seq, named, data)
        return b"event: %b\ndata: %b\n\n" % (named, data)


class EventStream(Response):
    """The answer: goes on until the task has ended, the reader is gone, or the service ends."""

    media_type = "text/event-stream"

    def __init__(
        self,
        watching: Callable[[], AbstractContextManager[Watcher]],
        sending: Sending,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`leaving`: whether the service is about to end."""
        super().__init__(
            None, 200, {"cache-control": "no-store", "x-accel-buffering": "no", "content-type": "text/event-stream"}
        )  # fmt: skip
        del self.headers["content-length"]
        self._watching = watching
        self._sending = sending
        self._leaving = leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._watching() as watcher, self._sending.of(scope.get("replan.abort")) as clock:
            scope.get("replan.narrow", _nothing)()
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            gone = asyncio.create_task(_left(receive, watcher))
            try:
                await send_in_pieces(
                    send, _HEAD, clock
                )  # by now everybody around has seen what kind of answer it is
                straight: Send = scope.get("replan.send", send)
                while (found := await watcher.next()) is not None:
                    await send_in_pieces(straight, b"".join(found) or BEAT, clock)
                if self._leaving():
                    await send_in_pieces(straight, FAREWELL, clock)
            finally:
                gone.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class CutOffWhenStuck(Response):
    """An answer that is made elsewhere, whose reader is cut off once it has taken nothing for too long."""

    def __init__(self, answer: Response, sending: Sending) -> None:
        super().__init__(None, answer.status_code)
        self._answer = answer
        self._sending = sending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._sending.of(scope.get("replan.abort")) as clock:

            async def timed(message: Message) -> None:
                clock.began()
                await send(message)
                clock.ended()

            await self._answer(scope, receive, timed)


async def send_in_pieces(send: Send, data: bytes, clock: Clock) -> None:
    """So that whoever does not take them holds little."""
    clock.began()
    for at in range(0, len(data), PIECE_BYTES):
        await send({"type": "http.response.body", "body": data[at : at + PIECE_BYTES], "more_body": True})
    clock.ended()


async def _left(receive: Receive, watcher: Watcher) -> None:
    """Tell the watcher when its reader is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    watcher.leave()


class Clock:
    """Since when one reader takes nothing."""

    __slots__ = ("_loop", "abort", "since")

    def __init__(self, abort: Callable[[], Any] | None) -> None:
        self._loop = asyncio.get_running_loop()
        self.abort = abort
        self.since: float | None = None

    def began(self) -> None:
        self.since = self._loop.time()

    def ended(self) -> None:
        self.since = None


class Sending:
    """Cuts off readers that take nothing for too long. One timer for all."""

    def __init__(self, stuck_secs: float = 60.0) -> None:
        self._stuck_secs = stuck_secs
        self._clocks: set[Clock] = set()
        self._timer: asyncio.TimerHandle | None = None

    def of(self, abort: Callable[[], Any] | None) -> _Held:
        return _Held(self, Clock(abort))

    def enter(self, clock: Clock) -> None:
        self._clocks.add(clock)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._stuck_secs / 4, self._look)

    def leave(self, clock: Clock) -> None:
        self._clocks.discard(clock)
        if not self._clocks and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._stuck_secs / 4, self._look)
        self.cut(loop.time() - self._stuck_secs)

    def cut(self, before: float) -> None:
        """Cut off those that have taken nothing since then."""
        for clock in list(self._clocks):
            if clock.abort is not None and clock.since is not None and clock.since <= before:
                clock.abort()


class _Held:
    __slots__ = ("_clock", "_sending")

    def __init__(self, sending: Sending, clock: Clock) -> None:
        self._sending = sending
        self._clock = clock

    def __enter__(self) -> Clock:
        self._sending.enter(self._clock)
        return self._clock

    def __exit__(self, *_: object) -> None:
        self._sending.leave(self._clock)


def _nothing() -> None:
    """Where nobody says how a connection is made narrow."""
