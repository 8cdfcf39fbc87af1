"""Tasks that share the beginning of their logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from replan.core.events import ForkMade, TaskForked
from replan.core.limits.needs import Work
from replan.ports.log import Claim, Counted


class Shared(NamedTuple):
    """Of two tasks that share a history, the other one; and the last event that is shared."""

    task_id: str
    upto: int


class Member(NamedTuple):
    """One of a family of forks, and the last event that its log has by now."""

    task_id: str
    created: float
    last_seq: int


class Taken(NamedTuple):
    """Which task of a family makes a call."""

    task_id: str
    """Empty: one that was deleted."""
    times: int
    """How often it was taken so far: it goes up with each try."""


class Forks(Protocol):
    """Tasks that share the beginning of their logs, by reference: what is read of a fork begins with the other task's events.

    A family is a task with its forks and theirs. A call that must not be made twice is made by one of them.
    """

    async def fork(
        self,
        task_id: str,
        event: TaskForked,
        told: ForkMade,
        ts: float,
        *,
        work: Work | None = None,
        turn: Counted | None = None,
    ) -> bool:
        """Store a new task that goes on from `event.at` of `event.origin`; `told` goes to the log that it rests on, if that has not
        ended. True if it was new, False if the same fork was there; `InputError` if there is no such event.

        `work`: how it waits for a worker. `turn`: as of `create`.
        """
        ...

    async def rests_on(self, task_id: str) -> list[Shared]:
        """The tasks whose events this one's log begins with, the oldest first: they cannot be deleted before it."""
        ...

    async def forks(self, task_id: str) -> list[Shared]:
        """The tasks that rest on this one's own events, in the order they came."""
        ...

    async def family(self, task_id: str) -> list[Member]:
        """All tasks that share some history with this one, and itself: each after the one that it was forked from."""
        ...

    async def take(self, claim: Claim, key: str, *, over: Taken | None = None) -> Taken:
        """Take a call for this task, unless another one of its family has it; who has it now.

        `over`: also where that one has it, if it has not taken it once more since. `StaleWriter` if fenced out.
        """
        ...

    async def who_has(self, task_id: str, keys: Sequence[str]) -> dict[str, str]:
        """Which tasks of its family have these calls; empty for one that was deleted. What nobody has is left out."""
        ...

    async def reserve(self, task_id: str, keys: Sequence[str]) -> None:
        """These calls are that task's, unless one of its family has taken them: made before it had forks."""
        ...
