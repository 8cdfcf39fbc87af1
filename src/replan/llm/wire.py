"""What endpoints send, bounded, and brought into the protocol's own form before anybody reads it (`completions`).

Of a stream only the data passes, and one that says `[DONE]` without a reason has finished.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from replan.beside import beside
from replan.connections import Transport
from replan.core.data.pieces import ANSWER_AT_ONCE
from replan.core.failures.transport import status_passes
from replan.core.types import JsonObject
from replan.llm.coming import Coming, of_now, words_of
from replan.llm.completions import HEAD, CallsSaidOnce, chunk_in_form, completion, ends, error_in, status_of
from replan.llm.faults import REDIRECTS, AnswerTooLarge, EndpointError, leads_astray

_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})


MOST_BYTES = 2_000_000
"""Of one answer, or of one event of a stream: as many tokens as any model says, in the longest writing."""
_AFTER_THE_END_SECS = 3.0
"""How long a stream whose answer is whole may go on: what was used comes behind it, and some are never closed."""
MOST_STREAMED = 32_000_000
"""Of a stream, which says much beside each few letters: what it says is bounded by itself (`coming.MOST_TOKENS`)."""


ERROR_BYTES = 65_536
"""Of what an endpoint says beside an error."""


class LenientTransport(Transport):
    """A transport for chat completions."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        coming = of_now()
        if coming is not None:
            coming.request(f"it was led on to {request.url.path}")
        response = await super().handle_async_request(request)
        if response.status_code in REDIRECTS and (
            astray := leads_astray(
                request.method, str(request.url), response.status_code, response.headers.get("location")
            )
        ):
            await response.aclose()
            raise astray
        response.request = request
        if response.status_code != 200:
            return await _error(response)
        if not request.url.path.endswith("/chat/completions"):
            return _with(response, 200, stream=Bounded(response))
        if "event-stream" in response.headers.get("content-type", ""):
            return _with(response, 200, stream=EventStream(response, coming))
        try:
            content = b"".join([piece async for piece in _bounded(response.aiter_bytes(), MOST_BYTES)])
        finally:
            await response.aclose()
        if len(content) <= ANSWER_AT_ONCE:
            status, content = completion(content)
        elif coming is None:
            status, content = await beside(completion, content)
        else:
            status, content = await beside(completion, content, coming.hold)
        return _with(response, status, content=content, json=content.lstrip()[:1] == b"{")


async def _error(response: httpx2.Response) -> httpx2.Response:
    """What an endpoint says beside a status that is none of success: its beginning, as whatever sends more says nothing to anybody."""
    content = b""
    try:
        async for piece in response.aiter_bytes(ERROR_BYTES):
            content += piece[: ERROR_BYTES - len(content)]
            if len(content) >= ERROR_BYTES:
                break
    except httpx2.DecodingError:
        pass  # the status is what counts
    finally:
        await response.aclose()
    return _with(response, response.status_code, content=content)


async def _bounded(pieces: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """The pieces of an answer; `AnswerTooLarge` before they would be too many to be read in the event loop."""
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > most:
            raise _too_large(most)
        yield piece


def _too_large(most: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"it sends an answer of more than {most:,} bytes, and is not read further")


def _with(response: httpx2.Response, status: int, *, json: bool = False, **body: Any) -> httpx2.Response:
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_BODY]
    if json:  # whatever it was called
        headers = [(name, value) for name, value in headers if name != "content-type"]
        headers.append(("content-type", "application/json"))
    return httpx2.Response(status, headers=headers, extensions=response.extensions, **body)


