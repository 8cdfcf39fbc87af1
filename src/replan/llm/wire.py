"""What endpoints send, brought into the protocol's own form before anybody reads it.

An error inside an answer of status 200 gets its status; an answer without `choices` becomes an empty one; the
arguments of a call are text, also where they came as an object; what was used is told in whole numbers; of several
answers the first counts; of a stream only the data passes, and one that says `[DONE]` without a reason has finished.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2

from replan.connections import Transport
from replan.llm.faults import AnswerTooLarge, leads_elsewhere

_FINISHED = re.compile(r'"finish_reason"\s*:\s*"')
_ARGUMENTS = re.compile(r'"arguments"\s*:\s*[^\s"]')
"""Arguments of a call that may be no text."""
_USAGE = re.compile(r'"usage"\s*:\s*\{')
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_MOST_DIGITS = 20
_OTHER_CHOICE = re.compile(r'"index"\s*:\s*[1-9]')
"""Perhaps a piece of another answer than the first."""
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_UNKNOWN = 502
"""The status of an error that tells none: the other side could not do it now."""


MOST_BYTES = 4_000_000
"""Of one answer, or of one event of a stream: some hundred times what the longest plans have."""
MOST_STREAMED = 64_000_000
"""Of a stream, which says much beside each few letters."""


class LenientTransport(Transport):
    """A transport for chat completions."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.has_redirect_location and (
            elsewhere := leads_elsewhere(str(request.url), response.headers["location"])
        ):
            await response.aclose()
            raise elsewhere
        if response.status_code != 200 or not request.url.path.endswith("/chat/completions"):
            return response
        response.request = request
        if "event-stream" in response.headers.get("content-type", ""):
            return _with(response, 200, stream=EventStream(response))
        try:
            content = b"".join([piece async for piece in _bounded(response.aiter_bytes(), MOST_BYTES)])
        finally:
            await response.aclose()
        status, content = completion(content)
        return _with(response, status, content=content, json=content.lstrip()[:1] == b"{")


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


def completion(content: bytes) -> tuple[int, bytes]:
    """The status and the body that a whole answer of status 200 means."""
    try:
        body = json.loads(content)
    except ValueError:
        return 200, content
    if not isinstance(body, dict):
        return 200, content
    if body.get("choices"):
        changed = [_of_first_choice(body), _arguments_made_text(body), _usage_counted(body)]
        return 200, json.dumps(body).encode() if any(changed) else content
    if error := body.get("error"):
        return status_of(error), content
    nothing = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
    head = {"id": "", "object": "chat.completion", "created": 0, "model": ""}
    return 200, json.dumps({**head, **body, "choices": [nothing]}).encode()


def status_of(error: Any) -> int:
    """The HTTP status that an error object speaks of."""
    found = error if isinstance(error, Mapping) else {}
    for name in ("status", "code", "status_code", "http_status"):
        value = found.get(name)
        number = int(value) if isinstance(value, str) and value.isdigit() else value
        if isinstance(number, int) and not isinstance(number, bool) and 400 <= number <= 599:
            return number
    return _UNKNOWN


def _in_form(data: str) -> str:
    """A piece of a stream, of one answer only, with the arguments of its calls as text; empty if nothing is left."""
    if not any(one.search(data) for one in (_ARGUMENTS, _OTHER_CHOICE, _USAGE)):
        return data
    try:
        body = json.loads(data)
    except ValueError:
        return data  # whoever reads it says what is wrong
    fewer = _of_first_choice(body, strict=True)
    if fewer and not body["choices"] and not body.get("usage"):
        return ""
    changed = [fewer, _arguments_made_text(body), _usage_counted(body)]
    return json.dumps(body) if any(changed) else data


def _of_first_choice(body: Any, *, strict: bool = False) -> bool:
    """Leave out further answers that nobody has asked for, and say whether there were any.

    Unless `strict`, one that is the only one is the answer whatever its number.
    """
    choices = _listed(body, "choices")
    first = [one for one in choices if not isinstance(one, dict) or one.get("index") in (0, None)]
    if len(first) == len(choices) or not (first or strict):
        return False
    body["choices"] = first
    return True


