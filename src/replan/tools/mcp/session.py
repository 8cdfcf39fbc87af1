"""What a connection is made of: the transport of a server, the library's client over it, and the ear for changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from replan.errors import ToolCallError
from replan.tools.mcp.elicitation import answer
from replan.tools.mcp.exchange import Exchange
from replan.tools.mcp.http import http_transport
from replan.tools.mcp.oauth import provider
from replan.tools.mcp.process import ServerProcess
from replan.tools.mcp.servers import HttpServer, Server, StdioServer
from replan.tools.mcp.traffic import Traffic, watched

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_LISTEN_AGAIN_SECS = (1.0, 60.0)


async def started(server: StdioServer, stack: AsyncExitStack) -> ServerProcess:
    """The server's process, which ends with the stack at the latest; `ToolCallError` if it cannot be started."""
    try:
        process = await ServerProcess.start(server)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError) and (server.cwd is None or server.cwd.is_dir())
        said = "there is no such program on the PATH" if missing else str(error)
        text = f"{server.command!r} cannot be started: {said}"
        raise ToolCallError(text, kind="unavailable", happened="no") from None
    stack.push_async_callback(process.stop)
    return process


async def over_http(
    server: HttpServer, traffic: Traffic, max_bytes: int, stack: AsyncExitStack
) -> AbstractAsyncContextManager[TransportStreams]:
    """The transport to an address, with what authenticates it."""
    auth = None
    if server.oauth is not None:
        auth, person = await provider(server, server.oauth)
        if person is not None:
            stack.push_async_callback(person.aclose)
    return watched(http_transport(server, auth, max_bytes, traffic.cut_off), traffic)


def client_over(
    transport: AbstractAsyncContextManager[TransportStreams],
    server: Server,
    protocol: str,
    running: Set[Exchange],
    changed: Callable[[], None],
) -> Client:
    """The library's client, not entered yet. It answers questions and tells of roots; sampling it refuses."""
    from replan import __version__

    async def list_roots(context: Any) -> types.ListRootsResult:
        roots = [types.Root(uri=root.as_uri(), name=root.name) for root in server.roots]
        return types.ListRootsResult(roots=roots)

    async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return await answer(params, running)

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    return Client(
        transport,
        mode=protocol,
        cache=None,
        client_info=types.Implementation(name="replan", version=__version__),
        elicitation_callback=elicit,
        list_roots_callback=list_roots if server.roots else None,
        message_handler=heard,
    )


async def listen(client: Client, changed: Callable[[], None]) -> None:
    """Hear of changes of the list: since protocol 2026-07-28 only who asks is told."""
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        return
    wait, most = _LISTEN_AGAIN_SECS
    while True:
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    changed()
                    wait = _LISTEN_AGAIN_SECS[0]
        except ListenNotSupportedError:
            return
        except (SubscriptionLost, MCPError, TimeoutError) as error:
            if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
                return
        await asyncio.sleep(wait)
        wait = min(most, wait * 2)
        changed()  # nobody knows what was missed
