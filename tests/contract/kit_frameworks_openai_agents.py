"""Function tools of the OpenAI Agents SDK as kits: with async functions, and with synchronous ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agents import FunctionTool, function_tool
from tool_kit import WAIT_SECS, Kit

from replan.tools import current
from replan.tools.frameworks import OpenAiAgentsSource


def _async_tools(kit: Kit) -> list[FunctionTool]:
    came = [0]
    everyone = asyncio.Event()

    async def echo(value: Any) -> Any:
        """The value."""
        return value

    async def add(a: int, b: int) -> dict[str, int]:
        """The sum."""
        return {"sum": a + b}

    async def fail(text: str) -> None:
        """Fail with the text."""
        raise ValueError(text)

    async def wait() -> None:
        """Wait to be cancelled."""
        kit.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            kit.reached.set()

    async def progress() -> dict[str, bool]:
        """Report twice."""
        current().report("half", 1, 2)
        current().report("done", 2, 2)
        return {"ok": True}

    async def meet(n: int) -> bool:
        """Wait for n calls."""
        came[0] += 1
        if came[0] >= n:
            everyone.set()
        async with asyncio.timeout(WAIT_SECS):
            return await everyone.wait()

    return [function_tool(each, strict_mode=False) for each in (echo, add, fail, wait, progress, meet)]


def _sync_tools(kit: Kit) -> list[FunctionTool]:
    came = [0]
    arrived = threading.Condition()

    def echo(value: Any) -> Any:
        """The value."""
        return value

    def add(a: int, b: int) -> dict[str, int]:
        """The sum."""
        return {"sum": a + b}

    def fail(text: str) -> None:
        """Fail with the text."""
        raise ValueError(text)

    def wait() -> None:
        """Wait to be cancelled."""
        kit.started.set()
        if current().wait(WAIT_SECS):
            kit.reached.set()

    def progress() -> dict[str, bool]:
        """Report twice."""
        current().report("half", 1, 2)
        current().report("done", 2, 2)
        return {"ok": True}

    def meet(n: int) -> bool:
        """Wait for n calls."""
        with arrived:
            came[0] += 1
            arrived.notify_all()
            return arrived.wait_for(lambda: came[0] >= n, WAIT_SECS)

    return [function_tool(each, strict_mode=False) for each in (echo, add, fail, wait, progress, meet)]


def _kit(make: Any) -> Any:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Kit]:
        kit = Kit()
        kit.turns = 10  # the framework has tasks of its own in between
        kit.source = OpenAiAgentsSource(make(kit))
        yield kit

    return opened


KITS = [
    pytest.param(_kit(_async_tools), id="OpenAI Agents, async"),
    pytest.param(_kit(_sync_tools), id="OpenAI Agents, sync"),
]
