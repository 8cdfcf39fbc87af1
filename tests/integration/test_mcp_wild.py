"""Whatever a server writes, a call ends in time, with a value that JSON can hold or an error of ours."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from replan.core.failures.faults import classify
from replan.core.limits.breaker import Breaker
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.mcp import McpSource, StdioServer

pytestmark = pytest.mark.anyio
WILD = Path(__file__).parents[1] / "mcp_wild_server.py"


async def _lives(seed: int) -> list[str]:
    """A list and some calls side by side, through one source; what each came to."""
    server = StdioServer(sys.executable, (str(WILD), str(seed)))
    source = McpSource(
        server,
        name="wild",
        start_timeout_secs=1.5,
        max_result_bytes=200_000,
        protocol="legacy",
        breaker=Breaker(threshold=100),
    )
    ends = []
    for number in range(3):
        calls = [source.call(ToolCall("add", {}, f"{number}", deadline_secs=1.0)) for _ in range(2)]
        for found in await asyncio.gather(source.tools(), *calls, return_exceptions=True):
            if isinstance(found, ToolCallError):
                assert classify(found).kind != "internal"
                ends.append(found.kind)
            elif isinstance(found, BaseException):
                raise found
            elif not isinstance(found, list):
                json.dumps(found)
                ends.append("value")
    await source.aclose()
    return ends


@pytest.mark.parametrize("first", range(0, 40, 8))
async def test_a_wild_server_harms_nobody(first: int) -> None:
    async with asyncio.timeout(60):
        lives = await asyncio.gather(*(_lives(seed) for seed in range(first, first + 8)))
    assert any("value" in ends for ends in lives)
