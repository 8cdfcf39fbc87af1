"""What tasks take up in a store, and how it is freed of what nobody needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol, runtime_checkable


class KeptTask(NamedTuple):
    """What a task takes up in the store."""

    task_id: str
    status: str
    updated: float
    log_bytes: int
    contents: tuple[tuple[str, int, int], ...]
    """Its large outputs: digest, size, and how many tasks use it."""
    forks: tuple[str, ...]
    """Tasks that rest on its history."""
    undelivered: bool
    """Some consumer of the log has not got all of it yet."""
    number: int
    """The store's own: the newer, the higher."""


@runtime_checkable
class Tidy(Protocol):
    """A store that can be freed of what nobody needs any more."""

    async def sizes(
        self,
        *,
        status: Collection[str],
        before: float | None = None,
        below: int | None = None,
        limit: int = 100,
    ) -> list[KeptTask]:
        """Tasks with one of these statuses in which nothing has happened since `before`, newest first; `below`: those with a
        lower number. One that somebody drives may be among them."""
        ...

    async def sweep(self) -> int:
        """Remove contents that no task uses: half-written ones, and those of tasks that are gone. How many."""
        ...

    async def give_back(self) -> None:
        """Give free space back to the disk, as far as the database can while others use it."""
        ...

    async def now(self) -> float | None:
        """The clock that all who use the database share, which the age of tasks goes by; None: there is none but each one's own."""
        ...

    async def lived_since(self, before: float) -> float | None:
        """Of the tasks in which something has happened since `before`: when that was in the one where it is the longest ago."""
        ...

    async def tidy_due(self, secs: float) -> bool:
        """Whether the last time is so long ago, over all processes; if it is, this is the next one."""
        ...

    async def not_tidied(self) -> None:
        """It came to nothing: whoever asks next is to do it."""
        ...
