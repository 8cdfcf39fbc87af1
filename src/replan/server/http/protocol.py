"""uvicorn's protocol with ends: for requests that do not arrive, for heads without end, and for connections beyond the limit."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import struct
from collections.abc import Callable
from typing import Any

from pydantic_core import to_json
from uvicorn.protocols.http.flow_control import FlowControl

from replan.server.giving_way import Waiting, network_of
from replan.server.http.calls import ROOT
from replan.server.http.patience import PATIENT
from replan.server.http.problems import answer_of
from replan.server.http.rows import InTurn
from replan.server.problems import (
    CROWDED,
    HEAD_TOO_LARGE,
    MEDIA_TYPE,
    NOT_HTTP,
    TOO_SLOW,
    Problem,
)
from replan.server.seldom import Seldom
from replan.tools.remote.http_limits import BODY_SECS, HEADER_SECS, limited

MOST_HEAD_BYTES = 65_536
"""Of the address and all headers."""
MOST_UNSENT_BYTES = 16_384
"""Kept for a reader that takes nothing, before whoever sends is made to wait."""
_AT_ONCE = struct.pack("ii", 1, 0)
_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def raw_answer(problem: Problem) -> bytes:
    """The problem as a whole answer, after which the connection is closed. No call has come about: it has an id all the same."""
    named = secrets.token_hex(8)
    body = to_json({**problem.document(), "request_id": named})
    status = problem.kind.status
    retry = "" if problem.retry_after is None else f"retry-after: {max(1, round(problem.retry_after))}\r\n"
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        f"x-request-id: {named}\r\n{retry}connection: close\r\n\r\n"
    )
    return head.encode() + body


SEND_BUFFER = 32_768
"""Of the kernel, for a stream: a reader that takes nothing costs that, and not what its kernel would let it grow to."""
_TIMED_OUT = Problem(TOO_SLOW, "the request has not come in time: send its head and its body at once")
_HEAD = Problem(HEAD_TOO_LARGE, f"the address and the headers have more than {MOST_HEAD_BYTES} bytes")
CROWDED_NOW = Problem(
    CROWDED, "there are as many connections as may be: come back in a moment", retry_after=1.0
)
SPARE = 64
"""Connections beyond the limit, for those who ask how the service stands; all others are told on them that it is full."""
STANDING = frozenset(prefix + path for prefix in ("", ROOT) for path in ("/health", "/ready", "/metrics"))
_NOT_HTTP = Problem(NOT_HTTP, "what was sent is no request of HTTP/1.1")
log = logging.getLogger("replan.server")
_faults = logging.getLogger("uvicorn.error.faults")
"""Of what goes wrong here; of the requests of others, which anybody can make malformed, is told by `Seldom`."""
_faults.setLevel(logging.ERROR)
_AT_ONCE_BYTES = 1_024
"""Of several requests in a row: so much is taken up before others have their turn."""
_AT_ONCE_OF_BODY_BYTES = 4_096
"""The same where a body is under way: what follows it may be requests in a row, too."""
_HALF_CLOSED_SECS = 1.0
"""For an answer that may take its time, where the other side has said that it sends nothing more, and may be gone."""


class _HeadTooLarge(Exception):
    pass


class _Held(FlowControl):
    """Reading that does not go on while there is something left of what was read: uvicorn has it go on with every answer."""

    def __init__(self, transport: Any, is_held: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._is_held = is_held

    def resume_reading(self) -> None:
        if not self._is_held():
            super().resume_reading()


def bounded(
    protocol: type[Any],
    *,
    most_connections: int,
    header_secs: float = HEADER_SECS,
    body_secs: float = BODY_SECS,
) -> type[Any]:
    """The protocol for requests that are bounded in time and size, on so many connections at most."""
    within_limit, beyond_limit = Waiting(), Waiting()
    malformed = Seldom(log, logging.WARNING, "a request that is none of HTTP")
    gave_way = Seldom(log, logging.WARNING, "a connection on which nothing whole was asked gave way")

    in_a_row = InTurn()
    base = limited(
        protocol, header_secs=header_secs, body_secs=body_secs, timed_out=lambda: raw_answer(_TIMED_OUT)
    )

    class Bounded(base):  # type: ignore[misc, valid-type]
        leaving = False
        """Of all connections: the service ends."""
        _head = 0
        _over = False
        """It is one more than there may be."""

        _rest = b""
        """What has come and is not looked at yet."""
        _follows = False
        """What is begun now was sent without waiting for the answer to what was before it."""

        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.logger = _faults
            app: Any = getattr(self, "app")  # noqa: B009 -- of a base that is not known here

            async def within(scope: Any, receive: Any, send: Any) -> None:
                if self._over and len(self.connections) > most_connections:
                    if scope["path"] not in STANDING:
                        return await answer_of(CROWDED_NOW, {"connection": "close"})(scope, receive, send)
                else:
                    self._over = False
                    beyond_limit.forget(self)
                if scope["http_version"] == "1.0":
                    send = self._in_one_piece(scope, send)
                scope["replan.abort"] = self.cut
                scope["replan.narrow"] = self.narrow
                return await app(scope, receive, send)  # type: ignore[no-any-return]

            self.app = within

        def _in_one_piece(self, scope: Any, send: Any) -> Any:
            """For clients of HTTP/1.0, which know of no chunks: what has no length goes on until the connection is closed."""
            cycle: Any = self.cycle
            if cycle is None or cycle.scope is not scope or not hasattr(cycle, "chunked_encoding"):
                return send  # h11 does so by itself
            endless = False

            async def sending(message: Any) -> None:
                nonlocal endless
                if message["type"] == "http.response.start":
                    headers = list(message.get("headers", ()))
                    if all(name.lower() != b"content-length" for name, _ in headers):
                        endless, cycle.chunked_encoding = True, False
                        message = {**message, "headers": [*headers, (b"connection", b"close")]}
                elif endless:
                    cycle.expected_content_length = len(message.get("body", b""))
                await send(message)

            return sending

        def narrow(self) -> None:
            """From here on the kernel keeps little of what the reader does not take: of a stream, not of an answer, which that would slow."""
            found = self.transport.get_extra_info("socket")
            if found is not None:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.flow = _Held(transport, lambda: bool(self._rest))
            transport.set_write_buffer_limits(high=MOST_UNSENT_BYTES)
            found = transport.get_extra_info("peername")
            self.host = str(found[0]) if isinstance(found, tuple) else ""
            self.peer = network_of(self.host)
            if self.leaving:
                transport.close()
                return
            if len(self.connections) > most_connections and not self._make_room(within_limit):
                self._over = True  # whoever asks how the service stands is answered, whatever others hold
                over = len(self.connections) > most_connections + SPARE
                if over and not self._make_room(beyond_limit):
                    self.connections.discard(self)
                    transport.write(raw_answer(CROWDED_NOW))
                    transport.close()
                    return
            self._waits()

        def _make_room(self, among: Waiting) -> bool:
            """Close a connection that gives way to this one, as there is nothing whole asked on it."""
            closed: Any = among.make_room(len(self.connections))
            if closed is None:
                return False
            self.connections.discard(closed)
            gave_way(closed.host)
            return True

        def _waits(self) -> None:
            """For a request."""
            (beyond_limit if self._over else within_limit).add(self)

        @property
        def asked(self) -> bool:
            """Whole: of whoever sends half a body nothing is done yet. Those in a row wait behind one that is answered."""
            cycle = self.cycle
            if cycle is None or cycle.response_complete:
                return False
            return self._in_a_row or cycle.response_started or not cycle.more_body

        def connection_lost(self, exc: Exception | None) -> None:
            within_limit.forget(self)
            beyond_limit.forget(self)
            super().connection_lost(exc)

        def cut(self) -> None:
            """Close the connection now, with nothing left in the kernel for a reader that does not take it."""
            if (own := self.transport.get_extra_info("socket")) is not None:
                with contextlib.suppress(OSError):
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self.transport.abort()

        def leave(self) -> None:
            """The service ends: a request that has not come whole does not come any more."""
            cycle = self.cycle
            if cycle is not None and cycle.more_body and not cycle.response_started:
                self.cut()

        def data_received(self, data: bytes) -> None:
            if self._rest or self._in_a_row:
                self._keep(self._rest + data)
            else:
                self._take_up(data)

        @property
        def _in_a_row(self) -> bool:
            """Whole requests wait for the answer to the one before them."""
            return bool(getattr(self, "pipeline", None))

        def _keep(self, rest: bytes) -> None:
            self._rest = rest
            self.flow.pause_reading()

        def _take_up(self, data: bytes) -> None:
            """Requests that were sent without waiting for answers are taken up one after the other, and nobody waits for all of them."""
            at = 0
            while at < len(data) and not self.transport.is_closing():
                if at and self._in_a_row:
                    self._keep(data[at:])
                    return
                in_a_body = self.cycle is not None and self.cycle.more_body
                end = at + (_AT_ONCE_OF_BODY_BYTES if in_a_body else _AT_ONCE_BYTES)
                super().data_received(data[at:end])
                at = end

        def _go_on(self) -> None:
            if not self._in_a_row:
                rest, self._rest = self._rest, b""
                self._follows = True
                try:
                    self._take_up(rest)
                finally:
                    self._follows = False
                if not (self._in_a_row or self.transport.is_closing()):  # in a row, it goes on with an answer
                    self.flow.resume_reading()

        def eof_received(self) -> bool:
            """The other side sends nothing more: what it has asked whole is answered (True), and then the connection closed."""
            cycle = self.cycle
            if self.transport.is_closing() or not self.asked or cycle.more_body or cycle.response_started:
                return False
            cycle.keep_alive = False
            if cycle.scope["path"].endswith(PATIENT):
                self.loop.call_later(_HALF_CLOSED_SECS, self.transport.close)
            return True

        # What the parser calls: of httptools; h11 bounds its heads itself.

        def on_message_begin(self) -> None:
            self._head = 1
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value) + 4)
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._head = 0
            super().on_headers_complete()

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            if not self._follows:
                super()._start_asgi_task(cycle, app)
                return

            def begin() -> None:
                if not self.transport.is_closing():
                    super(Bounded, self)._start_asgi_task(cycle, app)

            in_a_row.add(self.loop, begin)

        def on_response_complete(self) -> None:
            self._follows = True
            try:
                super().on_response_complete()
            finally:
                self._follows = False
            if not self.transport.is_closing():
                self._waits()
            if self._head and not self.transport.is_closing():
                self._expect()  # of the next one, a part was there already
            if self._rest:
                self.loop.call_soon(self._go_on)

        def _count(self, size: int) -> None:
            self._head += size
            if self._head > MOST_HEAD_BYTES:
                raise _HeadTooLarge

        def send_400_response(self, msg: str) -> None:
            self._rest = b""
            too_large = self._head > MOST_HEAD_BYTES
            if not too_large:
                malformed(self.host)
            self.transport.write(raw_answer(_HEAD if too_large else _NOT_HTTP))
            self.transport.close()

    return Bounded
