"""Tool servers that break the protocol, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from replan.tools.remote.grpc_forms import pb
from replan.tools.remote.messages import GRPC_SERVICE, PROTOCOL

LIST = json.dumps(
    {
        "protocol": PROTOCOL,
        "revision": "1",
        "tools": [{"id": "garbage", "effect": "once", "parameters": {"type": "object", "properties": {}}}],
    }
).encode()


@contextlib.asynccontextmanager
async def wrong_http(listing: bytes = LIST, *answers: bytes) -> AsyncIterator[str]:
    """Lists a tool `garbage` (or says what is given), and answers its calls with these bytes in turn, then with what is no JSON."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            body = listing if head.startswith(b"GET") else b"<html>not what you think</html>"
            length = next(
                (
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                ),
                0,
            )
            await reader.readexactly(length)
            if left and not head.startswith(b"GET"):
                writer.write(left.pop(0))
                await writer.drain()
                writer.close()
                return
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
                + f"content-length: {len(body)}\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


def lists(tools: list[Any]) -> contextlib.AbstractAsyncContextManager[str]:
    """A server that says these are its tools."""
    return wrong_http(json.dumps({"protocol": PROTOCOL, "revision": "1", "tools": tools}).encode())


@contextlib.asynccontextmanager
async def wrong_grpc(answer: bytes | None = None) -> AsyncIterator[str]:
    """Lists a tool `garbage`, and answers its call with these bytes; without any with an output that is no JSON."""

    async def listed(request: bytes, context: object) -> bytes:
        tool = pb.Tool(id="garbage", effect="once", parameters_json=b'{"type":"object","properties":{}}')
        answer = pb.ListToolsResponse(protocol=PROTOCOL, revision="1", tools=[tool])
        return bytes(answer.SerializeToString())

    async def execute(request: bytes, context: object) -> AsyncIterator[bytes]:
        wrong = pb.ExecuteToolEvent(output_json=b"{not JSON").SerializeToString()
        yield wrong if answer is None else answer

    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                GRPC_SERVICE,
                {
                    "ListTools": grpc.unary_unary_rpc_method_handler(listed),
                    "ExecuteTool": grpc.unary_stream_rpc_method_handler(execute),
                },
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        await server.stop(0)
