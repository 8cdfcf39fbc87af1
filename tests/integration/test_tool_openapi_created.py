"""A server that has said 201 has said that the call took effect: what is lacking then is the output, not the outcome."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from openapi_world import document, operation

from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.openapi import OpenApiSource

pytestmark = pytest.mark.anyio

ANSWER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
BODIES: dict[str, tuple[str, bytes]] = {
    "broken JSON": ("application/json", b"{broken"),
    "a web page": ("text/html", b"<html>ok"),
    "bad compression": ("application/json\r\nContent-Encoding: gzip", b"notgzip"),
    "cut off": ("application/json\r\nX-Cut: 1", b'{"id":1}'),
    "another form than declared": ("application/json", b'{"id":"x"}'),
    "too much": ("application/json", b'"' + b"x" * 3_000 + b'"'),
}


@contextlib.asynccontextmanager
async def answering(status: str, kind: str, body: bytes) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            length = len(body) + (100 if "X-Cut" in kind else 0)
            head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + (b"" if status.startswith("304") else body))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # whoever asked has heard enough
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def call(status: str, kind: str, body: bytes, method: str = "post", **more: Any) -> Any:
    responses = {"201": {"description": "made", "content": {"application/json": {"schema": ANSWER}}}}
    async with answering(status, kind, body) as url:
        made = document(operation(method, "/payments", "pay", responses=responses))
        settings = {"answers": "checked", "max_result_bytes": 2_000, **more}
        source = OpenApiSource(made, server=url, **settings)
        try:
            return await source.call(ToolCall("pay", {}, "the-key", "task", "step"))
        finally:
            await source.aclose()


@pytest.mark.parametrize(("kind", "body"), BODIES.values(), ids=BODIES)
async def test_an_answer_201_that_cannot_be_read_leaves_no_doubt(kind: str, body: bytes) -> None:
    found = await call("201 Created", kind, body)
    assert isinstance(found, str)
    assert found.startswith("(it was made, as the server says by its status 201; its answer cannot be read: ")
    assert await call("201 Created", "application/json", b'{"id": 1}') == {"id": 1}


@pytest.mark.parametrize(
    ("status", "method"), [("200 OK", "post"), ("202 Accepted", "post"), ("201 Created", "get")]
)
@pytest.mark.parametrize(("kind", "body"), BODIES.values(), ids=BODIES)
async def test_another_status_or_a_reading_says_nothing_of_the_kind(
    status: str, method: str, kind: str, body: bytes
) -> None:
    with pytest.raises(ToolCallError) as caught:
        await call(status, kind, body, method)
    assert caught.value.happened != "yes"


async def test_304_to_a_reading_that_set_no_condition_is_no_success() -> None:
    with pytest.raises(ToolCallError, match="set no condition") as caught:
        await call("304 Not Modified", "text/plain", b"", "get")
    assert caught.value.kind == "output"


@pytest.mark.parametrize("name", ["If-None-Match", "if-modified-since"])
async def test_304_to_a_reading_that_asks_for_changes_only_is_its_answer(name: str) -> None:
    assert (
        await call("304 Not Modified", "text/plain", b"", "get", headers={name: "x"}, answers="open") is None
    )


async def test_304_to_what_changes_something_is_no_success() -> None:
    with pytest.raises(ToolCallError) as caught:
        await call("304 Not Modified", "text/plain", b"")
    assert (caught.value.kind, caught.value.happened) == ("output", "unknown")
