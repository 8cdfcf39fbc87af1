"""The log of every task: who may write it, how it grows, and how others hear of that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from replan.core.events import AnyEvent, Record, TaskSubmitted
from replan.core.plain_calls import Recorded
from replan.ports.contents import NewArtifact


class Claim(NamedTuple):
    """The right to write a task's log, until somebody claims it anew."""

    task_id: str
    fence: int


class Appended(NamedTuple):
    """Where the events of one `append` went. A gap before `first` means that others have written signals."""

    first: int
    last: int


class Landing(asyncio.Future[Any]):
    """What a store may give for an append that another thread carries out: it tells of its end as that comes.

    Callbacks are called a turn of the event loop later.
    """

    told: Callable[[asyncio.Future[Any]], None] | None = None
    """Called in the event loop as it is done, and forgotten: whoever keeps what was settled keeps nobody who was told."""

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        told, self.told = self.told, None
        if cancelled and told is not None:
            told(self)
        return cancelled


class Listening(Protocol):
    """Being told of something, until it is closed."""

    def close(self) -> None: ...


class Redaction(Protocol):
    """What is taken out of stored things; called in a thread of the store's, artifacts first."""

    def artifact(self, artifact_id: str, data: bytes) -> bytes:
        """The artifact as it should have been stored; the same if nothing is to be taken out."""
        ...

    def event(self, event: AnyEvent) -> AnyEvent:
        """The event as it should have been recorded; the same object if nothing is to be taken out."""
        ...


class Counted(NamedTuple):
    """Leave to store a task of a tenant, as long as no other process has stored one by a later count."""

    tenant: str
    seen: int
    """How many had been let in when it was counted what the tenant may still do."""


class EventLog(Protocol):
    """The append-only log of every task. Raises `StoreError` and its kinds."""

    async def create(
        self, task_id: str, event: TaskSubmitted, ts: float, *, turn: Counted | None = None
    ) -> bool:
        """Store a new task; True if it was new, False if the same request was there, else `TaskExists`
        (`TaskGoneFrom` where it was given away).

        `turn`: of a tenant with limits; `Overtaken`, and nothing is stored, where it does not hold any more.
        """
        ...

    async def claim(self, task_id: str, *, steal: bool = False) -> Claim:
        """Take the task; `TaskHeld` if a living driver has it, unless `steal`. The older fence is void."""
        ...

    async def confirm(self, claim: Claim) -> None:
        """`StaleWriter` if the claim does not hold any more."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give the task back, if the claim still holds."""
        ...

    def append(
        self,
        claim: Claim,
        events: Sequence[Recorded],
        *,
        ts: float,
        round: int,
        artifacts: Sequence[NewArtifact] = (),
        heard: int | None = None,
    ) -> asyncio.Future[Appended]:
        """Queue events in order, all or none; done when they are durable. `StaleWriter` if fenced out.

        Some may stand for two (`core.plain_calls.spelled_out`): the log has each by itself. `heard`: only if nobody has written to the
        task after that event; else `NotHeard`, nothing of it is written, and the claim holds on.
        """
        ...

    def redact(self, claim: Claim, redaction: Redaction) -> asyncio.Future[None]:
        """Queue a rewriting of what the task's log and artifacts hold so far; done when nothing else is left of it.

        The one exception to a log that only grows: for what turns out to be secret after it was stored.
        """
        ...

    async def signal(self, task_id: str, event: AnyEvent, ts: float, *, heard: int | None = None) -> Record:
        """A person's event: needs no claim. `TaskEnded` once the task has ended.

        `heard`: only if nobody has written to the task after that event; else `NotHeard`, and nothing is written.
        """
        ...

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[Record]: ...

    async def picked(self, after: Mapping[str, int], kinds: Collection[str]) -> dict[str, list[Record]]:
        """Of many tasks, each with the last event that is known of it: their own later events of these kinds, in order.

        What a fork shares is not its own. A task that is not there, or has none, is left out.
        """
        ...

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Record]:
        """Every record from `after` on, live, from any process; ends after the task's last event."""
        ...

    def listen(self, task_id: str, tell: Callable[[], None]) -> Listening:
        """Call `tell` in the event loop whenever people have written to the task, from any process.

        What they wrote can then be read with `signals_only`. It may be called once too often, never once too few.
        """
        ...
