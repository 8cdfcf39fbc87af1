"""A Pydantic AI toolset that is kept open."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

_CLOSE_SECS = 5.0
"""How long a toolset may take to be left before it is cancelled."""


class OpenToolset:
    """Enters a toolset when its tools are first wanted, and leaves it when closed.

    Both in one task that does nothing else: many toolsets hold task groups, which only who has entered them may leave.
    """

    def __init__(self, toolset: AbstractToolset[Any], context: RunContext[Any]) -> None:
        self._given = toolset
        self._context = context
        self._task: asyncio.Task[None] | None = None
        self._close = asyncio.Event()
        self._entering = asyncio.Lock()
        self.toolset: AbstractToolset[Any] = toolset
        """What calls go to: the toolset, or what it gives for a run."""

    @property
    def label(self) -> str:
        return self._given.label

    async def tools(self) -> dict[str, ToolsetTool[Any]]:
        """Its tools by name; what entering or listing raises."""
        async with self._entering:
            if self._task is None or self._task.done():
                await self._enter()
        return await self.toolset.get_tools(self._context)

    async def aclose(self) -> None:
        """Leave the toolset, in bounded time; nothing if it was not entered."""
        task, self._task = self._task, None
        if task is None:
            return
        self._close.set()
        _, late = await asyncio.wait({task}, timeout=_CLOSE_SECS)
        if late:
            task.cancel()
            await asyncio.wait({task}, timeout=_CLOSE_SECS)
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _enter(self) -> None:
        self._close = asyncio.Event()
        entered = asyncio.Event()
        task = asyncio.create_task(self._hold(entered, self._close))
        waiting = asyncio.create_task(entered.wait())
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            waiting.cancel()
        if not entered.is_set():
            await task  # raises what went wrong
        self._task = task

    async def _hold(self, entered: asyncio.Event, close: asyncio.Event) -> None:
        made = await self._given.for_run(self._context)
        async with made:
            self.toolset = await made.for_run_step(self._context)
            entered.set()
            await close.wait()
