"""MCP servers as kits: one written by hand over stdio, one by the protocol's library over HTTP, old and new protocol."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tool_kit import Kit

from mcp_http_server import Tools, app_of, serving
from replan.tools.mcp import HttpServer, McpSource, StdioServer

RAW = Path(__file__).parents[1] / "mcp_raw_server.py"


@contextlib.asynccontextmanager
async def stdio() -> AsyncIterator[Kit]:
    kit = Kit()

    async def told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            if line.strip() == b"started":
                kit.started.set()
            elif line.strip() == b"reached":
                kit.reached.set()
        writer.close()

    async with await asyncio.start_server(told, "127.0.0.1", 0) as ear:
        port = ear.sockets[0].getsockname()[1]
        kit.source = McpSource(
            StdioServer(sys.executable, (str(RAW), "--tell", str(port), "--page", "3")), name="raw"
        )
        yield kit
        await kit.source.aclose()


def http(protocol: str, **options: bool) -> Callable[[], contextlib.AbstractAsyncContextManager[Kit]]:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Kit]:
        kit = Kit()
        tools = Tools()
        kit.started, kit.reached = tools.started, tools.reached
        with serving(lambda: app_of(tools, **options)) as server:
            kit.source = McpSource(HttpServer(server.url), name="http", protocol=protocol)
            yield kit
            await kit.source.aclose()

    return opened


KITS = [
    pytest.param(stdio, id="mcp over stdio"),
    pytest.param(http("auto"), id="mcp over http"),
    pytest.param(http("legacy"), id="mcp over http, protocol of 2025"),
]
