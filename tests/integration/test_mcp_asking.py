"""A server whose tools ask a person as the SDK's high-level servers do: it works, or the error names the remedy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from replan.core.failures.faults import classify
from replan.errors import ToolCallError
from replan.ports import Question, ToolCall
from replan.tools.mcp import McpSource, StdioServer, from_table

pytestmark = pytest.mark.anyio

SERVER = """
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("asks")


class Answer(BaseModel):
    color: str


@server.tool()
async def paint(ctx: Context) -> str:
    answer = await ctx.elicit("Which color?", Answer)
    return answer.data.color


server.run()
"""


@pytest.fixture
def server(tmp_path: Path) -> StdioServer:
    (tmp_path / "asks.py").write_text(SERVER)
    return StdioServer(sys.executable, (str(tmp_path / "asks.py"),))


async def ask(question: Question) -> Any:
    return {"color": "red"}


async def test_a_question_that_cannot_be_put_is_told_with_the_remedy(server: StdioServer) -> None:
    source = McpSource(server)
    try:
        found = await source.call(ToolCall("paint", {}, "key", ask=ask))
    except ToolCallError as error:
        found = error
    await source.aclose()
    if isinstance(found, ToolCallError):  # a server that can ask in the newest protocol needs no remedy
        assert 'protocol="legacy"' in str(found)
        assert not classify(found).transient


async def test_the_remedy_cures(server: StdioServer) -> None:
    entry = {"command": server.command, "args": list(server.args), "protocol": "legacy"}
    for source in (McpSource(server, protocol="legacy"), *from_table({"asks": entry})):
        assert await source.call(ToolCall("paint", {}, "key", ask=ask)) == "red"
        await source.aclose()
