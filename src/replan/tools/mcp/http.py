"""The HTTP client that the library's transports are given: every failure becomes that of one call.

The library ends the whole session when one request cannot be made, and forgets the status of a refusal. Here each is
told to the call that it belongs to (`exchange`), and the session goes on for the others.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from replan.connections import Transport
from replan.core.failures.faults import retry_after_secs
from replan.core.failures.transport import happened_after
from replan.errors import ToolCallError
from replan.tools.bounds import IDLE_SECS, too_large
from replan.tools.mcp.exchange import EXCHANGE, Exchange, answers_to, has_id, is_event_stream
from replan.tools.mcp.servers import HttpServer

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_CONNECT_SECS = 10.0
_NOTICE_SECS = 5.0
"""How long a notification or an answer of ours may wait to be taken: until then nothing else is sent."""
_ERROR_BYTES = 65_536
"""That much of an answer that is no success is read."""
_OURS = -32000
"""JSON-RPC's "server error": the library's code for a closed connection."""


_REQUEST_REFUSED = range(-32700, -32599)
"""JSON-RPC's own codes: of a request that was not taken, but for the internal error among them."""


class SessionExpired(ToolCallError):
    """The server does not know the session (any more): it has not looked at the request, which may go into a new one.

    There is one signal for it (MCP, Transports, session management): 404 for a request that named a session, without
    an answer to this very request. What a message says in words tells nothing: it may come after the effect.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="http", happened="no", status=404)


_MOST_REDIRECTS = 2
_ELSEWHERE = frozenset({307, 308})
"""They ask for the very request at another place."""


class CallClient(httpx2.AsyncClient):
    """`send` never raises for a POST: the call is told, and the library gets an answer that says so."""

    def __init__(
        self, server: HttpServer, auth: httpx2.Auth | None, max_bytes: int, cut_off: set[str | int]
    ) -> None:
        """`cut_off`: gets the requests whose answer is a stream that has ended."""
        super().__init__(
            headers=dict(server.headers),
            auth=auth,
            # An answer may take as long as the call has; a dead peer is noticed by keep-alive probes.
            timeout=httpx2.Timeout(_CONNECT_SECS, read=None, write=None),
            transport=Transport(
                server.url,
                # How many calls run is bounded elsewhere; one that found no room would be taken for a dead server.
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=100, keepalive_expiry=IDLE_SECS
                ),
                socket_options=_socket_options(),
            ),
        )
        self._server = server
        self._max_bytes = max_bytes
        self._cut_off = cut_off
        self._moved: dict[str, str] = {}
        """Where requests that do nothing (the opening, the list) were sent on to: so the server lies there, and a call is sent on, too."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        exchange = EXCHANGE.get()
        if request.method != "POST":
            response = await super().send(request, **options)
            onward = "last-event-id" in request.headers and exchange is not None and exchange.call is not None
            number = exchange.number if onward and exchange is not None else None
            if number is not None and is_event_stream(response):
                return answers_to(number, response, self._max_bytes)
            return response
        if exchange is not None:
            for name, value in exchange.headers().items():
                request.headers.setdefault(name, value)
        number = _request_id(request)
        try:
            if number is None:
                request.extensions["timeout"] = {
                    **request.extensions.get("timeout", {}),
                    "read": _NOTICE_SECS,
                }
            response = await super().send(request, **options)
            if response.status_code in _ELSEWHERE and (exchange is None or exchange.call is None):
                self._moved[str(request.url)] = _onward(response)
            if response.status_code >= 400:
                return await self._refused(request, response, exchange)
            if is_event_stream(response):
                if number is None:
                    return response
                if exchange is not None:
                    exchange.number = number
                response.stream = _Seen(response.stream, lambda: self._cut_off.add(number))
                return answers_to(number, response, self._max_bytes)
            error = self._without_answer(response, exchange) if number is not None else None
            if error is not None:
                await response.aclose()
                return self._failed(request, exchange, error)
            return await self._read(request, response, exchange, number)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            return self._failed(request, exchange, self._lost(error))
        except OAuthFlowError as error:
            text = self._hidden(f"{self._server}: no token could be got: {error}")
            return self._failed(
                request, exchange, ToolCallError(text, kind="http", happened="no", status=401)
            )

    def _without_answer(self, response: httpx2.Response, exchange: Exchange | None) -> ToolCallError | None:
        """Why an answer to a call says nothing of it. The library takes these for a refusal of the request."""
        if exchange is None or exchange.call is None or self._server.transport == "sse":
            return None
        status, kind = response.status_code, response.headers.get("content-type", "")
        if status in _ELSEWHERE:
            here, onward = str(response.request.url), _onward(response)
            exchange.sent_to.append(here)
            if onward not in exchange.sent_to and len(exchange.sent_to) <= _MOST_REDIRECTS:
                if self._moved.get(here) == onward:
                    return None  # followed by the library, or refused
                why = "sends the call on, and nothing before it"
            else:
                why = "sends the call round in circles"
            return ToolCallError(
                f"{self._server} {why} ({status} to {self._hidden(onward)})",
                kind="http",
                happened=happened_after(status),
                status=status,
            )
        said = f"{self._server} answered the call with {status} {response.reason_phrase}".rstrip()
        if status >= 300:
            return ToolCallError(
                f"{said}, a redirect that a call does not follow",
                kind="http",
                happened=happened_after(status),
                status=status,
            )
        if status != 202 and kind.lower().startswith("application/json"):
            return None
        what = kind.partition(";")[0] or "nothing" if status != 202 else "no answer"
        return ToolCallError(f"{said} and {what} where JSON is due", kind="output", happened="unknown")

    async def _read(
        self,
        request: httpx2.Request,
        response: httpx2.Response,
        exchange: Exchange | None,
        number: str | int | None,
    ) -> httpx2.Response:
        """The answer with its body read, up to the limit, which is of what it unpacks to."""
        parts: list[bytes] = []
        size = 0
        try:
            async for part in response.aiter_bytes():
                size += len(part)
                parts.append(part)
                if size > self._max_bytes:
                    return self._failed(request, exchange, too_large(self._tool(exchange), self._max_bytes))
        finally:
            await response.aclose()
        body = b"".join(parts).removeprefix(b"\xef\xbb\xbf")  # a mark of byte order
        if exchange is None or exchange.call is None or number is None or has_id(body, number):
            return _with_body(response, body)
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            return _with_body(response, body)  # the library says what is wrong with it
        batch = said if isinstance(said, list) else [said]
        if any(isinstance(each, dict) and str(each.get("id")) == str(number) for each in batch):
            return _with_body(response, body)
        if isinstance(said, dict) and said.get("id") is None and "error" in said:
            return _with_body(response, json.dumps({**said, "id": number}).encode())
        # The library would wait for another message, and none can come.
        text = f"{self._server} answered {self._tool(exchange)!r} with a message that is not its answer"
        return self._failed(request, exchange, ToolCallError(text, kind="output", happened="unknown"))

    async def _refused(
        self, request: httpx2.Request, response: httpx2.Response, exchange: Exchange | None
    ) -> httpx2.Response:
        """An answer with a status of 400 or more: the server's own JSON-RPC error if it has one, else the status."""
        body = bytearray()
        try:
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _ERROR_BYTES:
                    break
        finally:
            await response.aclose()
        status, number = response.status_code, _request_id(request)
        whole = _with_body(response, bytes(body))
        said = _rpc_error(bytes(body))
        text = said.message if said is not None else body.decode("utf-8", "replace").strip()
        told = self._hidden(" ".join(text.split()))[:300]
        message = f"{self._server} answered {status} {response.reason_phrase}".rstrip()
        message = f"{message}: {told}" if told else message
        is_answer = said is not None and said.id is not None and str(said.id) == str(number)
        if status == 404 and "mcp-session-id" in request.headers and not is_answer:
            return self._failed(request, exchange, SessionExpired(message))
        if said is not None and status in (400, 404, 405, 422):
            opening = exchange is None or exchange.call is None
            if opening or is_answer or said.code in _REQUEST_REFUSED:
                return whole
        error = ToolCallError(
            message,
            kind="http",
            happened=happened_after(status),
            status=status,
            retry_after=retry_after_secs(response.headers.get("retry-after", ""), time.time()),
        )
        if exchange is not None and exchange.call is None:
            exchange.fail(error)
            return whole  # the library may try an older protocol
        return self._failed(request, exchange, error)

    def _failed(
        self, request: httpx2.Request, exchange: Exchange | None, error: ToolCallError
    ) -> httpx2.Response:
        if exchange is not None:
            exchange.fail(error)
        number = _request_id(request)
        if self._server.transport == "sse" or number is None:
            return httpx2.Response(202, request=request)
        answer = {"jsonrpc": "2.0", "id": number, "error": {"code": _OURS, "message": str(error)}}
        return httpx2.Response(200, json=answer, request=request)

    def _lost(self, error: Exception) -> ToolCallError:
        said = self._hidden(str(error) or type(error).__name__)
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return ToolCallError(f"{self._server} cannot be reached: {said}", kind="refused", happened="no")
        if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
            return ToolCallError(f"{self._server} cannot be asked: {said}", kind="unavailable", happened="no")
        if isinstance(error, httpx2.DecodingError):
            return ToolCallError(
                f"the answer of {self._server} cannot be unpacked: {said}", kind="output", happened="unknown"
            )
        kind = "timeout" if isinstance(error, httpx2.TimeoutException) else "connection_lost"
        return ToolCallError(
            f"the connection to {self._server} was lost: {said}", kind=kind, happened="unknown"
        )

    def _hidden(self, text: str) -> str:
        return self._server.known.hide(text)

    def _tool(self, exchange: Exchange | None) -> str:
        return (
            exchange.call.tool_id if exchange is not None and exchange.call is not None else str(self._server)
        )


