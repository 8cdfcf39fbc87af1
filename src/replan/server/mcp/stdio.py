"""The MCP server of one client that has started it, over its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import TYPE_CHECKING

from mcp.server.stdio import stdio_server

from replan.run.access.callers import SCOPES, Caller, Scope
from replan.run.access.use_cases import UseCases
from replan.server.mcp.lines import Understood
from replan.server.mcp.server import Context, Tools
from replan.server.shared import Shared
from replan.server.streams.hub import Hub

if TYPE_CHECKING:
    from replan.app import Replan

GRACE_SECS = 1.5
"""Clients give a server about two seconds to end."""
_LET_GO_SECS = 0.5
"""A thread that waits for the next line cannot be stopped: it is left behind."""


async def serve_stdio(
    replan: Replan,
    *,
    who: str,
    scopes: frozenset[Scope] = SCOPES,
    for_people: bool = True,
    grace_secs: float = GRACE_SECS,
    stop: asyncio.Event,
) -> None:
    """Open it, and serve until the client closes the stream or `stop` is set. `who`: as logs have it. Calls of tools that run
    then may end for `grace_secs`.

    Nothing else comes to stdout meanwhile, whatever tools print.
    """
    loop = asyncio.get_running_loop()
    serving = loop.create_task(_serve(replan, Caller(who, scopes=scopes), for_people, grace_secs))
    stopped = loop.create_task(stop.wait())
    await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not serving.done():
        serving.cancel()
        await asyncio.wait({serving}, timeout=grace_secs + _LET_GO_SECS)
        return
    serving.result()


async def _serve(replan: Replan, caller: Caller, for_people: bool, grace_secs: float) -> None:
    async def caller_of(ctx: Context) -> Caller:
        return caller

    async with stdio_server() as (read, write), _nothing_printed(), replan:
        driver = replan.serving()
        here = Shared(
            use_cases=UseCases(replan.service, driver),
            parts=replan.service.parts,
            settings=replan.settings,
            hub=Hub(replan.service),
        )
        tools = Tools(here, caller_of, for_people=for_people)
        server = tools.server(version("replan"))
        try:
            await server.run(Understood(read, write), write, server.create_initialization_options())
        finally:
            here.leaving.set()
            here.parts.leaving.set()  # nothing more is begun, and what runs may end: no effect is left in doubt for want of a second
            await here.hub.aclose()
            await here.use_cases.carrying.all_ended(grace_secs)
            await driver.drain(grace_secs)


@contextlib.asynccontextmanager
async def _nothing_printed() -> AsyncIterator[None]:
    """What is printed goes to stderr, where nobody takes it for a message; what was kept back by then, too."""
    sys.stdout.flush()
    printed = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        printed.flush()
