"""The tool service over HTTP, seen from the client."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import httpx2

from replan.connections import Transport
from replan.core.failures.faults import retry_after_secs
from replan.core.failures.transport import happened_after
from replan.core.words import in_digits
from replan.errors import InputError, ToolCallError
from replan.ports import Progress
from replan.tools.bounds import IDLE_SECS, too_large
from replan.tools.large_json import taken
from replan.tools.remote.client.transport import Endpoint, TransportFailure
from replan.tools.remote.messages import (
    CANCEL_PATH,
    EXECUTE_PATH,
    JSON_TYPE,
    LIST_PATH,
    STREAM_TYPE,
    Execute,
    Listing,
    dumps,
    error_from_wire,
    events_of,
    listing_from_wire,
    loads,
)

SILENCE_SECS = 60.0
"""A server sends a line every 30 s at least; one that has been silent for so long is lost."""
_WORDS, _READ = 300, 10_000
"""What is told of an answer that nobody understands, and what is looked at for that."""
_END_SECS = 0.1
"""How long the end of an answer may be behind its outcome."""


class HttpTransport:
    def __init__(self, endpoint: Endpoint, source: str) -> None:
        self._endpoint = endpoint
        self._source = source
        self._client = self._open()

    def _open(self) -> httpx2.AsyncClient:
        endpoint = self._endpoint
        headers = dict(endpoint.headers)
        if endpoint.token:
            headers["Authorization"] = f"Bearer {endpoint.token}"
        try:
            return httpx2.AsyncClient(
                base_url=endpoint.url,
                headers=headers,
                timeout=httpx2.Timeout(SILENCE_SECS, connect=endpoint.connect_timeout_secs, pool=None),
                transport=Transport(
                    endpoint.url,
                    limits=httpx2.Limits(
                        max_connections=None, max_keepalive_connections=100, keepalive_expiry=IDLE_SECS
                    ),
                    verify=_verification(endpoint),
                ),
                trust_env=not endpoint.is_loopback,
            )
        except ValueError as error:  # a proxy of the environment, whose URL may hold a password
            text = f"{endpoint.url} or the proxy to it is not a URL that can be used: {type(error).__name__}"
            raise InputError(text) from None

    async def list_tools(self, known: str, wait_secs: float) -> Listing | None:
        headers = {"If-None-Match": f'"{known}"'} if known else {}
        async with self._answer(
            "GET", LIST_PATH, headers=headers, params={"wait": f"{in_digits(wait_secs)}"}
        ) as answer:
            if answer.status_code == 304:
                return None
            body = await self._whole(answer, "ListTools")
        if answer.status_code != 200:
            raise self._refusal(answer, body)
        try:
            found = await taken(partial(loads, body), len(body))
            return listing_from_wire(found, source=self._source)
        except ValueError as error:
            text = f"{self._endpoint.url} gave no list of tools as the protocol has it: {error}"
            raise TransportFailure(text, kind="output", happened="no") from error

    async def execute(self, request: Execute, report: Callable[[Progress], None] | None) -> Any:
        said = {name: value for name, value in request._asdict().items() if value not in ("", None)}
        said.pop("traceparent", None)
        headers = {"Content-Type": JSON_TYPE, "Accept": f"{STREAM_TYPE}, {JSON_TYPE}"}
        if request.traceparent:
            headers["Traceparent"] = request.traceparent
        body = dumps({"tool": request.tool, "parameters": request.parameters, **said})
        async with self._answer("POST", EXECUTE_PATH, headers=headers, content=body) as answer:
            if answer.status_code != 200:
                raise self._refusal(answer, await self._whole(answer, request.tool))
            lines = self._lines(answer, request.tool)
            async for line in lines:
                event = await taken(partial(self._event, line), len(line))
                if "error" in event:
                    await _read_to_end(lines)
                    raise error_from_wire(event["error"])
                if "output" in event:
                    await _read_to_end(lines)
                    return event["output"]
                told = event["progress"]
                if report is not None and isinstance(told, dict):
                    report(_progress(told))
        text = f"the answer of {self._endpoint.url} ended before the outcome of {request.tool!r}"
        raise TransportFailure(text, kind="connection_lost", happened="unknown")

    async def cancel(self, call_id: str) -> None:
        async with self._answer("POST", CANCEL_PATH, content=dumps({"call_id": call_id})):
            pass

    async def aclose(self) -> None:
        await self._client.aclose()

    @contextlib.asynccontextmanager
    async def _answer(self, method: str, path: str, **more: Any) -> AsyncIterator[httpx2.Response]:
        url = self._endpoint.url
        if self._client.is_closed:  # used again after `aclose`
            self._client = self._open()
        try:
            async with self._client.stream(method, self._endpoint.url + path, **more) as answer:
                yield answer
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            reason = str(error) or f"no connection within {in_digits(self._endpoint.connect_timeout_secs)} s"
            raise TransportFailure(
                f"cannot connect to {url}: {reason}", kind="refused", happened="no"
            ) from error
        except httpx2.TimeoutException as error:
            text = f"{url} said nothing for {in_digits(SILENCE_SECS)} s"
            raise TransportFailure(text, kind="connection_lost", happened="unknown") from error
        except (httpx2.TransportError, httpx2.StreamError) as error:
            text = f"the connection to {url} was lost: {str(error) or type(error).__name__}"
            raise TransportFailure(text, kind="connection_lost", happened="unknown") from error
        except httpx2.DecodingError as error:
            text = f"the answer of {url} cannot be decoded: {error}"
            raise TransportFailure(text, kind="output", happened="unknown") from error

    async def _whole(self, answer: httpx2.Response, what: str) -> bytes:
        parts, size = [], 0
        async for part in answer.aiter_bytes():
            parts.append(part)
            size += len(part)
            if size > self._endpoint.max_result_bytes:
                raise too_large(what, self._endpoint.max_result_bytes)
        return b"".join(parts)

    async def _lines(self, answer: httpx2.Response, what: str) -> AsyncIterator[bytes]:
        """Lines that are not empty, each no longer than an answer may be."""
        parts: list[bytes] = []
        size = 0
        async for part in answer.aiter_bytes():
            while True:
                line, newline, rest = part.partition(b"\n")
                parts.append(line)
                size += len(line)
                if size > self._endpoint.max_result_bytes + 100:
                    raise too_large(what, self._endpoint.max_result_bytes)
                if not newline:
                    break
                whole = b"".join(parts).strip()
                parts, size, part = [], 0, rest
                if whole:
                    yield whole
        if whole := b"".join(parts).strip():
            yield whole

    def _event(self, line: bytes) -> Any:
        try:
            return events_of(loads(line))
        except ValueError as error:
            shown = self._endpoint.words(line[:_READ].decode("utf-8", "replace"), _WORDS)
            text = f"{self._endpoint.url} answered with what is not as the protocol has it: {error}: {shown}"
            raise ToolCallError(text, kind="output", happened="unknown") from error

    def _refusal(self, answer: httpx2.Response, body: bytes) -> ToolCallError:
        """What a status other than 200 means: the service's own word, or that of something before it."""
        status = answer.status_code
        happened: str = happened_after(status)
        try:
            said = error_from_wire(loads(body)["error"])
        except (ValueError, KeyError, TypeError):
            shown = self._endpoint.words(body[:_READ].decode("utf-8", "replace").strip(), _WORDS)
            text = f"{self._endpoint.url} answered {status}" + (f": {shown}" if shown else "")
            kind, wait = "http", None
        else:
            text, kind, wait = str(said), said.kind, said.retry_after
            happened = said.happened or "unknown"
        if wait is None and (asked := answer.headers.get("retry-after")):
            wait = retry_after_secs(asked, time.time())
        return TransportFailure(text, kind=kind, happened=happened, status=status, retry_after=wait)


async def _read_to_end(lines: AsyncIterator[bytes]) -> None:
    """Past the outcome nothing but the end is to come; only a connection whose answer was read is used again."""
    with contextlib.suppress(TimeoutError, ToolCallError, httpx2.HTTPError, httpx2.StreamError):
        async with asyncio.timeout(_END_SECS):
            await anext(lines, None)


def _progress(told: dict[str, Any]) -> Progress:
    message, done, total = told.get("message", ""), told.get("progress"), told.get("total")
    return Progress(
        message if isinstance(message, str) else "",
        done if isinstance(done, int | float) else None,
        total if isinstance(total, int | float) else None,
    )


def _verification(endpoint: Endpoint) -> Any:
    if endpoint.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(endpoint.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"{endpoint.ca_file} holds no certificates in PEM form: {error}") from error
