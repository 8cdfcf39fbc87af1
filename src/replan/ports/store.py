"""One database that does all that the loop needs kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from replan.core.tools.stats import ToolKey, ToolStats
from replan.ports.contents import ArtifactStore, Contents
from replan.ports.forks import Forks
from replan.ports.log import EventLog
from replan.ports.task_list import TaskIndex


class ToolMemory(Protocol):
    """How tools have done so far, across tasks and processes."""

    async def add_tool_stats(self, more: Mapping[ToolKey, ToolStats]) -> None:
        """Add what was counted since the last time."""
        ...

    async def tool_stats(self) -> dict[ToolKey, ToolStats]: ...
    async def remember_tools(self, names: Mapping[str, Collection[str]]) -> None:
        """Keep the names that sources have listed, in place of those that were kept before."""
        ...

    async def remembered_tools(self) -> dict[str, tuple[str, ...]]: ...


class Store(EventLog, TaskIndex, Forks, ArtifactStore, Contents, ToolMemory, Protocol):
    """One database that does all of it."""

    shown: str
    """Where it is, for people: a file, or an address without its password."""

    async def seal_key(self) -> bytes:
        """The key of this database's seals (`core.calls.seals`), made when it is asked for first; the same ever after."""
        ...

    async def try_write(self) -> None:
        """Write something, of which nothing stays. Raises `StoreError` where that cannot be done now: the disk is full, it is read-only,
        a standby, or another's for the moment. It is not tried again."""
        ...

    async def aclose(self) -> None: ...
