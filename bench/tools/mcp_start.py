"""A hundred MCP tools over five servers, processes of their own: started and listed side by side and one by one."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import Any

from bench.tools.servers import MANY
from replan.tools import Catalog
from replan.tools.mcp import McpSource, StdioServer

SERVERS, TOOLS, ROUNDS = 5, 20, 5


def _sources() -> list[McpSource]:
    server = StdioServer(sys.executable, (MANY, str(TOOLS)))
    return [McpSource(server, name=f"many{number}") for number in range(SERVERS)]


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


async def _bare() -> float:
    """The library's own client, one server after another."""
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=sys.executable, args=[MANY, str(TOOLS)])
    took = 0.0
    for _ in range(SERVERS):
        begun = time.perf_counter()
        async with Client(server) as client:
            assert len((await client.list_tools()).tools) == TOOLS
            took += time.perf_counter() - begun
    return took


async def rows() -> list[dict[str, Any]]:
    ways = {"side by side": _together, "one by one": _one_by_one, "one by one, the library's client": _bare}
    found: dict[str, list[float]] = {name: [] for name in ways}
    await _together()  # the files are read once before anything is measured
    for _ in range(ROUNDS):
        for name, way in ways.items():
            found[name].append(await way())
    beside = found["side by side"]
    return [
        {
            "what": f"{SERVERS * TOOLS} tools over {SERVERS} servers, {name}",
            "secs": statistics.median(each),
            "to_side_by_side": statistics.median(a / b for a, b in zip(each, beside, strict=True)),
        }
        for name, each in found.items()
    ]


def main() -> list[dict[str, Any]]:
    found = asyncio.run(rows())
    print(f"\n{'started and listed over stdio':64}{'s':>7}{'ratio':>7}")
    for row in found:
        print(f"{row['what']:64}{row['secs']:7.2f}{row['to_side_by_side']:7.2f}")
    return found
