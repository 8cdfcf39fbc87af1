"""What is done around every call: its id, limits in time and size, compression, and who may call from a page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replan.beside import beside
from replan.core.words import in_digits
from replan.server.http.calls import ROOT
from replan.server.http.packing import packed, takes_gzip
from replan.server.http.patience import PATIENT
from replan.server.http.problems import Refused, answer_of
from replan.server.problems import BODY_TOO_LARGE, NOT_HTTP, SENT_TWICE, TIMED_OUT, WRONG_MEDIA, Problem
from replan.server.shared import Shared, named_call
from replan.server.streams.download import UNHURRIED
from replan.server.telemetry.metrics import Metrics

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LEAST_COMPRESSED = 1024
_AT_ONCE = 65_536
"""Bytes that are compressed in the event loop."""
MOST_BODY_BYTES = 2_097_152


def around(app: ASGIApp, shared: Shared) -> ASGIApp:
    """The application with all of that."""
    server = shared.settings.server
    app = InTime(Bounded(Compressed(app), MOST_BODY_BYTES), server.request_timeout_secs, PATIENT)
    if server.cors_origins:
        app = _for_pages(app, server.cors_origins)
    app = Formed(Heads(app))
    return Named(app if shared.metrics is None else Counted(app, shared.metrics))


class Answer:
    """What has been seen of the answer to a call, by the one who stands at the door; whoever stands around the call asks it."""

    __slots__ = ("_header", "_send", "begun", "headers", "status", "whole")

    def __init__(self, send: Send, header: tuple[bytes, bytes]) -> None:
        """`header`: one more, for all answers."""
        self._send = send
        self._header = header
        self.begun = False
        self.whole = False
        self.status = 500
        self.headers: list[tuple[bytes, bytes]] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun, self.status = True, message["status"]
            self.headers = message["headers"] = [*message.get("headers", ()), self._header]
        elif not message.get("more_body", False):
            self.whole = True
        await self._send(message)

    @property
    def streamed(self) -> bool:
        return any(name == b"content-type" and b"event-stream" in value for name, value in self.headers)


def _answer(scope: Scope) -> Answer:
    found: Answer = scope["replan.answer"]
    return found


class Named:
    """Gives each call an id, the caller's own where it has sent one, and has it in the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        named = named_call(given.decode("latin-1"))
        scope["replan.send"] = send  # for streams, whose every piece would go through all that is around them
        answer = scope["replan.answer"] = Answer(send, (b"x-request-id", named.encode()))
        try:
            await self.app(scope, receive, answer.send)
        except Exception:
            if not answer.whole:  # else it is answered and logged
                raise
        return None


class Counted:
    """Counts calls, by how their routes are declared."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began = time.perf_counter()
        try:
            await self.app(scope, receive, send)
        finally:
            route, answer = getattr(scope.get("route"), "path", "none").removeprefix(ROOT), _answer(scope)
            secs = time.perf_counter() - began
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.answered(method, route, answer.status, secs, streamed=answer.streamed)


class Formed:
    """Refuses what two readers of it could take for two things (RFC 9112, 3.2 and 6.1): by its host, or by where its body ends."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (problem := _misformed(scope)) is not None:
            return await answer_of(problem, {"connection": "close"})(scope, receive, send)
        return await self.app(scope, receive, send)


def _misformed(scope: Scope) -> Problem | None:
    hosts, codings = 0, []
    for name, value in scope["headers"]:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding":
            codings.append(value)
    if hosts > 1:
        return Problem(SENT_TWICE, "header.host: it is sent more than once; send it once")
    if not hosts and scope["http_version"] == "1.1":
        return Problem(NOT_HTTP, "a request of HTTP/1.1 names its host: send the header Host")
    if codings and (len(codings) > 1 or codings[0].strip().lower() != b"chunked"):
        return Problem(NOT_HTTP, "header.transfer-encoding: of these `chunked` is taken, and no other")
    return None