def _arguments_made_text(body: Any) -> bool:
    """Write the arguments of calls as text, and say whether any had to be."""
    made = False
    for choice in _listed(body, "choices"):
        for call in _listed(_held(choice, "message") or _held(choice, "delta"), "tool_calls"):
            function = _held(call, "function")
            if function is not None and not isinstance(arguments := function.get("arguments", ""), str):
                function["arguments"] = "" if arguments is None else json.dumps(arguments)
                made = True
    return made


def _usage_counted(body: Any) -> bool:
    """Write what was used as whole numbers, and say whether it was told otherwise; what counts nothing is 0."""
    usage = _held(body, "usage")
    if usage is None:
        return False
    odd = {name: told for name, told in usage.items() if name in _COUNTS and not _is_count(told)}
    usage.update({name: _counted(told) for name, told in odd.items()})
    details = [
        name for name in usage if name.endswith("_tokens_details") and _details_are_odd(_held(usage, name))
    ]
    for name in details:
        del usage[name]
    return bool(odd or details)


def _details_are_odd(details: dict[str, Any] | None) -> bool:
    return details is not None and not all(one is None or _is_count(one) for one in details.values())


def _is_count(told: Any) -> bool:
    return type(told) is int and told >= 0


def _counted(told: Any) -> int:
    if isinstance(told, str) and told.isascii() and told.isdigit() and len(told) < _MOST_DIGITS:
        return int(told)
    fits = isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told < math.inf
    return math.ceil(told) if fits else 0


def _held(value: Any, name: str) -> dict[str, Any] | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else None


def _listed(value: Any, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _with(response: httpx2.Response, status: int, *, json: bool = False, **body: Any) -> httpx2.Response:
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_BODY]
    if json:  # whatever it was called
        headers = [(name, value) for name, value in headers if name != "content-type"]
        headers.append(("content-type", "application/json"))
    return httpx2.Response(status, headers=headers, extensions=response.extensions, **body)


class EventStream(httpx2.AsyncByteStream):
    """The data of a stream of events, one line each."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        finished = False
        last: dict[str, Any] = {}
        async for data in _data(_bounded(self._response.aiter_bytes(), MOST_STREAMED)):
            if data.startswith("[DONE]"):
                if not finished:
                    yield _event(json.dumps({**last, "choices": [_THE_END], "usage": None}))
                yield _event(data)
                continue
            if not last:
                last = _head(data)
            if piece := _in_form(data):
                finished = finished or _FINISHED.search(piece) is not None
                yield _event(piece)

    async def aclose(self) -> None:
        await self._response.aclose()


_THE_END = {"index": 0, "delta": {}, "finish_reason": "stop"}


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


def _head(data: str) -> dict[str, Any]:
    """What every piece of an answer repeats."""
    head = {"id": "", "object": "chat.completion.chunk", "created": 0, "model": ""}
    try:
        first = json.loads(data)
    except ValueError:
        return head
    return (
        {**head, **{name: first[name] for name in head if first.get(name)}}
        if isinstance(first, dict)
        else head
    )


async def _data(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The data of each event, on one line, where there is any that can be an answer's."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    rest, lines = "", list[str]()
    async for piece in pieces:
        *whole, rest = re.split(r"\r\n|\n|\r(?!\Z)", rest + decode(piece))
        if len(rest) > MOST_BYTES:
            raise _too_large(MOST_BYTES)
        for line in whole:
            if line:
                lines.append(line)
            elif data := _of_event(lines):
                lines = []
                yield data
            else:
                lines = []
    lines.append(rest.rstrip("\r"))
    if data := _of_event(lines):
        yield data


def _of_event(lines: list[str]) -> str:
    texts = [line[5:].strip() for line in lines if line.startswith("data:")]
    data = " ".join(text for text in texts if text)
    return data if data.startswith(("{", "[DONE]")) else ""
