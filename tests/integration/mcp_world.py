"""The service as an MCP server in this process, and a client of it that can be asked."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
from access_world import World, world
from mcp import Client

from replan.core.types import JsonObject
from replan.run.access.callers import LOCAL, Caller
from replan.server.mcp.server import Tools
from replan.server.shared import Shared
from replan.server.streams.hub import Hub

ERAS = ("legacy", "2026-07-28")
"""Of the protocol: forms are shown in the middle of a call, or between two rounds of it."""
Says = Callable[[str], Any]


class Told(NamedTuple):
    progress: float
    total: float | None
    message: str | None


class Mcp:
    """A client, and what it was asked and told."""

    def __init__(self, there: World, here: Shared, client: Client) -> None:
        self.there = there
        self.here = here
        self.client = client
        self.asked: list[types.ElicitRequestFormParams] = []
        self.told: list[Told] = []
        self.heard = asyncio.Event()
        """Some progress was told."""

    async def call(self, name: str, **arguments: Any) -> JsonObject:
        """What the tool gives."""
        result = await self.client.call_tool(name, arguments, progress_callback=self._tell)
        assert not result.is_error, result.content
        assert result.structured_content is not None
        return dict(result.structured_content)

    async def refused(self, name: str, **arguments: Any) -> str:
        """What the tool says in place of a result."""
        result = await self.client.call_tool(name, arguments)
        assert result.is_error, result.structured_content
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        return content.text

    async def _tell(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append(Told(progress, total, message))
        self.heard.set()


def accept(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


@contextlib.asynccontextmanager
async def offering(
    folder: Path,
    *,
    era: str = ERAS[0],
    says: Says | None = None,
    caller: Caller = LOCAL,
    for_people: bool = True,
    tools: dict[str, Any] | None = None,
) -> AsyncIterator[Mcp]:
    """`says`: what the person answers to a form; None: the client has no forms."""

    async def caller_of(ctx: Any) -> Caller:
        return caller

    async def elicit(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        assert says is not None
        made.asked.append(params)
        said = says(params.message)
        answer = await said if inspect.isawaitable(said) else said
        assert isinstance(answer, types.ElicitResult)
        return answer

    async with world(folder / "log.db", tools) as there:
        here = Shared(
            use_cases=there.cases,
            parts=there.replan.service.parts,
            settings=there.replan.settings,
            hub=Hub(there.replan.service),
        )
        server = Tools(here, caller_of, for_people=for_people).server("1.0")
        client = Client(server, mode=era, elicitation_callback=None if says is None else elicit)
        made = Mcp(there, here, client)
        async with client:
            yield made
        await here.hub.aclose()
