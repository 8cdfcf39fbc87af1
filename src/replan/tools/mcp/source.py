"""The tools of one MCP server: connected when needed, connected anew when lost, never called twice for one call."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from replan.beside import beside
from replan.core.limits.breaker import Breaker, Try
from replan.core.types import JsonObject, ToolSpec
from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall, ToolProblem
from replan.tools.bounds import MAX_RESULT_BYTES, check_parameters, unknown_tool
from replan.tools.large_bytes import with_files
from replan.tools.mcp.listing import Listed, Override, listed, resources_told
from replan.tools.mcp.servers import HttpServer, Server, checked, default_name
from replan.tools.names import nearest

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from replan.tools.mcp.connection import Connection, Listing

_LOGIN_SECS = 330.0
_NOT_INSTALLED = "tools of MCP servers need: pip install 'replan[mcp]'"
_BACKOFF = (0.0, 0.1, 0.3, 1.0, 2.0)
"""Seconds before a try to connect, after so many failures in a row."""


class McpSource:
    """A `ToolSource` over an MCP server; also `Watched` and `Reporting`.

    `target`: a `StdioServer`, an `HttpServer`, or an http(s) address. Nothing is started before the tools are listed.

    `trust_annotations`: take effects from the server's hints; else each tool counts as `once`. `tools`: what is known
    better of one, by its name: an effect ("reads"), or a mapping with some of effect, volatile, timeout_secs,
    errors_are_clean, honours_key. `allow` and `deny`: names of the only tools that may be used, and of those that may
    not; None allows all. `timeout_secs`: of a call, where neither step nor tool says one.
    `start_timeout_secs`: for connecting and listing. `max_result_bytes`: a longer answer is given up (kind "output").
    `protocol`: "auto" (the newest that the server speaks), or "legacy" for servers that choke on being asked.
    The idempotency key of a call goes along as `idempotencyKey` in `_meta` (and as a header over HTTP).
    """

    def __init__(
        self,
        target: Server | str,
        *,
        name: str | None = None,
        trust_annotations: bool = True,
        tools: Mapping[str, Any] | None = None,
        allow: Collection[str] | None = None,
        deny: Collection[str] = (),
        timeout_secs: float | None = None,
        start_timeout_secs: float = 30.0,
        max_result_bytes: int = MAX_RESULT_BYTES,
        protocol: str = "auto",
        breaker: Breaker | None = None,
        where: str = "",
    ) -> None:
        if find_spec("mcp") is None:
            raise InputError(_NOT_INSTALLED)
        self.server = checked(HttpServer(target) if isinstance(target, str) else target, where)
        self.name = name or default_name(self.server)
        self.secrets = self.server.known
        """Credentials, and tokens once there are some; of a program's environment those that are so by name."""
        at = where or f"MCP server {self.name!r}"
        if protocol not in ("auto", "legacy"):
            raise InputError(f"{at}: protocol is auto or legacy, not {protocol!r}")
        if (
            start_timeout_secs <= 0
            or (timeout_secs is not None and timeout_secs <= 0)
            or max_result_bytes <= 0
        ):
            raise InputError(f"{at}: a timeout or limit is a number above 0")
        self._overrides = {tool: Override.of(tool, told, at) for tool, told in (tools or {}).items()}
        self._trust = trust_annotations
        self._allow = None if allow is None else frozenset(allow)
        self._deny = frozenset(deny)
        self._timeout = timeout_secs
        self._start = start_timeout_secs
        oauth = self.server.oauth if isinstance(self.server, HttpServer) else None
        self._login = oauth is not None and oauth.client_secret is None
        self._max_bytes = max_result_bytes
        self._protocol = protocol
        self._breaker = breaker or Breaker(threshold=len(_BACKOFF), cool_down_secs=10.0)
        self._failures = 0
        self._listed: dict[str, Listed] | None = None
        self._problems: list[ToolProblem] = []
        self._watchers: list[Callable[[], None]] = []
        self._stale = False
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._leaving: set[Connection] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closing = 0
        self._listing = asyncio.Lock()

    async def tools(self) -> Sequence[ToolSpec]:
        """The tools as the server lists them now; `ToolCallError` where it cannot be reached or does not answer."""
        return await self._list(None)

    async def data_sample(self) -> JsonObject | None:
        """The resources that the server has, as it lists them; their contents are not read."""
        connection = await self._connected(None)
        return resources_told(await connection.resources())

    def problems(self) -> Sequence[ToolProblem]:
        """What was left out of the latest list, and overrides for tools that it does not have."""
        return tuple(self._problems)

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the list may be another: once, until the tools are listed again."""
        self._watchers.append(changed)

    async def call(self, call: ToolCall) -> Any:
        """Make the call once. A request that a server rejected unread, for its session had ended, goes to a new one."""
        until = None if call.deadline_secs is None else asyncio.get_running_loop().time() + call.deadline_secs
        tool = await self._tool(call.tool_id, until)
        check_parameters(tool.spec, call)
        from replan.tools.mcp.exchange import Exchange
        from replan.tools.mcp.http import SessionExpired

        for again in (True, False):
            connection = await self._connected(until)
            try:
                result = await connection.call(call.tool_id, Exchange(call), _left(until))
                return await with_files(_understood(result, tool), call.keep)
            except SessionExpired:
                if not again:
                    raise
            except ToolCallError as error:
                error.args = (self._hidden(error),)
                if error.kind in ("parameter", "unknown_tool", "output"):
                    self._changed()
                if tool.spec.errors_are_clean is False and error.kind in ("parameter", "unknown_tool"):
                    raise ToolCallError(
                        str(error), happened="unknown"
                    ) from error  # a part may have been done
                raise
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """End the connection and the server's processes, if it has any. Who lists or calls later starts it anew."""
        self._closing += 1
        try:
            if self._opening is not None:
                self._opening.cancel()
                await asyncio.wait({self._opening})
            self._let_go()
            for connection in self._leaving:
                connection.end()
            if self._ending:
                await asyncio.wait(self._ending)
        finally:
            self._closing -= 1

    # ── the list ──────────────────────────────────────────────────────────────

    async def _list(self, until: float | None) -> list[ToolSpec]:
        """A list is asked for again where the connection was lost: that changes nothing."""
        async with self._listing:
            for again in (True, False):
                connection = await self._connected(until)
                self._stale = False
                listing, connection.listing = connection.listing, None
                try:
                    listing = listing or await connection.relist(self._start)
                    if len(listing.tools) > _MANY:
                        await beside(self._take, listing)
                    else:
                        self._take(listing)
                    break
                except ToolCallError as error:
                    error.args = (self._hidden(error),)
                    if not again or connection.usable:
                        raise
        assert self._listed is not None
        return [tool.spec for tool in self._listed.values()]

    def _take(self, listing: Listing) -> None:
        self._problems = list(listing.problems)
        found: dict[str, Listed] = {}
        for tool in listing.tools:
            if tool.name in self._deny or (self._allow is not None and tool.name not in self._allow):
                continue
            if tool.name in found:
                self._problems.append(ToolProblem("listed twice; the first one is taken", tool.name))
                continue
            found[tool.name] = listed(
                tool,
                listing.output_schemas.get(tool.name),
                source=self.name,
                trust_annotations=self._trust,
                override=self._overrides.get(tool.name, Override()),
                timeout_secs=self._timeout,
            )
        for name in self._overrides.keys() - {tool.name for tool in listing.tools}:
            near = nearest(name, found, n=1)
            hint = f"; do you mean {near[0]!r}?" if near else ""
            self._problems.append(
                ToolProblem(f"there are settings for it, but there is no such tool{hint}", name)
            )
        self._problems = list(dict.fromkeys(self._problems))  # pages that repeat each other tell it again
        self._listed = found

    async def _tool(self, name: str, until: float | None) -> Listed:
        if self._listed is None or (name not in self._listed and self._stale):
            await self._list(until)
        assert self._listed is not None
        if (tool := self._listed.get(name)) is not None:
            return tool
        raise unknown_tool(name, self.name, self._listed)

    def _changed(self) -> None:
        if self._stale or self._closing:
            return
        self._stale = True
        for changed in self._watchers:
            changed()

    # ── the connection ────────────────────────────────────────────────────────

    async def _connected(self, until: float | None) -> Connection:
        """The open connection, or a new one; callers share one try, which goes on when one of them leaves."""
        if self._closing:
            raise ToolCallError(f"the source {self.name!r} is closed", kind="unavailable", happened="no")
        if self._connection is not None:
            if self._connection.usable:
                return self._connection
            self._connection.retire()
            self._let_go()
        if self._opening is None:
            tried = self._breaker.allow()
            if tried is None:
                wait = self._breaker.wait_secs
                raise ToolCallError(
                    f"{self.name} has failed {self._failures} times in a row; it is left alone for {wait:.0f} s",
                    kind="unavailable",
                    happened="no",
                    retry_after=max(wait, 0.1),
                )
            self._opening = asyncio.create_task(self._open(tried))
            self._opening.add_done_callback(self._opened)
            self._opening.add_done_callback(lambda _: tried.abandoned())  # unless it has told how it went
        opening = self._opening
        await asyncio.wait({opening}, timeout=_left(until))
        if not opening.done():
            text = f"{self.name} was not connected in the time that the call had"
            raise ToolCallError(text, kind="unavailable", happened="no")
        if opening.cancelled():
            raise ToolCallError(f"the source {self.name!r} is closed", kind="unavailable", happened="no")
        if (error := opening.exception()) is None:
            return opening.result()
        if isinstance(error, ToolCallError):  # each caller its own: a traceback grows with every raise
            raise ToolCallError(
                self._hidden(error),
                kind=error.kind,
                happened="no",
                status=error.status,
                retry_after=error.retry_after,
            )
        raise error

    async def _open(self, tried: Try) -> Connection:
        try:
            made = _connection() if _LOADED in sys.modules else await beside(_connection)
            await asyncio.sleep(_BACKOFF[min(self._failures, len(_BACKOFF) - 1)])
            connection = made(
                self.server, max_bytes=self._max_bytes, protocol=self._protocol, changed=self._changed
            )
            try:
                await connection.open(_LOGIN_SECS + self._start if self._login else self._start)
            except BaseException as error:
                connection.end()
                self._end(connection)
                if isinstance(error, ToolCallError):
                    tried.failed()
                    self._failures += 1
                raise
            tried.succeeded()
            self._failures = 0
            return connection
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "httpx2"):
                raise
            raise InputError(_NOT_INSTALLED) from None

    def _opened(self, opening: asyncio.Task[Connection]) -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            return
        self._connection = opening.result()
        listing = self._connection.listing
        if self._listed is not None and listing is not None:
            # A server that was started again may have other tools by now.
            before, self._connection.listing = self._listed, None
            self._take(listing)
            if [tool.spec for tool in before.values()] != [tool.spec for tool in self._listed.values()]:
                self._changed()

    def _hidden(self, error: ToolCallError) -> str:
        """Its words, without what the server may have repeated of our credentials."""
        return self.secrets.hide(str(error))

    def _let_go(self) -> None:
        if self._connection is not None:
            self._end(self._connection)
            self._connection = None

    def _end(self, connection: Connection) -> None:
        """Close it in the background, when it has ended: a dead server's callers do not wait for its burial."""

        async def closed() -> None:
            await asyncio.wait({connection.gone})
            self._leaving.discard(connection)
            await connection.aclose()

        self._leaving.add(connection)
        ending = asyncio.create_task(closed())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


_MANY = 100
"""Tools of one list that are looked at in the event loop."""
_LOADED = "replan.tools.mcp.connection"


def _connection() -> type[Connection]:
    """It takes a second to import what it is made of."""
    from replan.tools.mcp.connection import Connection

    return Connection


def _understood(result: CallToolResult, tool: Listed) -> Any:
    """`value_of`; what nobody foresaw in an answer says nothing of whether the call was made."""
    from replan.tools.mcp.results import value_of

    try:
        return value_of(result, tool)
    except ToolCallError:
        raise
    except Exception as error:
        text = f"the answer of {tool.spec.id!r} cannot be understood: {type(error).__name__}: {error}"
        raise ToolCallError(text, kind="output", happened="unknown") from error


def _left(until: float | None) -> float | None:
    """Seconds until a time of the event loop; None without one."""
    return None if until is None else max(0.0, until - asyncio.get_running_loop().time())
