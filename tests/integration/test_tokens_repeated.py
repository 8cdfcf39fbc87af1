"""A token that a service, an agent or a proxy repeats in its answer stands in no message: hidden where the error is made."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from replan.discovery.balance import Balance
from replan.discovery.consul.client import Agent, Consul
from replan.discovery.consul.instances import ConsulRegistry
from replan.discovery.consul.registration import Offer, Registration
from replan.discovery.discovered import Discovered
from replan.errors import ReplanError, ToolCallError
from replan.ports import ToolCall
from replan.tools.remote import RemoteSource
from replan.tools.remote.grpc_forms import pb
from replan.tools.remote.messages import GRPC_SERVICE, PROTOCOL

pytestmark = pytest.mark.anyio
TOKEN = "tok-5f2a9c71-aa40-secret"
LIST = {
    "protocol": PROTOCOL,
    "revision": "1",
    "tools": [{"id": "pay", "effect": "once", "parameters": {"type": "object", "properties": {}}}],
}


@contextlib.asynccontextmanager
async def answering(answer: Callable[[str], tuple[str, str, str]]) -> AsyncIterator[int]:
    """A server that makes of a path its status, kind and body; gives the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.lower().split("\r\n")
            length = next((int(one.split(":")[1]) for one in lines if one.startswith("content-length")), 0)
            await reader.readexactly(length)
            assert TOKEN in head, "it was sent"
            status, kind, body = answer(head.split(" ")[1])
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {len(body.encode())}\r\n\r\n{body}".encode()
            )
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


ANSWERS = [
    ("403", "text/plain", f"rejected header X-Consul-Token: {TOKEN}"),
    ("500", "text/plain", f"no leader {TOKEN}"),
    ("403", "application/json", json.dumps({"message": f"Bearer {TOKEN}"})),
    ("200", f"text/{TOKEN}", "x"),
    ("500", "text/plain", "x" * 290 + TOKEN),
    ("500", "text/plain", base64.b64encode(f"user:{TOKEN}".encode()).decode()),
    ("200", "application/json", json.dumps([{"Service": {"Address": f"a b {TOKEN}", "Port": 1}}])),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
async def test_what_an_agent_repeats_is_told_nowhere(
    answer: tuple[str, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "replan")
    async with answering(lambda _: answer) as port:
        agent = Agent(port=port, token=TOKEN)
        looked = Discovered(ConsulRegistry(Consul(agent)), "s", scheme="http", balance=Balance("round_robin"))
        offer = Offer("s-1", "s", "127.0.0.1", 1, None, "http://127.0.0.1:1/ready", None, 60, 5, ())
        made = Registration(Consul(agent), offer)
        await looked.begin()
        await made.begin()
        await _until(lambda: made.problem != "it has not answered yet")
        told = [looked.state().problem, made.problem]
        await made.leave()
        await looked.aclose()
    assert told[0]
    ours = [one.getMessage() for one in caplog.records if one.name.startswith("replan")]
    assert ours
    _holds_no_token(*told, *ours)


@pytest.mark.parametrize("answer", ANSWERS[:-1], ids=str)
async def test_what_a_tool_service_repeats_is_told_nowhere(answer: tuple[str, str, str]) -> None:
    def of(path: str) -> tuple[str, str, str]:
        return ("200", "application/json", json.dumps(LIST)) if path.startswith("/v1/tools") else answer

    async with answering(lambda _: answer) as port:
        source = RemoteSource([f"http://127.0.0.1:{port}"], token=TOKEN, max_retries=0)
        await _fails_without_token(source.tools())
        await source.aclose()
    async with answering(of) as port:
        source = RemoteSource([f"http://127.0.0.1:{port}"], token=TOKEN, max_retries=0)
        await _fails_without_token(source.call(ToolCall("pay", {}, "key")))
        await source.aclose()


async def test_neither_its_own_errors_nor_its_problems_are_told_with_it() -> None:
    listing = {**LIST, "problems": [{"message": f"cannot use {TOKEN}"}]}
    failed = {"error": {"message": f"refused {TOKEN}", "kind": "http", "happened": "no"}}

    def of(path: str) -> tuple[str, str, str]:
        listed = path.startswith("/v1/tools")
        return ("200", "application/json", json.dumps(listing if listed else failed))

    async with answering(of) as port:
        source = RemoteSource([f"http://127.0.0.1:{port}"], headers={"X-Api-Key": TOKEN}, max_retries=0)
        await source.tools()
        _holds_no_token(*(each.message for each in source.problems()))
        await _fails_without_token(source.call(ToolCall("pay", {}, "key")))
        await source.aclose()


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INTERNAL])
@pytest.mark.parametrize("before", ["", "x" * 290])
async def test_what_a_service_over_grpc_repeats_is_told_nowhere(code: grpc.StatusCode, before: str) -> None:
    async def refused(request: bytes, context: Any) -> bytes:
        await context.abort(code, f"{before}{dict(context.invocation_metadata())['authorization']}")
        raise AssertionError

    async def listed(request: bytes, context: Any) -> bytes:
        one = pb.Tool(id="pay", effect="once", parameters_json=b'{"type":"object","properties":{}}')
        return bytes(pb.ListToolsResponse(protocol=PROTOCOL, revision="1", tools=[one]).SerializeToString())

    async def execute(request: bytes, context: Any) -> AsyncIterator[bytes]:
        await refused(request, context)
        yield b""

    for lists in (refused, listed):
        server = grpc.aio.server()
        handlers = {
            "ListTools": grpc.unary_unary_rpc_method_handler(lists),
            "ExecuteTool": grpc.unary_stream_rpc_method_handler(execute),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(GRPC_SERVICE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        source = RemoteSource([f"grpc://127.0.0.1:{port}"], token=TOKEN, max_retries=0)
        await _fails_without_token(source.call(ToolCall("pay", {}, "key")))
        await source.aclose()
        await server.stop(0)


async def _until(holds: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come to that")


async def _fails_without_token(doing: Any) -> None:
    with pytest.raises(ReplanError) as caught:
        await doing
    assert isinstance(caught.value, ToolCallError)
    _holds_no_token(str(caught.value))


def _holds_no_token(*texts: str) -> None:
    for text in texts:
        assert TOKEN[:12] not in text, text
        assert base64.b64encode(f"user:{TOKEN}".encode()).decode()[:20] not in text, text
