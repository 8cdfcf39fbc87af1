"""What a tool source brings to `test_tool_source`: a `Kit`, and how to reach what its tools tell.

`kit_*.py` beside this file are taken up by themselves: each has `KITS`, a list of `pytest.param(function, id=…)`
where the function gives an asynchronous context manager of an open `Kit`.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from replan.ports import ToolCall, ToolSource
from replan.tools import current

WAIT_SECS = 10.0
Functions = list[Callable[..., Any]]
_number = itertools.count(1)


class Kit:
    """A source under test, and what its tools tell the test."""

    turns = 3
    """How many turns of the event loop a cancelled call may take to end."""
    reports = True
    """False: what lies between has no place for progress, so that none is seen."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.reached = threading.Event()
        self.source: ToolSource
        self.names: dict[str, str] = {}

    def name(self, tool_id: str) -> str:
        return self.names.get(tool_id, tool_id)

    async def call(self, tool_id: str, report: Any = None, /, **parameters: Any) -> Any:
        return await self.source.call(
            ToolCall(self.name(tool_id), parameters, f"key-{next(_number)}", report=report)
        )

    async def saw_started(self) -> bool:
        """Wait until `wait` has begun; another process may tell it in another way."""
        return await asyncio.to_thread(self.started.wait, WAIT_SECS)

    async def saw_cancelled(self) -> bool:
        """Wait until the cancellation has reached `wait`."""
        return await asyncio.to_thread(self.reached.wait, WAIT_SECS)


def async_functions(kit: Kit, report: Callable[[str, int], Awaitable[None]]) -> Functions:
    """The tools of the suite as async functions, which report by `report`."""
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


def sync_functions(kit: Kit, report: Callable[[str, int], None]) -> Functions:
    """The tools of the suite as functions for threads, which report by `report`."""
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
