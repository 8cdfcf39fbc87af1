"""The faults of an MCP server over stdio: a process of its own, started by the source."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fault_table import Broken

from replan.ports import ToolCall
from replan.tools.mcp import McpSource, StdioServer

SOURCE = "mcp over stdio"
RAW = Path(__file__).parents[1] / "mcp_raw_server.py"
WORKS = ToolCall("add", {"a": 1, "b": 2}, "works")


async def _nothing() -> None:
    return None


def raw(fault: str = "", **options: Any) -> McpSource:
    server = StdioServer(sys.executable, (str(RAW), "--fault", fault))
    return McpSource(server, name="raw", **options)


def _row(
    tool: str,
    *kinds: str,
    happened: str | None = None,
    parameters: dict[str, Any] | None = None,
    fault: str = "",
    lists: bool = True,
    mended: bool = True,
    **options: Any,
) -> Any:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        source = raw(fault, **options)
        yield Broken(
            source,
            tool,
            parameters or {},
            frozenset(kinds),
            happened,
            lists=lists,
            mend=_nothing if mended else None,
            works=WORKS if mended else None,
        )

    return made


@contextlib.asynccontextmanager
async def _killed_before() -> AsyncIterator[Broken]:
    """The next call starts it again: nothing was lost with it."""
    source = raw()

    async def kill() -> None:
        held = await source.call(ToolCall("pid", {}, "pid"))
        os.kill(held["pid"], signal.SIGKILL)

    yield Broken(source, "add", {"a": 1, "b": 2}, prepare=kill)


@contextlib.asynccontextmanager
async def _killed_after() -> AsyncIterator[Broken]:
    """It ends when it has answered. A list is asked for again where the end crosses the request; a call never is."""
    source = raw()

    async def listed() -> None:
        await source.tools()

    yield Broken(source, "exit_after", mend=listed, works=WORKS)


@contextlib.asynccontextmanager
async def _no_such_program() -> AsyncIterator[Broken]:
    yield Broken(McpSource(StdioServer("no-such-program-anywhere"), name="nowhere"), "add", lists=False)


FAULTS = {
    "killed before": _killed_before,
    "killed in": _row("die", "connection_lost", happened="unknown"),
    "killed after": _killed_after,
    "hang": _row("wait", "timeout", happened="unknown"),
    "slow list": _row("add", fault="slow list", lists=False, mended=False, start_timeout_secs=1.0),
    "huge result": _row(
        "huge", "output", happened="unknown", parameters={"size": 3_000_000}, max_result_bytes=1_000_000
    ),
    "invalid JSON": _row("broken", "output", happened="unknown"),
    "changed schema": _row(
        "add", "parameter", happened="no", parameters={"a": 1, "b": 2}, fault="changed schema", mended=False
    ),
    "unauthorized": "a process that this one has started itself asks nobody for a login",
    "refused": _no_such_program,
}
