"""LangChain tools as kits: with async functions, and with synchronous ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.tools import BaseTool, tool
from tool_kit import WAIT_SECS, Kit

from replan.tools import current
from replan.tools.frameworks import LangChainSource


def _async_tools(kit: Kit) -> list[BaseTool]:
    came = [0]
    everyone = asyncio.Event()

    @tool
    async def echo(value: Any) -> Any:
        """The value."""
        return value

    @tool
    async def add(a: int, b: int) -> dict[str, int]:
        """The sum."""
        return {"sum": a + b}

    @tool
    async def fail(text: str) -> None:
        """Fail with the text."""
        raise ValueError(text)

    @tool
    async def wait() -> None:
        """Wait to be cancelled."""
        kit.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            kit.reached.set()

    @tool
    async def progress() -> dict[str, bool]:
        """Report twice."""
        await adispatch_custom_event("progress", {"message": "half", "progress": 1, "total": 2})
        await adispatch_custom_event("progress", {"message": "done", "progress": 2, "total": 2})
        return {"ok": True}

    @tool
    async def meet(n: int) -> bool:
        """Wait for n calls."""
        came[0] += 1
        if came[0] >= n:
            everyone.set()
        async with asyncio.timeout(WAIT_SECS):
            return await everyone.wait()

    return [echo, add, fail, wait, progress, meet]


def _sync_tools(kit: Kit) -> list[BaseTool]:
    came = [0]
    arrived = threading.Condition()

    @tool
    def echo(value: Any) -> Any:
        """The value."""
        return value

    @tool
    def add(a: int, b: int) -> dict[str, int]:
        """The sum."""
        return {"sum": a + b}

    @tool
    def fail(text: str) -> None:
        """Fail with the text."""
        raise ValueError(text)

    @tool
    def wait() -> None:
        """Wait to be cancelled."""
        kit.started.set()
        if current().wait(WAIT_SECS):
            kit.reached.set()

    @tool
    def progress() -> dict[str, bool]:
        """Report twice."""
        dispatch_custom_event("progress", {"message": "half", "progress": 1, "total": 2})
        dispatch_custom_event("progress", {"message": "done", "progress": 2, "total": 2})
        return {"ok": True}

    @tool
    def meet(n: int) -> bool:
        """Wait for n calls."""
        with arrived:
            came[0] += 1
            arrived.notify_all()
            return arrived.wait_for(lambda: came[0] >= n, WAIT_SECS)

    return [echo, add, fail, wait, progress, meet]


def _kit(make: Any) -> Any:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Kit]:
        kit = Kit()
        kit.turns = 10  # the framework has tasks of its own in between
        kit.source = LangChainSource(make(kit))
        yield kit

    return opened


KITS = [
    pytest.param(_kit(_async_tools), id="LangChain, async"),
    pytest.param(_kit(_sync_tools), id="LangChain, sync"),
]
