"""The tool service over HTTP, as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from replan.errors import ToolCallError
from replan.ports import Progress
from replan.tools.large_json import taken
from replan.tools.remote.messages import (
    CANCEL_PATH,
    EXECUTE_PATH,
    HEALTH_PATH,
    JSON_TYPE,
    LIST_PATH,
    PROTOCOL,
    STREAM_TYPE,
    Execute,
    Listing,
    dumps,
    error_from_wire,
    error_to_wire,
    execute_from_wire,
    loads,
    problems_to_wire,
    spec_to_wire,
    wrong_request,
)
from replan.tools.remote.running import Answer, Waiter
from replan.tools.remote.service import MOST_WAITING, Service

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HEARTBEAT_SECS = 15.0
DRAIN_SECS = 5.0
DRAIN_BYTES = 256 * 2**20
"""So long and so much of a refused request's body is read on, for its client to get the answer."""
_METHODS = {LIST_PATH: "GET", EXECUTE_PATH: "POST", CANCEL_PATH: "POST", HEALTH_PATH: "GET"}
_STATUS = {"parameter": 422, "unknown_tool": 404, "unavailable": 503}


class HttpApp:
    """`service` for ASGI servers. With a `token`, all but the health check asks for it."""

    def __init__(self, service: Service, token: str | None = None) -> None:
        self._service = service
        self._token = token.encode() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        has_body = "transfer-encoding" in headers or headers.get("content-length", b"0") != b"0"
        incoming = _Incoming(receive, whole=not has_body)
        try:
            await self._route(scope, headers, incoming.receive, send)
        except ToolCallError as error:
            await _refuse(send, error, None if b"100-continue" in headers.get("expect", b"") else incoming)

    async def _route(self, scope: Scope, headers: dict[str, bytes], receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        wanted = _METHODS.get(path)
        if wanted is None:
            known = ", ".join(f"{each} {where}" for where, each in _METHODS.items())
            raise ToolCallError(
                f"there is nothing at {path}; there is {known}", kind="http", happened="no", status=404
            )
        if method != wanted:
            text = f"{path} takes {wanted}, not {method}"
            raise ToolCallError(text, kind="http", happened="no", status=405)
        if path == HEALTH_PATH:
            draining = self._service.draining
            await _send(send, 503 if draining else 200, dumps({"status": "stopping" if draining else "ok"}))
            return
        if self._token is None and b"origin" in {name for name, _ in scope["headers"]}:
            text = "the tool server has no token, and takes no requests of web pages then: any page could call its tools"
            raise ToolCallError(text, kind="http", happened="no", status=403)
        if self._token is not None and not _is_bearer(headers.get("authorization", b""), self._token):
            text = "the tool server asks for a bearer token, and the one that it got is missing or wrong"
            raise ToolCallError(text, kind="http", happened="no", status=401)
        if path == LIST_PATH:
            await self._list(scope, headers, receive, send)
        elif path == CANCEL_PATH:
            sent = await self._body(headers, receive)
            body = await taken(partial(_object, sent), len(sent))
            self._service.cancel(str(body.get("call_id", "")))
            await _send(send, 200, b"{}")
        else:
            await self._execute(headers, receive, send)

    async def _list(self, scope: Scope, headers: dict[str, bytes], receive: Receive, send: Send) -> None:
        known = headers.get("if-none-match", b"").decode("latin-1").removeprefix("W/").strip('"')
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        try:
            wait = float(query["wait"][0]) if "wait" in query else 0.0
        except ValueError:
            raise wrong_request(f"wait is a number of seconds, not {query['wait'][0]!r}") from None
        asked = asyncio.ensure_future(self._service.listing(known, wait))
        listing = await _unless_gone(asked, receive)
        if listing is None:
            return
        tag = [(b"etag", f'"{listing.revision}"'.encode())]
        if known == listing.revision:
            await _send(send, 304, b"", tag)
        else:
            await _send(send, 200, dumps(listing_to_wire(listing)), tag)

    async def _execute(self, headers: dict[str, bytes], receive: Receive, send: Send) -> None:
        sent = await self._body(headers, receive)
        body = await taken(partial(_object, sent), len(sent))
        request: Execute = execute_from_wire(body, headers.get("traceparent", b"").decode("latin-1"))
        if STREAM_TYPE.encode() in headers.get("accept", b""):
            await _Streaming(self._service, request).answer(receive, send)
            return
        waiter = self._service.execute(request)
        answer = await _unless_gone(asyncio.ensure_future(waiter.answer()), receive)
        if answer is not None:
            _let_through(answer)
            await _send(send, 200, _line(answer))

    async def _body(self, headers: dict[str, bytes], receive: Receive) -> bytes:
        limit = self._service.max_request_bytes
        announced = headers.get("content-length", b"0")
        parts, size = [], int(announced) if announced.isdigit() else 0
        if size <= limit:
            size = 0
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise wrong_request("the request was cut off")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limit or not message.get("more_body"):
                    break
        if size > limit:
            text = f"the request is larger than {limit:,} bytes"
            raise ToolCallError(text, kind="parameter", happened="no", status=413)
        return b"".join(parts)


class _Streaming:
    """An answer as lines: progress as it comes, then the outcome; an empty line now and then."""

    def __init__(self, service: Service, request: Execute) -> None:
        self._progress: list[Progress] = []
        self._wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiter: Waiter = service.execute(request, self._report)

    def _report(self, progress: Progress) -> None:
        if len(self._progress) < MOST_WAITING:  # a slow reader does not fill the memory
            self._progress.append(progress)
        if not self._wake.done():
            self._wake.set_result(None)

    async def answer(self, receive: Receive, send: Send) -> None:
        answer = asyncio.ensure_future(self._waiter.answer())
        gone = asyncio.ensure_future(_disconnect(receive))
        admitted = asyncio.ensure_future(self._waiter.admitted())
        try:
            await asyncio.wait({answer, gone, admitted}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                _let_through(answer.result())
            await _start(send, 200, STREAM_TYPE)
            while not answer.done():
                ends: set[asyncio.Future[Any]] = {answer, gone, self._wake}
                await asyncio.wait(ends, timeout=HEARTBEAT_SECS, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    return
                if answer.done():
                    break
                await send({"type": "http.response.body", "body": self._lines() or b"\n", "more_body": True})
            last = self._lines() + _line(answer.result()) + b"\n"
            await send({"type": "http.response.body", "body": last, "more_body": False})
        finally:
            await _ended(answer, gone, admitted)

    def _lines(self) -> bytes:
        if self._wake.done():
            self._wake = asyncio.get_running_loop().create_future()
        told, self._progress = self._progress, []
        return b"".join(dumps({"progress": _progress(each)}) + b"\n" for each in told)


def listing_to_wire(listing: Listing) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "revision": listing.revision,
        "tools": [spec_to_wire(spec) for spec in listing.tools],
        "problems": problems_to_wire(listing.problems),
        "keys": {"store": listing.key_store, "durable": listing.keys_are_durable},
        "max_request_bytes": listing.max_request_bytes,
    }


def _progress(progress: Progress) -> dict[str, Any]:
    return {name: value for name, value in progress._asdict().items() if value is not None}


def _line(answer: Answer) -> bytes:
    if answer.output is not None:
        return b'{"output":' + answer.output + b"}"
    return dumps({"error": answer.error})


def _let_through(answer: Answer) -> None:
    """Raise the error of a call that was turned away: it answers the request."""
    if answer.refused and answer.error is not None:
        raise error_from_wire(answer.error)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = loads(body)
    except ValueError as error:
        raise wrong_request(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise wrong_request(f"the body is a JSON object, not {type(found).__name__}")
    return found


def _is_bearer(value: bytes, token: bytes) -> bool:
    scheme, _, given = value.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


async def _unless_gone(asked: asyncio.Future[Any], receive: Receive) -> Any:
    """What was asked for; None, and the asking cancelled, if the client goes away before."""
    gone = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait({asked, gone}, return_when=asyncio.FIRST_COMPLETED)
        return asked.result() if asked.done() else None
    finally:
        await _ended(asked, gone)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


class _Incoming:
    """A request's body on its way. What of it nobody has read is drained when the request is refused."""

    def __init__(self, receive: Receive, *, whole: bool) -> None:
        self._receive = receive
        self.whole = whole

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self.whole = True
        return message

    async def drain(self) -> None:
        """Read the rest and drop it, within limits: a client that is still sending does not see an answer before a reset."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECS):
                while not self.whole and size < DRAIN_BYTES:
                    size += len((await self.receive()).get("body", b""))


async def _refuse(send: Send, error: ToolCallError, incoming: _Incoming | None) -> None:
    """`incoming`: None where the client waits to be told to send its body, which it will not be."""
    status = error.status or _STATUS.get(error.kind, 400)
    extra = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    if error.retry_after is not None:
        extra.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    if incoming is None or incoming.whole:
        await _send(send, status, dumps({"error": error_to_wire(error)}), extra)
        return
    extra.append((b"connection", b"close"))
    body = dumps({"error": error_to_wire(error)})
    await _start(send, status, JSON_TYPE, [(b"content-length", str(len(body)).encode()), *extra])
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await incoming.drain()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, status: int, body: bytes, extra: list[tuple[bytes, bytes]] | None = None) -> None:
    await _start(send, status, JSON_TYPE, [(b"content-length", str(len(body)).encode()), *(extra or ())])
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _start(
    send: Send, status: int, media_type: str, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    headers = [(b"content-type", media_type.encode()), (b"cache-control", b"no-store"), *(extra or ())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
