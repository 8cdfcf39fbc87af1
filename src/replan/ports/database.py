"""What a store shares with an engine whose queue lies beside the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

Ask = Callable[[str, Mapping[str, Any] | None], Awaitable[list[dict[str, Any]]]]
"""What one statement gives, each row by the names of its columns."""


class Database(Protocol):
    """What a store shares with such an engine: its thread with all connections, and its number among the processes.

    Heartbeats go the way that the log goes, and a tool that holds up the event loop of the tasks does not hold them up.
    """

    shown: str
    holder: int
    """What a task's row names its driver by."""
    given: Mapping[str, Any]
    """What another process connects with, the password included."""

    def run(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run it in that thread."""
        ...

    async def ask(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """What one statement gives, in a few seconds; from within the thread. `StoreBusy`: it may have been done or not."""
        ...

    async def listen(self, channel: str, heard: Callable[[str], None]) -> None:
        """Call `heard`, within the thread, with what is said there; with an empty text when something may have been missed."""
        ...

    def deafen(self, channel: str) -> None:
        """Hear that channel no more."""
        ...

    async def prepare(self, name: str, script: str) -> None:
        """Run the script if the table of that name is not there: one process at a time, all of it or nothing."""
        ...
