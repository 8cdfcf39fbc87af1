"""An MCP server with many tools, for measuring: python mcp_many.py TOOLS. By the protocol's own library, over stdio."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


def server_of(count: int) -> Server[Any]:
    tools = [
        types.Tool(
            name=f"add_{number}",
            description=f"Add two numbers, in the way number {number}.",
            input_schema=NUMBERS,
            output_schema=SUM,
            annotations=types.ToolAnnotations(read_only_hint=True),
        )
        for number in range(count)
    ]

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        return types.CallToolResult(content=[], structured_content={"sum": given["a"] + given["b"]})

    return Server("many", version="1", on_list_tools=listed, on_call_tool=called)


async def main(count: int) -> None:
    server = server_of(count)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
