"""A running task in a notebook: its graph, which changes while the task goes on. Where there is no notebook nothing of one is imported."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from typing import Any

from replan.core.drawing.shown import TaskDrawing
from replan.core.events import Record
from replan.core.report.result import TaskResult
from replan.core.state.fold import apply
from replan.core.state.task import State
from replan.errors import ReplanError
from replan.run.service.drawn import graph_of

_EVERY_SECS = 0.5
"""Between two drawings."""
_LATE_SECS = 5.0
"""How long what is read of a task may lag behind its result."""


async def shown(records: AsyncIterator[Record], coming: Awaitable[TaskResult]) -> TaskResult:
    """The result; until it is there the task of these records (all of them, from its first) is shown as it goes."""
    display = notebook()
    if display is None:
        return await coming
    showing = _Showing(records, display)
    try:
        result = await coming
        await showing.reaches(result.status)
        return result
    finally:
        await showing.aclose()


def notebook() -> Callable[..., Any] | None:
    """What displays a value that changes; None where this is no notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return None
    display: Callable[..., Any] = import_module("IPython.display").display
    return display


class _Showing:
    """A task, drawn anew as it goes on, and once more in the end."""

    def __init__(self, records: AsyncIterator[Record], display: Callable[..., Any]) -> None:
        self._state = State()
        self._news = asyncio.Event()
        self._handle = display(self._drawing(), display_id=True)
        self._tasks = (
            asyncio.create_task(self._follow(records)),
            asyncio.create_task(self._draw()),
        )

    async def reaches(self, status: str) -> None:
        """Until what was read of the task says so, too; not for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LATE_SECS):
                while self._state.status != status:
                    self._news.clear()
                    await self._news.wait()

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._handle.update(self._drawing())

    def _drawing(self) -> TaskDrawing:
        return TaskDrawing(graph_of(self._state, time.time()))

    async def _draw(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECS)
            self._handle.update(self._drawing())

    async def _follow(self, records: AsyncIterator[Record]) -> None:
        with contextlib.suppress(ReplanError):  # whoever waits for the task says what is the matter
            async for record in records:
                self._state.task_id = record.task_id
                apply(self._state, record.event, record.ts, record.round, record.seq)
                self._news.set()
