"""Servers that the measures call, each a process of its own on the loopback: python -m bench.tools.servers mcp|openapi|grpc.

It prints where it listens, as one line, and serves until its stdin is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MANY = str(HERE / "mcp_many.py")

_NUMBER = {"type": "integer"}
_SUM = {"type": "object", "properties": {"sum": _NUMBER}, "required": ["sum"]}
_NUMBERS = {"type": "object", "properties": {"a": _NUMBER, "b": _NUMBER}, "required": ["a", "b"]}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "bench", "version": "1"},
    "paths": {
        "/add": {
            "post": {
                "operationId": "add",
                "requestBody": {"required": True, "content": {"application/json": {"schema": _NUMBERS}}},
                "responses": {
                    "200": {"description": "the sum", "content": {"application/json": {"schema": _SUM}}}
                },
            }
        }
    },
}


def _app(what: str) -> Any:
    if what == "mcp":
        sys.path.insert(0, str(HERE))
        from mcp_many import server_of

        return server_of(1).streamable_http_app()
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def add(request: Request) -> JSONResponse:
        given = await request.json()
        return JSONResponse({"sum": given["a"] + given["b"]})

    return Starlette(routes=[Route("/add", add, methods=["POST"])])


async def _serve_grpc() -> None:
    """`/bench.Echo/Add`, JSON there and back."""
    import grpc.aio

    async def add(request: bytes, context: Any) -> bytes:
        given = json.loads(request)
        return json.dumps({"sum": given["a"] + given["b"]}).encode()

    server = grpc.aio.server()
    handlers = {"Add": grpc.unary_unary_rpc_method_handler(add)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"urls": [f"127.0.0.1:{port}"]}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


async def _serve(what: str) -> None:
    import uvicorn

    # asyncio turns Nagle's algorithm off for what is named as TCP only.
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(_app(what), log_config=None, timeout_graceful_shutdown=1))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        listening.listen()  # who connects before the server serves waits for it
        print(json.dumps({"urls": [f"http://127.0.0.1:{listening.getsockname()[1]}"]}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await task


@contextlib.asynccontextmanager
async def _process(command: Sequence[str]) -> AsyncIterator[list[str]]:
    """The addresses at which a process listens, while it runs."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", *command, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        line = await process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(command)} ended with {await process.wait()}")
        yield json.loads(line)["urls"]
    finally:
        process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def serving(what: str) -> AsyncIterator[str]:
    """The address of an `mcp`, `openapi` or `grpc` server."""
    async with _process(["bench.tools.servers", what]) as urls:
        yield urls[0]


@contextlib.asynccontextmanager
async def tool_service(folder: Path, protocol: str) -> AsyncIterator[str]:
    """The address of a tool service, as `replan tools serve` starts it, that remembers keys in a file."""
    ports = {"http": ["--port", "0"], "grpc": ["--port", "-1", "--grpc-port", "0"]}[protocol]
    keys = ["--keys", os.fspath(folder / "keys.db"), "--json"]
    served = str(HERE / "served.py")
    async with _process(["replan.cli", "tools", "serve", served, *ports, *keys]) as urls:
        yield urls[0]


if __name__ == "__main__":
    asyncio.run(_serve_grpc() if sys.argv[1] == "grpc" else _serve(sys.argv[1]))