@asynccontextmanager
async def http_transport(
    server: HttpServer, auth: httpx2.Auth | None, max_bytes: int, cut_off: set[str | int]
) -> AsyncIterator[TransportStreams]:
    """Messages with a server over streamable HTTP, or over the SSE of protocol 2024-11-05."""
    client = CallClient(server, auth, max_bytes, cut_off)
    inner: AbstractAsyncContextManager[TransportStreams]
    if server.transport == "sse":
        inner = sse_client(server.url, httpx_client_factory=_always(client))
        async with inner as streams:
            yield streams
        return
    inner = streamable_http_client(server.url, http_client=client, max_sse_event_size=max_bytes + 4096)
    async with client, inner as streams:
        yield streams


class _Seen(httpx2.AsyncByteStream):
    """A stream; `ended` is called when it is over. Who has its answer closes it before that."""

    def __init__(self, inner: Any, ended: Callable[[], None]) -> None:
        self._inner = inner
        self._ended = ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._inner:
                yield part
        except Exception:
            self._ended()
            raise
        self._ended()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _always(client: CallClient) -> Callable[..., CallClient]:
    """A factory that gives this client, whatever is asked of it: headers, timeouts and auth are its own."""

    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> CallClient:
        return client

    return factory


def _with_body(response: httpx2.Response, body: bytes) -> httpx2.Response:
    unpacked = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in unpacked]
    whole = httpx2.Response(response.status_code, headers=headers, content=body, request=response.request)
    whole.next_request = response.next_request
    return whole


class _Said(NamedTuple):
    """A JSON-RPC error, and the request that it says it answers."""

    code: int
    message: str
    id: Any


def _rpc_error(body: bytes) -> _Said | None:
    try:
        found = json.loads(body)
        error = found["error"]
        return (
            _Said(error["code"], str(error["message"]), found.get("id"))
            if type(error["code"]) is int
            else None
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _request_id(request: httpx2.Request) -> str | int | None:
    """The id of the JSON-RPC request that is posted; None for a notification or an answer."""
    try:
        message = json.loads(request.content)
        return message["id"] if "method" in message else None
    except (ValueError, TypeError, KeyError, httpx2.RequestNotRead):
        return None


def _onward(response: httpx2.Response) -> str:
    """The address that a redirect names; where it names none, the one that was asked."""
    return str(response.request.url.join(response.headers.get("location", "")))


def _socket_options() -> list[tuple[int, int, int]]:
    """Probes for a dead peer; and no waiting for an acknowledgement between the head of a request and its body."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    for name, secs in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), secs))
    return options
