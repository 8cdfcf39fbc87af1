"""One connection to a server: a task of its own holds it, and callers wait for their answer or for its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from replan.core.words import in_digits
from replan.errors import ToolCallError
from replan.ports import Progress, ToolCall, ToolProblem
from replan.tools.bounds import traceparent
from replan.tools.mcp.exchange import EXCHANGE, Exchange
from replan.tools.mcp.failures import failure, is_gone
from replan.tools.mcp.process import ServerProcess
from replan.tools.mcp.servers import HttpServer, Server
from replan.tools.mcp.session import client_over, listen, over_http, started
from replan.tools.mcp.stdio import stdio_transport
from replan.tools.mcp.traffic import Traffic, watched

_PAGES = 1000
_LET_GO_SECS = 0.5
"""How long an answer that came right before the end may take to be read."""
_CLOSE_SECS = 10.0

for _name in ("mcp", "client"):  # the library logs what we report as errors; nobody asked for both
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Listing(NamedTuple):
    """The tools as the server lists them, their output schemas, and what was left out."""

    tools: list[types.Tool]
    output_schemas: dict[str, dict[str, Any]]
    problems: list[ToolProblem]


class Connection:
    """Opened once, closed once. `gone` is done when it has ended: what still runs on it has failed then."""

    def __init__(self, server: Server, *, max_bytes: int, protocol: str, changed: Callable[[], None]) -> None:
        self._server = server
        self._max_bytes = max_bytes
        self._protocol = protocol
        self._changed = changed
        self._traffic = Traffic()
        self._running: set[Exchange] = set()
        self._retired = False
        self._closing = asyncio.Event()
        self._client: Client
        self._process: ServerProcess | None = None
        self._left: set[asyncio.Task[Any]] = set()
        self._owner: asyncio.Task[None] | None = None
        self.listing: Listing | None = None
        """The list that was fetched on opening, until it is taken."""
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def usable(self) -> bool:
        """Whether a call may be sent: a process may have ended before the end of its output is seen."""
        if self._retired or self.gone.done():
            return False
        return self._process is None or self._process.speaks

    async def open(self, timeout_secs: float) -> None:
        """Connect, agree on a protocol, and list the tools; `ToolCallError` that says why not."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        exchange = Exchange()
        self._owner = asyncio.create_task(self._own(ready, exchange), name=f"mcp {self._server}")
        try:
            await _first(ready, self._owner, timeout_secs=timeout_secs)
        except asyncio.CancelledError:
            self._owner.cancel()
            raise
        if ready.done():
            return
        if not self._owner.done():
            how = f"; {self._process.obituary()}" if self._process is not None else ""
            self._owner.cancel()
            text = f"{self._server} was not ready within {in_digits(timeout_secs)} seconds{how}"
            raise exchange.failure or ToolCallError(text, kind="unavailable", happened="no")
        raise self._stillborn(exchange)

    async def call(self, name: str, exchange: Exchange, left_secs: float | None) -> types.CallToolResult:
        """Make a call; it ends with the answer, a `ToolCallError`, or the cancellation of who waits."""
        call = exchange.call
        assert call is not None
        if self.gone.done():
            raise ToolCallError(
                f"the connection to {self._server} is closed", kind="unavailable", happened="no"
            )
        self._running.add(exchange)
        task = asyncio.create_task(self._ask(name, call, exchange))
        try:
            await _first(task, exchange.failed, self.gone, timeout_secs=left_secs)
            if not task.done() and (self.gone.done() or exchange.failed.done()):
                await asyncio.wait({task}, timeout=_LET_GO_SECS)
            if self._process is not None and (self.gone.done() or not self._process.speaks):
                await self._process.exit_within(_LET_GO_SECS)  # to say how it ended
            return self._outcome(task, exchange, call)
        finally:
            exchange.end()
            self._running.discard(exchange)
            if self._retired:
                self.retire()
            if not task.done():
                # Its end is not waited for: what is left is to tell the server, which may be slow to listen.
                task.cancel()
                self._left.add(task)
                task.add_done_callback(self._left.discard)
            task.add_done_callback(_noticed)

    async def list_tools(self) -> Listing:
        """Every page of the list."""
        self._traffic.problems, self._traffic.output_schemas = [], {}
        tools: list[types.Tool] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if not cursor:  # some servers end with an empty one, which would begin anew
                break
            if cursor in seen:
                text = f"the list was cut off: its pages form a cycle (cursor {cursor[:40]!r})"
                self._traffic.problems.append(ToolProblem(text))
                break
            seen.add(cursor)
        else:
            self._traffic.problems.append(ToolProblem(f"the list was cut off after {_PAGES} pages"))
        return Listing(tools, self._traffic.output_schemas, self._traffic.problems)

    async def relist(self, timeout_secs: float) -> Listing:
        """`list_tools` in bounded time, or a `ToolCallError`."""
        exchange = Exchange()

        async def listed() -> Listing:
            EXCHANGE.set(exchange)
            return await self.list_tools()

        task = asyncio.create_task(listed())
        try:
            await _first(task, self.gone, timeout_secs=timeout_secs)
            if not task.done() and self.gone.done():
                await asyncio.wait({task}, timeout=_LET_GO_SECS)
            if not task.done():
                how = (
                    "is gone"
                    if self.gone.done()
                    else f"did not list its tools within {in_digits(timeout_secs)} seconds"
                )
                raise ToolCallError(f"{self._server} {how}", kind="unavailable", happened="no")
            if task.cancelled():
                raise ToolCallError(f"the connection to {self._server} broke off", kind="connection_lost")
            if (error := task.exception()) is not None:
                found = exchange.failure or failure(error, "tools/list", str(self._server), self._max_bytes)
                if is_gone(found):
                    self.retire()
                raise found from error
            return task.result()
        finally:
            task.cancel()
            task.add_done_callback(_noticed)

    async def resources(self) -> list[types.Resource]:
        """The first page of what the server has to read; none of one that does not say that it has any."""
        if self._client.server_capabilities.resources is None:
            return []
        task = asyncio.create_task(self._client.list_resources())
        try:
            await _first(task, self.gone, timeout_secs=None)
            return task.result().resources if task.done() else []
        finally:
            task.cancel()
            task.add_done_callback(_noticed)

    def retire(self) -> None:
        """Take no more calls, and end with the last of those that run: one that was cut off says nothing of the others."""
        self._retired = True
        if not self._running:
            self.end()

    def end(self) -> None:
        """Let the connection go; `aclose` waits for it."""
        self._closing.set()
        if not self.gone.done():
            self.gone.set_result(None)

    async def aclose(self) -> None:
        """End it, and wait until the server's processes are gone."""
        self.end()
        if self._left:
            # Cancellations on their way to the server get a moment: what they stop would go on without them.
            await asyncio.wait(self._left, timeout=_LET_GO_SECS)
        if self._owner is not None:
            done, _ = await asyncio.wait({self._owner}, timeout=_CLOSE_SECS)
            if not done:
                self._owner.cancel()
                await asyncio.wait({self._owner}, timeout=_CLOSE_SECS)

    # ── the owner ─────────────────────────────────────────────────────────────

    async def _own(self, ready: asyncio.Future[None], exchange: Exchange) -> None:
        EXCHANGE.set(exchange)
        try:
            async with AsyncExitStack() as stack:
                if isinstance(self._server, HttpServer):
                    transport = await over_http(self._server, self._traffic, self._max_bytes, stack)
                else:
                    self._process = await started(self._server, stack)
                    plain = stdio_transport(self._process, self._traffic, self._max_bytes, self.end)
                    transport = watched(plain, self._traffic)
                client = client_over(transport, self._server, self._protocol, self._running, self._changed)
                self._client = await stack.enter_async_context(client)
                self.listing = await self.list_tools()
                listening = asyncio.create_task(listen(self._client, self._changed))
                stack.push_async_callback(_stopped, listening)
                EXCHANGE.set(None)  # what comes on a stream of its own belongs to no call
                if not ready.done():
                    ready.set_result(None)
                await self._closing.wait()
        except BaseException as error:  # noqa: BLE001 - the library's ends are of every kind; `open` says which it was
            exchange.fail(self._why(error))
        finally:
            self.end()

    def _why(self, error: BaseException) -> ToolCallError:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, ToolCallError):
            return error
        name = str(self._server)
        if isinstance(error, MCPError):
            said = f"{name} does not answer as an MCP server: {error.message} (code {error.code})"
        elif isinstance(error, asyncio.CancelledError):
            said = f"the connection to {name} broke off"
        else:
            found = failure(error, "tools/list", name, self._max_bytes)
            said = (
                str(found)
                if found.kind == "output"
                else f"{name} cannot be used: {error or type(error).__name__}"
            )
        return ToolCallError(said, kind="unavailable", happened="no")

    def _stillborn(self, exchange: Exchange) -> ToolCallError:
        error = exchange.failure
        text = str(error) if error is not None else f"{self._server} ended at once"
        if self._process is not None:
            text = f"{text}; {self._process.obituary()}"
            return ToolCallError(text, kind="unavailable", happened="no")
        return error or ToolCallError(text, kind="unavailable", happened="no")

    # ── a call ────────────────────────────────────────────────────────────────

    async def _ask(self, name: str, call: ToolCall, exchange: Exchange) -> types.CallToolResult:
        EXCHANGE.set(exchange)

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            exchange.begun = True
            if call.report is not None and not exchange.over:
                call.report(Progress(message or "", progress, total))

        meta: Any = {"traceparent": traceparent(call), "idempotencyKey": call.key}
        return await self._client.call_tool(
            name,
            call.parameters,
            progress_callback=progressed if call.report is not None else None,
            meta=meta,
        )

    def _outcome(
        self, task: asyncio.Task[types.CallToolResult], exchange: Exchange, call: ToolCall
    ) -> types.CallToolResult:
        if task.done() and not task.cancelled() and task.exception() is None:
            return task.result()
        if (seen := exchange.failure) is not None:
            found = seen
        elif task.done():
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            assert error is not None
            if isinstance(error, asyncio.CancelledError):
                error = ConnectionError("it was cut off while the answer was awaited")
            found = failure(error, call.tool_id, str(self._server), self._max_bytes)
        elif self.gone.done():
            found = ToolCallError("", kind="connection_lost", happened="unknown")
        else:
            text = f"{call.tool_id!r} gave no answer within {in_digits(call.deadline_secs)} seconds"
            raise ToolCallError(text, kind="timeout", happened="unknown")
        if is_gone(found):
            self.retire()
        if exchange.begun and found.happened != "unknown":
            # Not the word of the tool, which is a result; and no refusal of a call that was taken.
            found = ToolCallError(
                str(found),
                kind=found.kind,
                happened="unknown",
                status=found.status,
                retry_after=found.retry_after,
            )
        if found.kind == "connection_lost" and self._process is not None:
            how = self._process.obituary()
            found = ToolCallError(
                f"{self._server} ended while it was asked: {how}", kind="connection_lost", happened="unknown"
            )
        raise found


async def _first(*futures: asyncio.Future[Any], timeout_secs: float | None) -> None:
    """Until one of them is done, or the time is over; none is cancelled."""
    await asyncio.wait(set(futures), timeout=timeout_secs, return_when=asyncio.FIRST_COMPLETED)


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def _noticed(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
