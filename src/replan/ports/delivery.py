"""Delivery of the log, to each who is registered for it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from replan.core.events import Record
from replan.errors import ReplanError


class Delivered(NamedTuple):
    """How far a batch goes in one task."""

    task: int
    """The store's own number of it."""
    seq: int
    ts: float
    ends: bool
    """Nothing can come after it."""


class Batch(NamedTuple):
    """What a consumer gets next: each task's events in order, several tasks one after the other."""

    records: Sequence[Record]
    reached: Sequence[Delivered]


class Reading(NamedTuple):
    """The right to move a consumer's cursor, until somebody else takes it over."""

    consumer: str
    fence: int


class ConsumerState(NamedTuple):
    """How a consumer is doing."""

    name: str
    read: bool
    """A living process delivers to it."""
    events_behind: int
    tasks_behind: int
    """Tasks with events that it has not got. At most `MOST_BEHIND` are counted, with their events."""
    behind_since: float | None
    """When the oldest of these events was stored, in Unix seconds."""
    delivered: float | None
    """When it last took something."""
    failures: int
    """Batches that it has refused in a row."""
    error: str | None


MOST_BEHIND = 1_000


class Outbox(Protocol):
    """Where the log is delivered from: every stored event of every task, to each consumer that is registered, at least once.

    A consumer's cursor is a number in each task. Events of a task are seen in their order whatever else is under way, so
    that none is passed over; between tasks there is no order. What stands in a task that is deleted goes with it. Of a fork
    its own events are delivered: those that it shares are the other task's.
    """

    async def register(self, name: str, *, from_now: bool = False) -> bool:
        """Begin to keep a cursor; False if there is one. `from_now`: it gets what is stored from now on, else all there is."""
        ...

    async def forget(self, name: str) -> bool:
        """Keep no cursor any more; False if there was none."""
        ...

    async def take(self, name: str) -> Reading | None:
        """Become the one who delivers to it; None while another living process does. `InputError`: it is not registered."""
        ...

    async def beat(self, reading: Reading, *, failures: int = 0, error: str | None = None) -> None:
        """Say that this process lives, and how it is doing. `StaleWriter`: another has taken it over."""
        ...

    async def next(self, reading: Reading) -> Batch:
        """Some of what it has not got yet; empty if there is nothing. `StaleWriter`: another has taken it over."""
        ...

    async def delivered(self, reading: Reading, batch: Batch) -> None:
        """Move the cursor; may be said twice. `StaleWriter`: another has taken it over, who delivers the batch again."""
        ...

    async def leave(self, reading: Reading) -> None:
        """Let another process deliver, if this one still does."""
        ...

    async def consumers(self) -> list[ConsumerState]: ...


@runtime_checkable
class HasOutbox(Protocol):
    """A store that keeps cursors."""

    def outbox(self) -> Outbox: ...


class NotTaken(ReplanError):
    """A consumer has not taken all of a batch: it comes again, after so many seconds at the earliest."""

    def __init__(self, message: str, *, after_secs: float = 0.0) -> None:
        super().__init__(message)
        self.after_secs = after_secs


class Consumer(Protocol):
    """Somebody who is delivered the log: `name` is what the cursor is kept under.

    `deliver` takes a batch as a whole: what it raises has the same batch come again, after a pause. The same event may come
    twice, with the same `task_id` and `seq`; so may a task's last events before those that came already.
    """

    name: str

    def deliver(self, records: Sequence[Record]) -> Coroutine[Any, Any, None]: ...
