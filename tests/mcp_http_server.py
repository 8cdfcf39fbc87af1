"""An MCP server over streamable HTTP by the protocol's own library, on a real socket in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import Server

from mcp_raw_server import ANY, SUM, TEXT, WRAPPED, no_more

NUMBER = {"type": "integer"}
READS = types.ToolAnnotations(read_only_hint=True)


def result(value: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=json.dumps(value))], structured_content=value)


class Tools:
    """The tools of the contract kit; `started` and `reached` are told by `wait`."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.reached = threading.Event()
        self.headers: dict[str, str] = {}
        self._met = 0
        self._all = asyncio.Event()

    async def list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        tool = types.Tool
        return types.ListToolsResult(
            tools=[
                tool(name="echo", input_schema=ANY, output_schema=WRAPPED, annotations=READS),
                tool(
                    name="add", input_schema=no_more(a=NUMBER, b=NUMBER), output_schema=SUM, annotations=READS
                ),
                tool(name="fail", input_schema=no_more(text=TEXT)),
                tool(name="wait", input_schema=no_more()),
                tool(name="progress", input_schema=no_more()),
                tool(name="meet", input_schema=no_more(n=NUMBER), output_schema=WRAPPED),
                tool(name="headers", input_schema=no_more(), annotations=READS),
                tool(name="ask", input_schema=no_more()),
            ]
        )

    async def call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        return await getattr(self, f"do_{params.name}")(ctx, **(params.arguments or {}))

    async def do_echo(self, ctx: Any, value: Any) -> types.CallToolResult:
        return result({"result": value})

    async def do_add(self, ctx: Any, a: int, b: int) -> types.CallToolResult:
        return result({"sum": a + b})

    async def do_fail(self, ctx: Any, text: str) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)

    async def do_wait(self, ctx: Any) -> types.CallToolResult:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.reached.set()
        raise AssertionError

    async def do_progress(self, ctx: Any) -> types.CallToolResult:
        await ctx.session.report_progress(1, 2, "half")
        await ctx.session.report_progress(2, 2, "done")
        return result({"ok": True})

    async def do_meet(self, ctx: Any, n: int) -> types.CallToolResult:
        self._met += 1
        self.started.set()
        if self._met >= n:
            self._all.set()
        async with asyncio.timeout(10):
            await self._all.wait()
        return result({"result": True})

    async def do_headers(self, ctx: Any) -> types.CallToolResult:
        return result(dict(ctx.request.headers))

    async def do_ask(self, ctx: Any) -> Any:
        schema = {"type": "object", "properties": {"color": TEXT}, "required": ["color"]}
        if ctx.protocol_version >= "2026":
            given = (ctx.params or {}).get("inputResponses")
            if given is None:
                params = types.ElicitRequestFormParams(message="Which color?", requested_schema=schema)
                return types.InputRequiredResult(input_requests={"q": types.ElicitRequest(params=params)})
            return result(given["q"])
        answer = await ctx.session.elicit_form("Which color?", schema, related_request_id=ctx.request_id)
        return result(answer.model_dump(mode="json", exclude_none=True))


def app_of(tools: Tools, **options: Any) -> Any:
    """The server as a Starlette application."""
    server: Server[Any] = Server("http", version="1", on_list_tools=tools.list, on_call_tool=tools.call)
    return server.streamable_http_app(**options)


class Serving:
    """An ASGI application on a port of the loopback: started, killed hard, and started again on the same port."""

    def __init__(self, make: Callable[[], Any], port: int = 0) -> None:
        self._make = make
        self.port = port
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        app = self._make()
        listening = socket.socket(proto=socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        ready = threading.Event()
        serving = self

        class Told(uvicorn.Server):
            async def startup(self, sockets: Any = None) -> None:
                await super().startup(sockets=sockets)
                serving._loop = asyncio.get_running_loop()
                ready.set()

        config = uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=0)
        self._server = Told(config)
        self._thread = threading.Thread(target=self._run, args=(listening,), daemon=True)
        self._thread.start()
        assert ready.wait(10)

    def _run(self, listening: socket.socket) -> None:
        assert self._server is not None
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._server.serve(sockets=[listening]))

    def stop(self) -> None:
        """Cut every connection, as a killed process would."""
        if self._server is None or self._thread is None:
            return
        server, cut = self._server, threading.Event()

        def abort() -> None:
            for connection in list(server.server_state.connections):
                connection.transport.abort()
            server.force_exit = server.should_exit = True
            cut.set()

        self._loop.call_soon_threadsafe(abort)
        assert cut.wait(10)
        self._thread.join(10)
        self._server = None


@contextlib.contextmanager
def serving(make: Callable[[], Any]) -> Iterator[Serving]:
    server = Serving(make)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Between:
    """Stands before an application and answers in its place, by the JSON-RPC method that is asked for.

    `faults`: method to a status and headers and body; `silent`: methods that are never answered; `after`: called when an answer to tools/call has gone out.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self.faults: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.silent: set[str] = set()
        self.after: Callable[[], None] | None = None
        self.seen: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        try:
            method = json.loads(body).get("method", "")
        except ValueError:
            method = ""
        self.seen.append(method)
        if method in self.silent:
            await receive()  # until the client goes
            return
        if method in self.faults:
            status, headers, content = self.faults[method]
            pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": status, "headers": pairs})
            await send({"type": "http.response.body", "body": content})
            return
        replayed = False

        async def again() -> Any:
            nonlocal replayed
            if replayed:
                return await receive()
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, again, send)
        if method == "tools/call" and self.after is not None:
            self.after()