class Bounded(httpx2.AsyncByteStream):
    """Any other answer, as it comes, up to a bound."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in _bounded(self._response.aiter_bytes(), MOST_BYTES):
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


class EventStream(httpx2.AsyncByteStream):
    """The data of a stream of events, one line each."""

    def __init__(self, response: httpx2.Response, coming: Coming | None = None) -> None:
        self._response = response
        self._coming = coming

    async def __aiter__(self) -> AsyncIterator[bytes]:
        finished = False
        last: JsonObject = {}
        used: Any = None
        calls = CallsSaidOnce()
        pieces = _data(_bounded(self._response.aiter_bytes(), MOST_STREAMED))
        while (data := await _next(pieces, _AFTER_THE_END_SECS if finished else None)) is not None:
            if data.startswith("[DONE]"):
                if not finished:
                    if self._coming is not None:
                        self._coming.without_reason = True
                    yield _event(json.dumps({**last, "choices": [_THE_END], "usage": None}))
                if used is not None:
                    yield _event(json.dumps({**last, "choices": [], "usage": used}))
                    used = None
                yield _event(data)
                continue
            try:
                event = json.loads(data)
            except ValueError:
                yield _event(data)  # whoever reads it says what is wrong
                continue
            if (error := error_in(event)) is not None:
                raise self._failed(error)
            changed, told = chunk_in_form(event)
            changed = calls.repeated(event) or changed
            if event.get("choices") and self._coming is not None:
                self._coming.said(words_of(event["choices"]))
            if told:
                finished = finished or ends(event)
                last = last or {name: event.get(name) or none for name, none in HEAD.items()}
                if event.get("usage") is not None:
                    # some tell with each piece what was used by then: the last counts, and not their sum
                    used, event["usage"], changed = event["usage"], None, True
                yield _event(json.dumps(event) if changed else data)
        if used is not None:
            yield _event(json.dumps({**last, "choices": [], "usage": used}))

    def _failed(self, error: JsonObject) -> EndpointError:
        """An error in the middle of a stream, as the same with a status of its own would be."""
        status, url = status_of(error), self._response.request.url
        return EndpointError(
            f"{url.scheme}://{url.netloc.decode()} answered with status {status} in its stream: {_message(error)}",
            transient=status_passes(status),
            setup=status in (401, 403),
            status=status,
        )

    async def aclose(self) -> None:
        await self._response.aclose()


def _message(error: JsonObject) -> str:
    return str(error.get("message") or error.get("detail") or json.dumps(error))[:500]


_THE_END = {"index": 0, "delta": {}, "finish_reason": "stop"}


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


async def _next(data: AsyncIterator[str], secs: float | None) -> str | None:
    """What comes next; None: nothing does, or not in so many seconds."""
    try:
        async with asyncio.timeout(secs):
            return await anext(data, None)
    except TimeoutError:
        return None


async def _data(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The data of each event, on one line, where there is any that can be an answer's."""
    decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
    held, lines = "", list[str]()
    rest: list[str] = []
    """The line that has begun, in pieces: a long one is not gone through again with each."""
    size = 0
    async for piece in pieces:
        text = held + decode(piece)
        # what follows says whether a "\r" ends a line or is half of an end
        held = "\r" if text.endswith("\r") else ""
        first, *others = _LINE_ENDS.split(text[: len(text) - len(held)])
        rest.append(first)
        size += len(first)
        for other in others:
            whole = "".join(rest)
            rest, size = [other], len(other)
            if whole:
                lines.append(whole)
            elif data := _of_event(lines):
                lines = []
                yield data
            else:
                lines = []
        if size > MOST_BYTES:
            raise _too_large(MOST_BYTES)
    lines.append("".join(rest))
    if data := _of_event(lines):
        yield data


_LINE_ENDS = re.compile(r"\r\n|\n|\r")


def _of_event(lines: list[str]) -> str:
    texts = [line[5:].strip() for line in lines if line.startswith("data:")]
    data = " ".join(text for text in texts if text)
    if data.startswith("{") and any(
        line[6:].strip() == "error" for line in lines if line.startswith("event:")
    ):
        return f'{{"error": {data}}}'
    return data if data.startswith(("{", "[DONE]")) else ""