class Heads:
    """Answers HEAD with what GET would be answered with, without its body: of a stream, its beginning."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return await self.app(scope, receive, send)
        answered = asyncio.Event()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not answered.is_set():
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                answered.set()

        asked = {**scope, "method": "GET", "replan.send": sending}
        loop = asyncio.get_running_loop()
        asking, told = (
            loop.create_task(self._asked(asked, receive, sending)),
            loop.create_task(answered.wait()),
        )
        try:
            await asyncio.wait({asking, told}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over = asking.done()
            for task in (asking, told):
                task.cancel()
            await asyncio.gather(asking, told, return_exceptions=True)
            if (route := asked.get("route")) is not None:
                scope["route"] = route
        if over:
            asking.result()
        return None

    async def _asked(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class Bounded:
    """Refuses bodies that are too large, before they are read where they say so themselves, and those that are compressed: how large
    one becomes is seen only then."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return await self.app(scope, receive, send)
        told = f"the body has more than {self._most} bytes, which is the most that is taken"
        problem, close = Problem(BODY_TOO_LARGE, told), {"connection": "close"}
        headers = Headers(scope=scope)
        if (coding := headers.get("content-encoding", "identity").strip().lower()) != "identity":
            words = f"the body is compressed ({coding[:20]!r}), and is taken as it is: send it without Content-Encoding"
            more = {**close, "accept-encoding": "identity"}
            return await answer_of(Problem(WRONG_MEDIA, words), more)(scope, receive, send)
        given = headers.get("content-length", "")
        if given.isdecimal() and int(given) > self._most:
            return await answer_of(problem, close)(scope, receive, send)
        size = 0

        async def receiving() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._most:
                raise Refused(problem, close)
            return message

        return await self.app(scope, receiving, send)


class InTime:
    """Ends calls that take too long; streams, downloads that have begun, and waits that the caller has asked for, may take theirs."""

    def __init__(self, app: ASGIApp, secs: float, patient: Sequence[str]) -> None:
        """`patient`: how addresses end that have a limit of their own."""
        self.app = app
        self._secs = secs
        self._patient = tuple(patient)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith(self._patient):
            return await self.app(scope, receive, send)
        try:
            async with asyncio.timeout(self._secs) as limit:
                scope[UNHURRIED] = partial(limit.reschedule, None)
                await self.app(scope, receive, send)
        except TimeoutError:
            if _answer(scope).begun or not limit.expired():
                raise
            told = f"no answer within {in_digits(self._secs)} s ([server] request_timeout_secs); what was asked for may yet be done"
            await answer_of(Problem(TIMED_OUT, told))(scope, receive, send)


class Compressed:
    """Compresses answers for whoever takes that, large ones beside the event loop. What comes piece by piece is left as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not takes_gzip(scope):
            return await self.app(scope, receive, send)
        begun: Message | None = None

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                if b"content-encoding" in dict(message.get("headers", ())):
                    return await send(message)
                begun = message
                return None
            if begun is not None:
                start, begun = begun, None
                if not message.get("more_body", False):
                    start, message = await _packed(start, message)
                await send(start)
            return await send(message)

        return await self.app(scope, receive, sending)


async def _packed(start: Message, message: Message) -> tuple[Message, Message]:
    """An answer that is there as a whole, in fewer bytes if it has many."""
    headers = MutableHeaders(raw=list(start.get("headers", ())))
    headers.add_vary_header("Accept-Encoding")
    body: bytes = message.get("body", b"")
    if len(body) >= _LEAST_COMPRESSED:
        body = await beside(packed, body) if len(body) > _AT_ONCE else packed(body)
        headers["content-encoding"] = "gzip"
        headers["content-length"] = str(len(body))
    return {**start, "headers": headers.raw}, {**message, "body": body}


def _for_pages(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The application for pages of these origins (CORS)."""
    return CORSMiddleware(
        app,
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=[
            "Authorization",
            "X-API-Key",
            "Content-Type",
            "Idempotency-Key",
            "Last-Event-ID",
            "X-Request-ID",
            "Mcp-Session-Id",
            "MCP-Protocol-Version",
        ],
        expose_headers=["Location", "Retry-After", "X-Request-ID", "Mcp-Session-Id"],
        max_age=600,
    )
