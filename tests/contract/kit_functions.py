"""Python functions, and the catalogue over them, as kits."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tool_kit import WAIT_SECS, Functions, Kit, async_functions, sync_functions

from replan.ports import Progress
from replan.tools import Catalog, FunctionSource, ToolContext, tool


def in_threads() -> Kit:
    """Those that want a context, in threads."""
    kit = Kit()

    def wait(ctx: ToolContext) -> None:
        kit.started.set()
        if ctx.wait(WAIT_SECS):
            kit.reached.set()

    def progress(ctx: ToolContext) -> dict[str, bool]:
        ctx.report("half", 1, 2)
        ctx.report("done", 2, 2)
        return {"ok": True}

    kit.source = FunctionSource(_with(sync_functions(kit, unused), wait, progress))
    return kit


def in_the_loop() -> Kit:
    """An async generator among them."""
    kit = Kit()

    async def progress() -> AsyncIterator[Progress | dict[str, bool]]:
        yield Progress("half", 1, 2)
        yield Progress("done", 2, 2)
        yield {"ok": True}

    kit.source = FunctionSource(_with(async_functions(kit, unused), progress))
    return kit


def unused(message: str, done: int) -> Any:
    raise AssertionError("these report in another way")


def _with(functions: Functions, *others: Callable[..., Any]) -> Functions:
    """The functions, two of them reading ones, with others in the place of those of the same name."""
    made = {each.__name__: each for each in (*functions, *others)}
    return [tool(effect="reads")(each) if name in ("echo", "add") else each for name, each in made.items()]


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
    pytest.param(opened(in_threads), id="sync functions"),
    pytest.param(opened(in_the_loop), id="async functions"),
    pytest.param(opened(catalog(in_threads)), id="catalog of sync functions"),
    pytest.param(opened(catalog(in_the_loop)), id="catalog of async functions"),
]
