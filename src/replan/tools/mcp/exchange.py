"""One call on its way, and what the transport sees of it, and of its stream of answers.

The task that makes a call has its `Exchange` in a context variable. The library carries the context of whoever sends
a message to whoever writes it, so an HTTP request, and a question that comes back on its stream, know their call.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

import httpx2

from replan.core.types import JsonObject
from replan.errors import ToolCallError
from replan.ports import Question, ToolCall
from replan.tools.bounds import traceparent


class Exchange:
    """A call, or the opening of a connection (`call` None). `failed` is done when the transport gives it up."""

    def __init__(self, call: ToolCall | None = None) -> None:
        self.call = call
        self.begun = False
        """The server has told of its progress, or asked something: it has taken the call, and its tool is at work."""
        self.number: str | int | None = None
        """The id of its request, once a stream answers it."""
        self.sent_to: list[str] = []
        """The addresses that it was posted to: a redirect may lead on, and never back."""
        loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[ToolCallError] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()

    @property
    def over(self) -> bool:
        """The caller has gone: nothing is reported or asked any more."""
        return self._ended.done()

    def end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def ask(self, question: Question) -> JsonObject | None:
        """What a person answers; None when nobody does, or the call ends first."""
        self.begun = True
        if self.call is None or self.call.ask is None or self.over:
            return None
        asking = asyncio.ensure_future(self.call.ask(question))
        try:
            either: set[asyncio.Future[Any]] = {asking, self._ended}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            asking.cancel()

    def fail(self, error: ToolCallError) -> None:
        """The first failure is the one that counts."""
        if not self.failed.done():
            self.failed.set_result(error)

    @property
    def failure(self) -> ToolCallError | None:
        return self.failed.result() if self.failed.done() and not self.failed.cancelled() else None

    def headers(self) -> dict[str, str]:
        """What an HTTP request says of its call, for servers and what stands before them."""
        if self.call is None:
            return {}
        key = re.sub(r"[^ !#-\[\]-~]", "_", self.call.key)  # a string of RFC 9651
        return {"traceparent": traceparent(self.call), "Idempotency-Key": f'"{key}"'}


EXCHANGE: ContextVar[Exchange | None] = ContextVar("replan_mcp_exchange", default=None)


_LIBRARY_BYTES = 8192
"""More than a limit of events may be above that of answers: what is longer, the library refuses itself."""
_BLANK = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")
_LINE = re.compile(rb"\r\n|\r|\n")


def is_event_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("text/event-stream")


def answers_to(number: str | int, response: httpx2.Response, max_bytes: int) -> httpx2.Response:
    """The response with the answers to other requests left out of its events.

    The library takes the first answer on the stream of a request for that request's, whatever id it bears. A gateway that sends every
    message to everybody would so have one call succeed with what came of another.
    """
    unpacked = ("content-encoding", "content-length", "transfer-encoding")
    return httpx2.Response(
        response.status_code,
        headers=[(name, value) for name, value in response.headers.multi_items() if name not in unpacked],
        stream=_Own(response, number, max_bytes + _LIBRARY_BYTES),
        request=response.request,
        extensions=response.extensions,
    )


def has_id(body: bytes, number: str | int) -> bool:
    """Whether a message has that id, as far as its ends tell: inside, it may be of something in the answer."""
    text = rb'"id"\s*:\s*"?%s"?\s*' % re.escape(str(number)).encode()
    version = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
    return (
        re.match(rb"\s*\{\s*(%s,\s*)?%s[,}]" % (version, text), body) is not None
        or re.search(rb"%s(,\s*%s)?\}\s*\Z" % (text, version), body[-400:]) is not None
    )


class _Own(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, number: str | int, most: int) -> None:
        self._response = response
        self._number = number
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kept, seen = bytearray(), 0
        async for part in self._response.aiter_bytes():
            kept += part
            for event in _whole_events(kept, seen):
                yield self._without_foreign(event)
            if len(kept) > self._most:
                yield bytes(kept)
                kept.clear()
            seen = max(0, len(kept) - 3)
        if kept:
            yield self._without_foreign(bytes(kept))

    async def aclose(self) -> None:
        await self._response.aclose()

    def _without_foreign(self, event: bytes) -> bytes:
        """The event; of one that answers another request, what it says of the stream alone (its place there)."""
        lines = _LINE.split(event.removeprefix(b"\xef\xbb\xbf"))
        data = [line for line in lines if line.startswith(b"data:")]
        if not data or not _is_foreign(b"\n".join(line[5:] for line in data), self._number):
            return event
        return b"\n".join([*(line for line in lines if line and not line.startswith(b"data")), b"", b""])


def _whole_events(kept: bytearray, seen: int) -> Iterator[bytes]:
    """The events that have come whole, taken out of `kept`; up to `seen` there is no end of one."""
    begin = 0
    while found := _BLANK.search(kept, max(begin, seen)):
        yield bytes(kept[begin : found.end()])
        begin = found.end()
    del kept[:begin]


def _is_foreign(data: bytes, number: str | int) -> bool:
    if has_id(data, number):
        return False
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return False  # the library says what is wrong with it
    if not isinstance(said, dict) or "method" in said or not ("result" in said or "error" in said):
        return False
    if said.get("id") is None and "error" in said:
        return False  # a request that could not be read has no id to name
    return str(said.get("id")) != str(number)
