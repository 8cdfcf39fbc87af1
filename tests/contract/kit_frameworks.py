"""Tools of other frameworks as kits: each with async functions, and with synchronous ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agents import function_tool
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.tools import tool as langchain_tool
from pydantic_ai import Tool
from tool_kit import WAIT_SECS, Kit

from replan.ports import ToolSource
from replan.tools import current
from replan.tools.frameworks import LangChainSource, OpenAiAgentsSource, PydanticAiSource

Functions = list[Callable[..., Any]]


async def _report(message: str, done: int) -> None:
    current().report(message, done, 2)


async def _dispatch(message: str, done: int) -> None:
    await adispatch_custom_event("progress", {"message": message, "progress": done, "total": 2})


def _dispatch_at_once(message: str, done: int) -> None:
    dispatch_custom_event("progress", {"message": message, "progress": done, "total": 2})


def _async_functions(kit: Kit, report: Callable[[str, int], Awaitable[None]]) -> Functions:
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
        await report("half", 1)
        await report("done", 2)
        return {"ok": True}

    async def meet(n: int) -> bool:
        """Wait for n calls."""
        came[0] += 1
        if came[0] >= n:
            everyone.set()
        async with asyncio.timeout(WAIT_SECS):
            return await everyone.wait()

    return [echo, add, fail, wait, progress, meet]


def _sync_functions(kit: Kit, report: Callable[[str, int], None]) -> Functions:
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
        report("half", 1)
        report("done", 2)
        return {"ok": True}

    def meet(n: int) -> bool:
        """Wait for n calls."""
        with arrived:
            came[0] += 1
            arrived.notify_all()
            return arrived.wait_for(lambda: came[0] >= n, WAIT_SECS)

    return [echo, add, fail, wait, progress, meet]


def _langchain(functions: Functions) -> ToolSource:
    return LangChainSource([langchain_tool(each) for each in functions])


def _pydantic_ai(functions: Functions) -> ToolSource:
    return PydanticAiSource([Tool(each) for each in functions])


def _openai_agents(functions: Functions) -> ToolSource:
    return OpenAiAgentsSource([function_tool(each, strict_mode=False) for each in functions])


def _kit(make: Callable[[Functions], ToolSource], functions: Callable[..., Functions], report: Any) -> Any:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Kit]:
        kit = Kit()
        kit.turns = 10  # the framework has tasks of its own in between
        kit.source = make(functions(kit, report))
        yield kit

    return opened


def _say(message: str, done: int) -> None:
    current().report(message, done, 2)


KITS = [
    pytest.param(_kit(_langchain, _async_functions, _dispatch), id="LangChain, async"),
    pytest.param(_kit(_langchain, _sync_functions, _dispatch_at_once), id="LangChain, sync"),
    pytest.param(_kit(_pydantic_ai, _async_functions, _report), id="Pydantic AI, async"),
    pytest.param(_kit(_pydantic_ai, _sync_functions, _say), id="Pydantic AI, sync"),
    pytest.param(_kit(_openai_agents, _async_functions, _report), id="OpenAI Agents, async"),
    pytest.param(_kit(_openai_agents, _sync_functions, _say), id="OpenAI Agents, sync"),
]
