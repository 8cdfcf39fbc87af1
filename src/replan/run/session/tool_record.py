"""What this process has seen of its tools: counted call by call, and handed to the store now and then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from time import monotonic

from replan.core.tools.stats import ToolKey, ToolStats, warning
from replan.core.types import Fault, ToolSpec
from replan.errors import StoreError
from replan.ports import ToolMemory

FLUSH_CALLS = 1_000
FLUSH_SECS = 5.0
"""What was counted since then may be forgotten when the process is killed."""


class ToolRecord:
    """Counts calls: what the store knew at the start, and what has been counted since."""

    def __init__(self, *, tells: bool = True) -> None:
        self.tells = tells
        """False: nobody is told of it in a prompt, so that prompts are the same in every database."""
        self._known: dict[ToolKey, ToolStats] = {}
        self._fresh: dict[ToolKey, ToolStats] = {}
        self._calls = 0
        self._flushed = 0.0
        self._flushing: asyncio.Task[None] | None = None

    def count(
        self, tool: ToolSpec, secs: float, fault: Fault | None = None, *, memory: ToolMemory | None = None
    ) -> None:
        """Count one attempt that has come to its end; what was counted is handed over to `memory` in the background, if it is time."""
        stats = self._fresh.get((tool.source, tool.id))  # type: ignore[call-overload]  # equal to its key
        if stats is None:
            stats = self._fresh[ToolKey(tool.source, tool.id)] = ToolStats()
        stats.add(secs, fault)
        self._calls += 1
        if memory is not None and (self._calls >= FLUSH_CALLS or monotonic() - self._flushed >= FLUSH_SECS):
            self._flush_soon(memory)

    def of(self, tool: ToolSpec) -> ToolStats | None:
        """A tool's statistics, where there are any."""
        key = ToolKey(tool.source, tool.id)
        known, fresh = self._known.get(key), self._fresh.get(key)
        return known if fresh is None else _sum(known, fresh)

    async def load(self, memory: ToolMemory) -> None:
        """Begin with what is stored."""
        with contextlib.suppress(StoreError):
            self._known = await memory.tool_stats()

    def told(self, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
        """The tools for a prompt: the description of one that has often failed lately says so."""
        if not self.tells or not (self._known or self._fresh):
            return list(tools)
        return [self._told(tool) for tool in tools]

    def _told(self, tool: ToolSpec) -> ToolSpec:
        note = warning(self.of(tool))
        if not note:
            return tool
        return tool.model_copy(update={"description": f"({note}) {tool.description}".strip()})

    def _flush_soon(self, memory: ToolMemory) -> None:
        if self._fresh and self._under_way() is None:
            self._flushed = monotonic()
            self._flushing = asyncio.get_running_loop().create_task(self._flush(memory))

    async def flush(self, memory: ToolMemory) -> None:
        """Hand over what was counted."""
        if (under_way := self._under_way()) is not None:
            await asyncio.wait({under_way})
        await self._flush(memory)

    def _under_way(self) -> asyncio.Task[None] | None:
        """The handing over that goes on in this event loop; one that an earlier loop has begun went with it."""
        task = self._flushing
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            return None
        return task

    async def _flush(self, memory: ToolMemory) -> None:
        """A store that cannot take it costs statistics and nothing else."""
        fresh, self._fresh, self._calls = self._fresh, {}, 0
        for key, stats in fresh.items():
            self._known[key] = _sum(self._known.get(key), stats)
        if fresh:
            with contextlib.suppress(StoreError):
                await memory.add_tool_stats(fresh)


def _sum(known: ToolStats | None, later: ToolStats) -> ToolStats:
    both = ToolStats()
    if known is not None:
        both.merge(known)
    both.merge(later)
    return both
