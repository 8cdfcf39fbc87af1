"""One call without a task keeps the tool's own limit of time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from replan.core.secrets import KnownSecrets
from replan.errors import InputError, ToolCallError
from replan.tools import Catalog, FunctionSource, tool
from replan.tools.catalog.direct import call_directly

pytestmark = pytest.mark.anyio


@tool(timeout=0.2)
async def never() -> None:
    """Never ends."""
    await asyncio.Event().wait()


@tool(timeout=0.2)
async def deaf() -> None:
    """Does not listen."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if LET_GO.is_set():
                raise


@tool(timeout=0.2)
def blocking() -> None:
    """Holds its thread."""
    LET_GO.wait(20)


@tool(timeout=20)
async def quick(n: int) -> int:
    """Answers."""
    return n


LET_GO = threading.Event()


@pytest.mark.parametrize("name", ["never", "deaf", "blocking"])
async def test_a_call_ends_at_the_tool_s_own_limit(name: str) -> None:
    LET_GO.clear()
    before = asyncio.all_tasks()
    async with asyncio.timeout(20):
        catalog = Catalog([FunctionSource([never, deaf, blocking, quick])])
        await catalog.open()
        with pytest.raises(ToolCallError, match=r"no answer within its 0\.2 seconds") as caught:
            await call_directly(catalog, name, {}, key="key", secrets=KnownSecrets())
        assert caught.value.kind == "timeout"
        assert await call_directly(catalog, "quick", {"n": 3}, key="key", secrets=KnownSecrets()) == 3
        LET_GO.set()
        for task in asyncio.all_tasks() - before:
            task.cancel()
        await catalog.aclose()


async def test_who_waits_may_be_cancelled() -> None:
    catalog = Catalog([FunctionSource([never])])
    await catalog.open()
    waiting = asyncio.create_task(call_directly(catalog, "never", {}, key="key", secrets=KnownSecrets()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await catalog.aclose()


@pytest.mark.parametrize(
    ("functions", "told"),
    [
        pytest.param([quick], "there are: quick", id="all of them"),
        pytest.param([quick, never, deaf, blocking], "the nearest of 4: quick", id="the nearest"),
    ],
)
async def test_a_tool_that_is_not_there_is_told_with_those_like_it(functions: list[Any], told: str) -> None:
    catalog = Catalog([FunctionSource(functions)])
    await catalog.open()
    with pytest.raises(InputError, match=f"'quik' does not exist; {told}"):
        await call_directly(catalog, "quik", {}, key="k", secrets=KnownSecrets())
    await catalog.aclose()
