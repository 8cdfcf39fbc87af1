"""The sources that are measured, each beside the same thing called bare, and beside others who do the same."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.tools import servers
from replan.ports import ToolCall, ToolSource

Call = Callable[[int], Awaitable[Any]]
_number = itertools.count()


@dataclass
class Opened:
    """A row that can be measured."""

    source: Callable[[], ToolSource]
    """A new one: what takes it closes it."""
    bare: Call
    """The same, by the protocol's or framework's own means."""
    tool: str = "add"
    parameters: Callable[[int], dict[str, Any]] = lambda i: {"a": i, "b": 1}
    right: Callable[[Any, int], bool] = lambda value, i: value == {"sum": i + 1}
    peers: dict[str, Call] = field(default_factory=dict)
    """Others who do the same, by name."""
    many: dict[str, Callable[[int], Awaitable[Any]]] = field(default_factory=dict)
    """Others who make so many calls in one go of their own."""

    def call(self, i: int) -> ToolCall:
        return ToolCall(
            self.tool, self.parameters(i), f"key-{next(_number)}", "task", "step", deadline_secs=60.0
        )


@dataclass(frozen=True)
class Row:
    label: str
    open: Callable[[Path], AbstractAsyncContextManager[Opened]]
    alone: int
    """How many calls, one after another."""
    burst: int
    """How many in one go, 32 at once."""
    network: bool = False
    needs: tuple[str, ...] = ()


async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


def add_sync(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@contextlib.asynccontextmanager
async def functions_async(folder: Path) -> AsyncIterator[Opened]:
    from replan.tools import FunctionSource

    yield Opened(lambda: FunctionSource([add]), lambda i: add(i, 1))


@contextlib.asynccontextmanager
async def functions_sync(folder: Path) -> AsyncIterator[Opened]:
    from replan.tools import FunctionSource

    async def bare(i: int) -> Any:
        return add_sync(i, 1)

    peers: dict[str, Call] = {"asyncio.to_thread": lambda i: asyncio.to_thread(add_sync, i, 1)}
    yield Opened(lambda: FunctionSource([add_sync]), bare, tool="add_sync", peers=peers)


@contextlib.asynccontextmanager
async def mcp_stdio(folder: Path) -> AsyncIterator[Opened]:
    from mcp import Client, StdioServerParameters

    from replan.tools.mcp import McpSource, StdioServer

    program = [servers.MANY, "1"]
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client(StdioServerParameters(command=sys.executable, args=program))
        )
        await client.list_tools()
        peers = {}
        if importlib.util.find_spec("agents"):
            from agents.mcp import MCPServerStdio

            sdk = MCPServerStdio({"command": sys.executable, "args": program})
            peers = await _agents_client(stack, sdk)
        yield Opened(
            lambda: McpSource(StdioServer(sys.executable, tuple(program)), name="stdio"),
            lambda i: client.call_tool("add_0", {"a": i, "b": 1}),
            tool="add_0",
            peers=peers,
        )


@contextlib.asynccontextmanager
async def mcp_http(folder: Path) -> AsyncIterator[Opened]:
    from mcp import Client

    from replan.tools.mcp import HttpServer, McpSource

    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(servers.serving("mcp")) + "/mcp"
        client = await stack.enter_async_context(Client(url))
        await client.list_tools()
        peers = {}
        if importlib.util.find_spec("agents"):
            from agents.mcp import MCPServerStreamableHttp

            peers = await _agents_client(stack, MCPServerStreamableHttp({"url": url}))
        yield Opened(
            lambda: McpSource(HttpServer(url), name="http"),
            lambda i: client.call_tool("add_0", {"a": i, "b": 1}),
            tool="add_0",
            peers=peers,
        )


async def _agents_client(stack: AsyncExitStack, server: Any) -> dict[str, Call]:
    await stack.enter_async_context(server)
    await server.list_tools()
    return {"OpenAI Agents' MCP client": lambda i: server.call_tool("add_0", {"a": i, "b": 1})}


@contextlib.asynccontextmanager
async def openapi(folder: Path) -> AsyncIterator[Opened]:
    import httpx2

    from replan.tools.openapi import OpenApiSource

    async with servers.serving("openapi") as url, httpx2.AsyncClient() as client:

        async def bare(i: int) -> Any:
            answer = await client.post(f"{url}/add", json={"a": i, "b": 1})
            answer.raise_for_status()
            return answer.json()

        yield Opened(lambda: OpenApiSource(servers.DOCUMENT, server=url), bare)


@contextlib.asynccontextmanager
async def remote_http(folder: Path) -> AsyncIterator[Opened]:
    import httpx2

    from replan.tools.remote import RemoteSource

    async with (
        servers.tool_service(folder, "http") as url,
        servers.serving("openapi") as plain,
        httpx2.AsyncClient() as client,
        _reading(url) as reading,
    ):

        async def bare(i: int) -> Any:
            order = {"tool": "add", "parameters": {"a": i, "b": 1}, "key": f"bare-{next(_number)}"}
            answer = await client.post(f"{url}/v1/execute", json=order)
            answer.raise_for_status()
            return json.loads(answer.content.splitlines()[-1])["output"]

        peers = {
            "a reading tool of the source": reading,
            "no tool service: Starlette, httpx2": lambda i: client.post(
                f"{plain}/add", json={"a": i, "b": 1}
            ),
        }
        yield Opened(lambda: RemoteSource([url]), bare, peers=peers)


@contextlib.asynccontextmanager
async def _reading(url: str) -> AsyncIterator[Call]:
    """Calls of a tool that only reads: its server keeps nothing of them."""
    from replan.tools.remote import RemoteSource

    source = RemoteSource([url], name="reading")
    try:
        yield lambda i: source.call(ToolCall("look", {"a": i, "b": 1}, f"key-{next(_number)}"))
    finally:
        await source.aclose()


@contextlib.asynccontextmanager
async def remote_grpc(folder: Path) -> AsyncIterator[Opened]:
    import grpc

    from replan.tools.remote import RemoteSource
    from replan.tools.remote.grpc_forms import EXECUTE, pb

    async with (
        servers.tool_service(folder, "grpc") as url,
        servers.serving("grpc") as plain,
        grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel,
        grpc.aio.insecure_channel(plain) as plain_channel,
        _reading(url) as reading,
    ):
        make = channel.unary_stream(
            EXECUTE,
            request_serializer=pb.ExecuteToolRequest.SerializeToString,
            response_deserializer=pb.ExecuteToolEvent.FromString,
        )

        async def bare(i: int) -> Any:
            parameters = json.dumps({"a": i, "b": 1}).encode()
            key = f"bare-{next(_number)}"
            order = pb.ExecuteToolRequest(tool="add", parameters_json=parameters, key=key, attempt=1)
            output = None
            async for event in make(order, timeout=60.0):
                output = json.loads(event.output_json)
            return output

        ask = plain_channel.unary_unary("/bench.Echo/Add")
        peers: dict[str, Call] = {
            "a reading tool of the source": reading,
            "no tool service: grpc.aio": lambda i: ask(json.dumps({"a": i, "b": 1}).encode()),
        }
        yield Opened(lambda: RemoteSource([url]), bare, peers=peers)


@contextlib.asynccontextmanager
async def kit_shell(folder: Path) -> AsyncIterator[Opened]:
    from replan.tools.kit.shell_tools import shell

    async def bare(i: int) -> Any:
        process = await asyncio.create_subprocess_exec(
            "echo", str(i), stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
        return (await process.communicate())[0]

    yield Opened(
        lambda: shell(allow=["echo"]),
        bare,
        tool="run_command",
        parameters=lambda i: {"program": "echo", "arguments": [str(i)]},
        right=lambda value, i: bool(value["stdout"] == f"{i}\n"),
    )


@contextlib.asynccontextmanager
async def kit_python(folder: Path) -> AsyncIterator[Opened]:
    from replan.tools.kit.python_tools import python

    async def bare(i: int) -> Any:
        command = (sys.executable, "-I", "-B", "-c", f"print({i} + 1)")
        process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
        return (await process.communicate())[0]

    yield Opened(
        python,
        bare,
        tool="run_python",
        parameters=lambda i: {"code": "input + 1", "input": i},
        right=lambda value, i: bool(value["result"] == i + 1),
    )


@contextlib.asynccontextmanager
async def langchain(folder: Path) -> AsyncIterator[Opened]:
    from langchain_core.messages import AIMessage
    from langchain_core.tools import StructuredTool

    from replan.tools.frameworks import LangChainSource

    tool = StructuredTool.from_function(coroutine=add)
    opened = Opened(lambda: LangChainSource(tool), lambda i: tool.ainvoke({"a": i, "b": 1}))
    if importlib.util.find_spec("langgraph"):
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import END, START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode

        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode([tool]))
        graph.add_edge(START, "tools")
        graph.add_edge("tools", END)

        def asked(numbers: range) -> dict[str, Any]:
            calls = [
                {"name": "add", "args": {"a": i, "b": 1}, "id": f"c{i}", "type": "tool_call"} for i in numbers
            ]
            return {"messages": [AIMessage(content="", tool_calls=calls)]}

        plain, saved = graph.compile(), graph.compile(checkpointer=InMemorySaver())

        async def together(count: int) -> None:
            done = await plain.ainvoke(asked(range(count)), {"max_concurrency": 32})
            assert len(done["messages"]) == count + 1

        async def together_saved(count: int) -> None:
            config: Any = {"max_concurrency": 32, "configurable": {"thread_id": str(next(_number))}}
            done = await saved.ainvoke(asked(range(count)), config)
            assert len(done["messages"]) == count + 1

        opened.peers = {"LangGraph, graph of a ToolNode": lambda i: plain.ainvoke(asked(range(i, i + 1)))}
        opened.many = {
            "LangGraph's ToolNode, nothing saved": together,
            "LangGraph's ToolNode, saved in memory": together_saved,
        }
    yield opened


@contextlib.asynccontextmanager
async def pydantic_ai(folder: Path) -> AsyncIterator[Opened]:
    from pydantic_ai import RunContext, Tool
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    from replan.tools.frameworks import PydanticAiSource

    tool: Tool[None] = Tool(add, takes_ctx=False)
    toolset: FunctionToolset[None] = FunctionToolset([tool])
    context: RunContext[None] = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    listed = (await toolset.get_tools(context))["add"]

    async def bare(i: int) -> Any:
        arguments = listed.args_validator.validate_python({"a": i, "b": 1})
        return await toolset.call_tool("add", arguments, context, listed)

    yield Opened(lambda: PydanticAiSource(tool), bare)


@contextlib.asynccontextmanager
async def openai_agents(folder: Path) -> AsyncIterator[Opened]:
    from agents import function_tool
    from agents.tool_context import ToolContext

    from replan.tools.frameworks import OpenAiAgentsSource

    tool = function_tool(add)

    async def bare(i: int) -> Any:
        arguments = json.dumps({"a": i, "b": 1})
        context: Any = ToolContext(
            None, tool_name="add", tool_call_id=str(next(_number)), tool_arguments=arguments
        )
        return await tool.on_invoke_tool(context, arguments)

    yield Opened(lambda: OpenAiAgentsSource(tool), bare)


ROWS = {
    "async": Row("Python function, async", functions_async, 3000, 3200),
    "sync": Row("Python function, sync (in a thread)", functions_sync, 3000, 3200),
    "mcp-stdio": Row("MCP over stdio", mcp_stdio, 400, 640, True, ("mcp",)),
    "mcp-http": Row("MCP over streamable HTTP", mcp_http, 200, 320, True, ("mcp", "uvicorn")),
    "openapi": Row("OpenAPI over HTTP", openapi, 400, 640, True, ("httpx2", "uvicorn", "yaml")),
    "remote-http": Row("tool service over HTTP", remote_http, 400, 640, True, ("httpx2", "uvicorn")),
    "remote-grpc": Row("tool service over gRPC", remote_grpc, 400, 640, True, ("grpc",)),
    "shell": Row("kit: shell", kit_shell, 60, 96),
    "python": Row("kit: Python in a process", kit_python, 25, 64),
    "langchain": Row("LangChain, async", langchain, 1000, 960, needs=("langchain_core",)),
    "pydantic-ai": Row("Pydantic AI, async", pydantic_ai, 1000, 960, needs=("pydantic_ai",)),
    "openai-agents": Row("OpenAI Agents, async", openai_agents, 1000, 960, needs=("agents",)),
}
