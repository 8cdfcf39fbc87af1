"""MCP servers over HTTP: what a refusal becomes, sessions that end, questions on a call's own stream."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from faults_mcp_http import JSON, Lab
from mcp.server.mcpserver import Context, MCPServer

from mcp_http_server import Tools, app_of, serving
from replan.core.failures.faults import classify, may_retry
from replan.errors import ToolCallError
from replan.ports import Question, ToolCall
from replan.tools.mcp import HttpServer, McpSource
from replan.tools.mcp.exchange import EXCHANGE, Exchange
from replan.tools.mcp.http import CallClient

pytestmark = pytest.mark.anyio
ADD = ToolCall("add", {"a": 1, "b": 2}, "key")
BOTH = pytest.mark.parametrize("protocol", ["auto", "legacy"])


async def failed(source: McpSource, call: ToolCall = ADD) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        async with asyncio.timeout(20):
            await source.call(call)
    return caught.value


@contextlib.asynccontextmanager
async def lab(**options: Any) -> AsyncIterator[tuple[Lab, McpSource]]:
    made = Lab(**options)
    async with made.open() as source:
        try:
            await source.tools()
            yield made, source
        finally:
            await source.aclose()


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "happened", "transient"),
    [
        pytest.param(401, {}, b"who are you?", "http", "no", False, id="401"),
        pytest.param(403, {}, b"", "http", "no", False, id="403"),
        pytest.param(429, {"retry-after": "7"}, b"slow down", "http", "no", True, id="429"),
        pytest.param(500, {}, b"oops", "http", "unknown", True, id="500"),
        pytest.param(503, {"retry-after": "7"}, b"", "http", "unknown", True, id="503"),
        pytest.param(408, {}, b"", "http", "unknown", True, id="408"),
        pytest.param(
            302, {"location": "http://elsewhere.invalid/"}, b"", "http", "unknown", False, id="redirect"
        ),
        pytest.param(
            307,
            {"location": "http://elsewhere.invalid/"},
            b"",
            "http",
            "unknown",
            False,
            id="sent elsewhere",
        ),
        pytest.param(307, {"location": ""}, b"", "http", "unknown", False, id="sent back to where it is"),
        pytest.param(
            308, {"location": "?again=1"}, b"", "http", "unknown", False, id="sent on, and nothing before it"
        ),
        pytest.param(
            303, {"location": "/done"}, b"", "http", "unknown", False, id="done, and seen elsewhere"
        ),
        pytest.param(304, {}, b"", "http", "unknown", False, id="not modified"),
        pytest.param(202, {}, b"", "output", "unknown", False, id="accepted, and nothing follows"),
        pytest.param(200, {"content-type": "text/html"}, b"<html>", "output", "unknown", False, id="a page"),
        pytest.param(200, {}, b"{}", "output", "unknown", False, id="of no type"),
        pytest.param(
            200,
            JSON,
            b'{"jsonrpc": "2.0", "id": 999, "result": {"content": []}}',
            "output",
            "unknown",
            False,
            id="the answer to another",
        ),
        pytest.param(
            200,
            JSON,
            b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "b is missing"}}',
            "parameter",
            "no",
            False,
            id="an error without an id",
        ),
        pytest.param(200, JSON, b"{", "output", "unknown", False, id="half a JSON"),
        pytest.param(
            200, {**JSON, "content-encoding": "gzip"}, b"no gzip", "output", "unknown", False, id="no gzip"
        ),
        pytest.param(
            200,
            {"content-type": "text/event-stream"},
            b"",
            "connection_lost",
            "unknown",
            True,
            id="an empty stream",
        ),
        pytest.param(
            200,
            JSON,
            b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "no customer 5"}}',
            "tool",
            None,
            False,
            id="the server's own error, with the code of a closed connection",
        ),
        pytest.param(
            200,
            {"content-type": "text/event-stream"},
            b": ping\n\n",
            "connection_lost",
            "unknown",
            True,
            id="a stream that says nothing",
        ),
        pytest.param(
            200,
            {"content-type": "text/event-stream"},
            b"data: {\n\n",
            "output",
            "unknown",
            False,
            id="broken event",
        ),
        pytest.param(
            200,
            JSON,
            b'{"jsonrpc": "2.0", "id": 99999, "result": {"items": [%s]}}'
            % b", ".join(b'{"id": %d}' % number for number in range(100)),
            "output",
            "unknown",
            False,
            id="an answer to another, with the number inside",
        ),
        pytest.param(
            400,
            JSON,
            b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "b is missing"}}',
            "parameter",
            "no",
            False,
            id="a JSON-RPC error",
        ),
    ],
)
@BOTH
async def test_what_comes_in_the_place_of_an_answer(
    protocol: str, status: int, headers: Any, body: bytes, kind: str, happened: str | None, transient: bool
) -> None:
    async with lab(protocol=protocol) as (made, source):
        beside = asyncio.create_task(source.call(ToolCall("wait", {}, "other")))
        await asyncio.to_thread(made.tools.started.wait, 10)
        made.between.faults["tools/call"] = (status, headers, body)
        error = await failed(source)
        await asyncio.sleep(0)
        assert not beside.done()
        beside.cancel()
        made.between.faults.clear()
        assert await source.call(ADD) == {"sum": 3}
    assert (error.kind, error.happened) == (kind, happened), error
    assert classify(error).transient is transient
    if "retry-after" in headers:
        assert error.retry_after == 7
    if kind == "http":
        assert error.status == status
        assert body.decode() in str(error)


class _Moved(Lab):
    """Every request is sent on to where the server lies."""

    def app(self) -> Any:
        inner = super().app()

        async def moved(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["query_string"] == b"here=1":
                await inner(scope, receive, send)
                return
            headers = [(b"location", scope["path"].encode() + b"?here=1")]
            await send({"type": "http.response.start", "status": 307, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

        return moved


@BOTH
async def test_a_call_goes_where_all_before_it_were_sent(protocol: str) -> None:
    async with _Moved(protocol=protocol).open() as source:
        try:
            assert await source.call(ADD) == {"sum": 3}
        finally:
            await source.aclose()


@BOTH
async def test_a_call_that_is_cut_off_takes_no_other_with_it(protocol: str) -> None:
    async with lab(protocol=protocol) as (made, source), asyncio.timeout(20):
        meeting = asyncio.create_task(source.call(ToolCall("meet", {"n": 2}, "one")))
        await asyncio.to_thread(made.tools.started.wait, 10)
        made.between.faults["tools/call"] = (200, {"content-type": "text/event-stream"}, b"")
        assert (await failed(source)).kind == "connection_lost"
        made.between.faults.clear()
        assert await source.call(ToolCall("meet", {"n": 2}, "two")) is True
        assert await meeting is True


@pytest.mark.parametrize("body", [{"id": 1, "result": {"action": "decline"}}, {"method": "notifications/x"}])
async def test_what_is_sent_beside_a_call_and_accepted_says_nothing_of_the_call(body: Any) -> None:
    async def accepted(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        await read.readuntil(b"\r\n\r\n")
        write.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        await write.drain()
        write.close()

    exchange = Exchange(ToolCall("ask", {}, "key"))
    token = EXCHANGE.set(exchange)
    try:
        async with await asyncio.start_server(accepted, "127.0.0.1", 0) as listening:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
            async with CallClient(HttpServer(url), None, 1_000, set()) as client, asyncio.timeout(20):
                answer = await client.post(url, json={"jsonrpc": "2.0", **body})
    finally:
        EXCHANGE.reset(token)
    assert answer.status_code == 202
    assert exchange.failure is None


async def test_a_notice_that_is_not_taken_holds_up_nothing_for_ever() -> None:
    async with lab(protocol="legacy") as (made, source):
        made.between.silent.add("notifications/cancelled")
        given_up = asyncio.create_task(source.call(ToolCall("wait", {}, "other")))
        await asyncio.to_thread(made.tools.started.wait, 10)
        given_up.cancel()
        async with asyncio.timeout(20):
            while "notifications/cancelled" not in made.between.seen:  # it may be on its way still
                assert await source.call(ADD) == {"sum": 3}
            assert await source.call(ADD) == {"sum": 3}


async def test_more_calls_than_a_pool_of_connections_has_run_at_once() -> None:
    async with lab() as (_, source), asyncio.timeout(30):
        calls = [source.call(ToolCall("meet", {"n": 120}, f"{n}")) for n in range(120)]
        assert await asyncio.gather(*calls) == [True] * 120


@BOTH
async def test_an_answer_is_measured_unpacked(protocol: str) -> None:
    async with lab(protocol=protocol, max_result_bytes=1_000_000) as (made, source):
        bomb = gzip.compress(b"x" * 50_000_000)
        assert len(bomb) < 100_000
        made.between.faults["tools/call"] = (200, {**JSON, "content-encoding": "gzip"}, bomb)
        error = await failed(source)
        event = b"data: " + b"x" * 3_000_000 + b"\n\n"
        made.between.faults["tools/call"] = (200, {"content-type": "text/event-stream"}, event)
        streamed = await failed(source)
    for each in (error, streamed):
        assert (each.kind, each.happened) == ("output", "unknown")
        assert "1,000,000 bytes" in str(each)


@BOTH
async def test_headers_go_along_and_are_never_told(protocol: str) -> None:
    tools = Tools()
    with serving(lambda: app_of(tools)) as server:
        headers = {"Authorization": "Bearer top-s3cret", "X-Team": "blue-team"}
        source = McpSource(HttpServer(server.url, headers), name="http", protocol=protocol)
        sent = await source.call(ToolCall("headers", {}, "the-key", "task"))
        await source.aclose()
    assert sent["authorization"] == "Bearer top-s3cret"
    assert sent["x-team"] == "blue-team"
    assert sent["idempotency-key"] == '"the-key"'
    assert sent["traceparent"].startswith("00-")


async def test_what_a_server_says_back_is_told_without_the_headers() -> None:
    made = Lab()
    async with made.open() as plain:
        made.between.faults["tools/call"] = (403, {}, b"the token top-s3cret may not do this")
        headers = {"Authorization": "Bearer top-s3cret"}
        source = McpSource(HttpServer(made.server.url + "?key=in-the-query", headers), name="http")
        error = await failed(source)
        await source.aclose()
        await plain.aclose()
    assert "the token *** may not" in str(error)
    assert "in-the-query" not in str(error)


async def test_what_a_server_says_to_a_request_for_its_tools_is_told_without_the_headers() -> None:
    made = Lab()
    async with made.open() as plain:
        said = {"code": -32000, "message": "the token top-s3cret may not list"}
        refusal = json.dumps({"jsonrpc": "2.0", "id": 2, "error": said}).encode()
        made.between.faults["tools/list"] = (200, JSON, refusal)
        source = McpSource(HttpServer(made.server.url, {"Authorization": "Bearer top-s3cret"}), name="http")
        with pytest.raises(ToolCallError, match=r"the token \*\*\* may not list"):
            await source.tools()
        await source.aclose()
        await plain.aclose()


async def test_a_session_that_the_server_forgot_is_begun_anew_and_the_call_made_once() -> None:
    async with lab(protocol="legacy") as (made, source):
        assert await source.call(ADD) == {"sum": 3}
        await made.stop()
        await made.start()
        made.between.seen.clear()
        assert await source.call(ADD) == {"sum": 3}
        assert made.between.seen.count("tools/call") == 2  # the first was turned away unread
        assert made.between.seen.count("initialize") == 1


def rpc(code: int, said: str, number: Any = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": said}}).encode()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(400, rpc(-32000, "Bad Request: No valid session ID provided"), id="400"),
        pytest.param(400, rpc(-32600, "session 7 is not open"), id="400, invalid request"),
        pytest.param(400, b"the session has expired", id="400 in plain words"),
        pytest.param(403, rpc(-32001, "Session not found"), id="403"),
        pytest.param(422, rpc(-32000, "the session is over"), id="422"),
        pytest.param(500, rpc(-32001, "Session terminated"), id="500"),
        pytest.param(200, rpc(-32600, "Session terminated"), id="200"),
    ],
)
async def test_words_of_a_session_never_repeat_a_call(status: int, body: bytes) -> None:
    async with lab(protocol="legacy") as (made, source):
        made.between.faults["tools/call"] = (status, JSON, body)
        made.between.seen.clear()
        error = await failed(source)
        assert made.between.seen.count("tools/call") == 1
        spec = next(tool for tool in await source.tools() if tool.id == "fail")
        assert not may_retry(classify(error, spec), spec)
        assert (classify(error, spec).happened == "no") is (status < 500)
        made.between.faults.clear()
        assert await source.call(ADD) == {"sum": 3}


async def test_an_expired_session_is_believed_once_a_call() -> None:
    async with lab(protocol="legacy") as (made, source):
        made.between.faults["tools/call"] = (404, JSON, rpc(-32001, "Session not found"))
        made.between.seen.clear()
        error = await failed(source)
        assert made.between.seen.count("tools/call") == 2
        assert made.between.seen.count("initialize") == 1
        assert (error.kind, error.status, error.happened) == ("http", 404, "no")
        assert not classify(error).transient


async def test_a_404_that_answers_the_very_call_is_its_answer() -> None:
    async with lab(protocol="legacy") as (made, source):
        made.between.seen.clear()
        for number in range(50):  # the library counts its requests
            made.between.faults["tools/call"] = (404, JSON, rpc(-32600, "Session not found", number))
            before = made.between.seen.count("tools/call")
            error = await failed(source)
            if error.kind == "tool":
                assert made.between.seen.count("tools/call") == before + 1
                return
    raise AssertionError("no answer was ever taken for the call's own")


def answered(*numbers: int, end: str = "\n") -> bytes:
    """A stream with an answer to each of these requests: its number is what was reckoned."""
    events = []
    for number in numbers:
        result = {"content": [], "structuredContent": {"sum": number}, "resultType": "complete"}
        said = json.dumps({"jsonrpc": "2.0", "id": number, "result": result})
        events.append(f"event: message{end}id: {number}{end}data: {said}{end}{end}")
    return "".join(events).encode()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@BOTH
async def test_of_a_stream_with_the_answers_of_all_each_call_takes_its_own(
    protocol: str, packed: bool, end: str
) -> None:
    body = answered(99_999, *range(60), end=end)
    headers = {"content-type": "text/event-stream"}
    if packed:
        body, headers["content-encoding"] = gzip.compress(body), "gzip"
    async with lab(protocol=protocol) as (made, source):
        made.between.faults["tools/call"] = (200, headers, body)
        found = [(await source.call(ADD))["sum"] for _ in range(3)]
        together = await asyncio.gather(*(source.call(ADD) for _ in range(3)))
    assert found == [found[0] + n for n in range(3)]
    assert sorted(one["sum"] for one in together) == [found[2] + n for n in (1, 2, 3)]


@BOTH
async def test_the_answer_to_another_request_alone_leaves_a_call_in_doubt(protocol: str) -> None:
    body = answered(99_999).replace(b"id: 99999\n", b"")
    async with lab(protocol=protocol) as (made, source):
        made.between.faults["tools/call"] = (200, {"content-type": "text/event-stream"}, body)
        error = await failed(source)
        spec = next(tool for tool in await source.tools() if tool.id == "fail")
        assert classify(error, spec).happened == "unknown"
        assert not may_retry(classify(error, spec), spec)


async def test_a_server_that_was_away_is_reached_again() -> None:
    async with lab() as (made, source):
        await made.stop()
        error = await failed(source)
        assert (error.kind, error.happened) == ("refused", "no")
        await made.start()
        assert await source.call(ADD) == {"sum": 3}


@BOTH
async def test_questions_on_two_calls_reach_each_its_own_person(protocol: str) -> None:
    async with lab(protocol=protocol) as (_, source):

        def person(color: str) -> Any:
            async def ask(question: Question) -> Any:
                await asyncio.sleep(0)
                return {"color": color}

            return ask

        colors = ["red", "green", "blue"]
        calls = [source.call(ToolCall("ask", {}, color, ask=person(color))) for color in colors]
        async with asyncio.timeout(20):
            found = await asyncio.gather(*calls, source.call(ToolCall("ask", {}, "nobody")))
    assert [each["content"]["color"] for each in found[:3]] == colors
    assert found[3]["action"] == "decline"


async def test_the_transport_of_2024() -> None:
    from mcp.server.lowlevel.server import Server
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    tools = Tools()

    def make() -> Starlette:
        server: Server[Any] = Server("old", version="1", on_list_tools=tools.list, on_call_tool=tools.call)
        transport = SseServerTransport("/messages/")

        async def stream(request: Any) -> Response:
            async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
                await server.run(read, write, server.create_initialization_options())
            return Response()

        return Starlette(
            routes=[Route("/sse", stream), Mount("/messages/", app=transport.handle_post_message)]
        )

    with serving(make) as server:
        url = server.url.replace("/mcp", "/sse")
        source = McpSource(HttpServer(url, transport="sse"), name="old")
        async with asyncio.timeout(20):
            assert await source.call(ADD) == {"sum": 3}
            wait = asyncio.create_task(source.call(ToolCall("wait", {}, "w")))
            await asyncio.to_thread(tools.started.wait, 10)
            await asyncio.to_thread(server.stop)
            with pytest.raises(ToolCallError) as caught:
                await wait
            assert (caught.value.kind, caught.value.happened) == ("connection_lost", "unknown")
            await asyncio.to_thread(server.start)
            assert await source.call(ADD) == {"sum": 3}
        await source.aclose()


async def test_what_is_no_mcp_server_says_so() -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"nothing here"})

    with serving(lambda: page) as server:
        source = McpSource(server.url)
        with pytest.raises(ToolCallError, match=r"answered 404 Not Found: nothing here") as caught:
            await source.tools()
        await source.aclose()
    assert (caught.value.kind, caught.value.status) == ("http", 404)


async def test_a_change_of_the_list_is_heard_with_the_newest_protocol() -> None:
    server = MCPServer("changing")

    @server.tool()
    def grow() -> str:
        server.add_tool(lambda: "new", name="new")
        return "grown"

    @server.tool()
    async def tell(ctx: Context) -> str:
        await ctx.notify_tools_changed()
        return "told"

    with serving(server.streamable_http_app) as at:
        source = McpSource(at.url)
        changed = asyncio.Event()
        source.watch(changed.set)
        assert {spec.id for spec in await source.tools()} == {"grow", "tell"}
        assert (
            await source.call(ToolCall("grow", {}, "grow")) == "grown"
        )  # wrapped by the SDK, which says so by a title
        async with asyncio.timeout(20):
            await source.call(ToolCall("tell", {}, "tell"))
            await changed.wait()
        assert {spec.id for spec in await source.tools()} == {"grow", "tell", "new"}
        await source.aclose()
