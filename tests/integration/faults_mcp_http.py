"""The faults of an MCP server over streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import mcp_types as types
from fault_table import Broken

from mcp_http_server import Between, Tools, app_of, serving
from replan.ports import ToolCall
from replan.tools.mcp import HttpServer, McpSource

SOURCE = "mcp over http"
WORKS = ToolCall("add", {"a": 1, "b": 2}, "works")
SUM = {"a": 1, "b": 2}


class Lab:
    """A server, what stands before it, and the source that uses it."""

    def __init__(self, **options: Any) -> None:
        self.tools = Tools()
        self.between = Between(None)
        self.options = options

    def app(self) -> Between:
        self.between.app = app_of(self.tools)
        return self.between

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[McpSource]:
        with serving(self.app) as self.server:
            yield McpSource(HttpServer(self.server.url), name="http", **self.options)

    async def stop(self) -> None:
        await asyncio.to_thread(self.server.stop)

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)

    async def mend(self) -> None:
        self.between.faults.clear()


def _answers(
    status: int, headers: dict[str, str], body: bytes, *kinds: str, happened: str, **options: Any
) -> Any:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        lab = Lab(**options)
        lab.between.faults["tools/call"] = (status, headers, body)
        async with lab.open() as source:
            yield Broken(source, "add", SUM, frozenset(kinds), happened, mend=lab.mend, works=WORKS)

    return made


@contextlib.asynccontextmanager
async def _killed_before() -> AsyncIterator[Broken]:
    lab = Lab()
    async with lab.open() as source:
        kinds = frozenset({"refused", "unavailable"})
        yield Broken(source, "add", SUM, kinds, "no", prepare=lab.stop, mend=lab.start, works=WORKS)


@contextlib.asynccontextmanager
async def _killed_in() -> AsyncIterator[Broken]:
    lab = Lab()

    def kill() -> None:
        if lab.tools.started.wait(10):
            lab.server.stop()

    async with lab.open() as source:
        killer = threading.Thread(target=kill)
        killer.start()

        async def again() -> None:
            await asyncio.to_thread(killer.join)
            await lab.start()

        yield Broken(source, "wait", {}, frozenset({"connection_lost"}), "unknown", mend=again, works=WORKS)
        killer.join()


@contextlib.asynccontextmanager
async def _killed_after() -> AsyncIterator[Broken]:
    lab = Lab()
    gone = threading.Event()

    def kill() -> None:
        lab.between.after = None

        def stop() -> None:
            lab.server.stop()
            gone.set()

        threading.Thread(target=stop).start()

    async def again() -> None:
        await asyncio.to_thread(gone.wait, 10)
        await lab.start()

    lab.between.after = kill
    async with lab.open() as source:
        yield Broken(source, "add", SUM, mend=again, works=WORKS)


@contextlib.asynccontextmanager
async def _hang() -> AsyncIterator[Broken]:
    lab = Lab()
    async with lab.open() as source:
        yield Broken(source, "wait", {}, frozenset({"timeout"}), "unknown", mend=lab.mend, works=WORKS)


@contextlib.asynccontextmanager
async def _slow_list() -> AsyncIterator[Broken]:
    lab = Lab(start_timeout_secs=1.0)

    async def never(ctx: Any, params: Any) -> types.ListToolsResult:
        await asyncio.Event().wait()
        raise AssertionError

    lab.tools.list = never  # type: ignore[method-assign]
    async with lab.open() as source:
        yield Broken(source, "add", lists=False)


@contextlib.asynccontextmanager
async def _changed_schema() -> AsyncIterator[Broken]:
    from mcp import MCPError

    lab = Lab()

    async def call(ctx: Any, params: types.CallToolRequestParams) -> Any:
        raise MCPError(code=types.INVALID_PARAMS, message="c is required")

    async with lab.open() as source:

        async def change() -> None:
            lab.tools.call = call  # type: ignore[method-assign]
            await lab.stop()
            await lab.start()
            await source.tools()

        yield Broken(source, "add", SUM, frozenset({"parameter"}), "no", prepare=change)


@contextlib.asynccontextmanager
async def _refused() -> AsyncIterator[Broken]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nobody else gets the port
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        yield Broken(McpSource(HttpServer(url), name="nowhere"), "add", lists=False)


JSON = {"content-type": "application/json"}
HUGE = b'{"jsonrpc": "2.0", "id": 1, "result": "' + b"x" * 3_000_000 + b'"}'
FAULTS = {
    "killed before": _killed_before,
    "killed in": _killed_in,
    "killed after": _killed_after,
    "hang": _hang,
    "slow list": _slow_list,
    "huge result": _answers(200, JSON, HUGE, "output", happened="unknown", max_result_bytes=1_000_000),
    "invalid JSON": _answers(200, JSON, b'{"jsonrpc": "2.0", "id"', "output", happened="unknown"),
    "changed schema": _changed_schema,
    "unauthorized": _answers(401, JSON, b'{"error": "invalid_token"}', "http", happened="no"),
    "refused": _refused,
}
