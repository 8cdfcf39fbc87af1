"""A hundred MCP tools over five servers: started and listed side by side, and one after another; and what a call costs.

    python -m bench.tools.mcp_start

The servers are processes of the protocol's own library. A call is measured against the library's own client, bare, on
the same server: over stdio, and over HTTP on a server in this process.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from replan.ports import ToolCall
from replan.tools import Catalog
from replan.tools.mcp import HttpServer, McpSource, StdioServer

SERVERS, TOOLS, CALLS, SIDE_BY_SIDE = 5, 20, 300, 50
MANY = str(Path(__file__).parent / "mcp_many.py")
CALL = ToolCall("add_0", {"a": 1, "b": 2}, "key")


def _server() -> StdioServer:
    return StdioServer(sys.executable, (MANY, str(TOOLS)))


def _sources() -> list[McpSource]:
    return [McpSource(_server(), name=f"many{number}") for number in range(SERVERS)]


async def _together() -> float:
    catalog = Catalog(_sources())
    begun = time.perf_counter()
    await catalog.open()
    took = time.perf_counter() - begun
    assert len(catalog.specs()) == SERVERS * TOOLS, catalog.problems
    await catalog.aclose()
    return took


async def _one_by_one() -> float:
    sources = _sources()
    begun = time.perf_counter()
    for source in sources:
        assert len(await source.tools()) == TOOLS
    took = time.perf_counter() - begun
    await asyncio.gather(*(source.aclose() for source in sources))
    return took


async def _timed(call: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """The median of a call alone in ms, and calls per second when many run side by side."""
    for _ in range(20):
        await call()
    each = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        await call()
        each.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    for _ in range(CALLS // SIDE_BY_SIDE):
        await asyncio.gather(*(call() for _ in range(SIDE_BY_SIDE)))
    return statistics.median(each) * 1000, CALLS / (time.perf_counter() - begun)


async def _calls(label: str, bare: Any, source: McpSource) -> list[dict[str, Any]]:
    from mcp import Client

    async with Client(bare) as client:
        await client.list_tools()
        alone, rate = await _timed(lambda: client.call_tool("add_0", {"a": 1, "b": 2}))
    await source.tools()
    ours, our_rate = await _timed(lambda: source.call(CALL))
    await source.aclose()
    return [
        {"what": f"a call over {label}, the library's client", "ms": alone, "per_sec": rate},
        {
            "what": f"a call over {label}, as a source",
            "ms": ours,
            "per_sec": our_rate,
            "added_ms": ours - alone,
        },
    ]


async def _http_calls() -> list[dict[str, Any]]:
    import uvicorn

    from bench.tools.mcp_many import server_of

    # With its protocol named: asyncio turns off the waiting for acknowledgements only then.
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        app = server_of(TOOLS).streamable_http_app()
        serving = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        listening.listen()  # who connects before the server serves waits for it
        task = asyncio.create_task(serving.serve(sockets=[listening]))
        rows = await _calls("HTTP", url, McpSource(HttpServer(url), name="http"))
        serving.should_exit = True
        await task
    return rows


async def measure() -> list[dict[str, Any]]:
    from mcp import StdioServerParameters

    await _together()  # the files are read once before anything is measured
    rows: list[dict[str, Any]] = [
        {
            "what": f"{SERVERS * TOOLS} tools over {SERVERS} servers, side by side",
            "ms": await _together() * 1000,
        },
        {
            "what": f"{SERVERS * TOOLS} tools over {SERVERS} servers, one by one",
            "ms": await _one_by_one() * 1000,
        },
    ]
    bare = StdioServerParameters(command=sys.executable, args=[MANY, str(TOOLS)])
    rows += await _calls("stdio", bare, McpSource(_server(), name="stdio"))
    return rows + await _http_calls()


def main() -> list[dict[str, Any]]:
    """Print the table, and give its rows: `what`, `ms`, and for calls `per_sec` and `added_ms`."""
    rows = asyncio.run(measure())
    print(f"{'':58}{'ms':>9}{'calls/s':>9}{'added ms':>10}")
    for row in rows:
        rate = f"{row['per_sec']:.0f}" if "per_sec" in row else ""
        added = f"{row['added_ms']:.2f}" if "added_ms" in row else ""
        print(f"{row['what']:58}{row['ms']:9.2f}{rate:>9}{added:>10}")
    return rows


if __name__ == "__main__":
    main()
