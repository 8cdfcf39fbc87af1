"""Python functions, and the catalogue over them, as kits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tool_kit import WAIT_SECS, Kit

from replan.ports import Progress
from replan.tools import Catalog, FunctionSource, ToolContext, tool


def sync_functions() -> Kit:
    kit = Kit()
    arrived = threading.Condition()
    count = [0]

    @tool(effect="reads")
    def echo(value: Any) -> Any:
        return value

    @tool(effect="reads")
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @tool
    def fail(text: str) -> None:
        raise ValueError(text)

    @tool
    def wait(ctx: ToolContext) -> None:
        kit.started.set()
        if ctx.wait(WAIT_SECS):
            kit.reached.set()

    @tool
    def progress(ctx: ToolContext) -> dict[str, bool]:
        ctx.report("half", 1, 2)
        ctx.report("done", 2, 2)
        return {"ok": True}

    @tool
    def meet(n: int) -> bool:
        with arrived:
            count[0] += 1
            arrived.notify_all()
            return arrived.wait_for(lambda: count[0] >= n, WAIT_SECS)

    kit.source = FunctionSource([echo, add, fail, wait, progress, meet])
    return kit


def async_functions() -> Kit:
    kit = Kit()
    count = [0]
    everyone: list[asyncio.Event] = []

    @tool(effect="reads")
    async def echo(value: Any) -> Any:
        return value

    @tool(effect="reads")
    async def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @tool
    async def fail(text: str) -> None:
        raise ValueError(text)

    @tool
    async def wait() -> None:
        kit.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            kit.reached.set()

    @tool
    async def progress() -> AsyncIterator[Progress | dict[str, bool]]:
        yield Progress("half", 1, 2)
        yield Progress("done", 2, 2)
        yield {"ok": True}

    @tool
    async def meet(n: int) -> bool:
        if not everyone:
            everyone.append(asyncio.Event())
        count[0] += 1
        if count[0] >= n:
            everyone[0].set()
        async with asyncio.timeout(WAIT_SECS):
            return await everyone[0].wait()

    kit.source = FunctionSource([echo, add, fail, wait, progress, meet])
    return kit


def catalog(inner: Callable[[], Kit]) -> Callable[[], Kit]:
    """The catalogue over a kit, its ids taken by another source too."""

    def over() -> Kit:
        kit = inner()

        async def echo(other: int) -> int:
            return other

        other = FunctionSource([echo], name="other")
        kit.source = Catalog([other, kit.source])
        return kit

    return over


def opened(make: Callable[[], Kit]) -> Callable[[], contextlib.AbstractAsyncContextManager[Kit]]:
    @contextlib.asynccontextmanager
    async def open_kit() -> AsyncIterator[Kit]:
        yield make()

    return open_kit


KITS = [
    pytest.param(opened(sync_functions), id="sync functions"),
    pytest.param(opened(async_functions), id="async functions"),
    pytest.param(opened(catalog(sync_functions)), id="catalog of sync functions"),
    pytest.param(opened(catalog(async_functions)), id="catalog of async functions"),
]
