"""Tasks on their way from one store to another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from replan.core.limits.needs import Work
from replan.ports.contents import Content
from replan.ports.log import Claim


class StoredRow(NamedTuple):
    """Some events of a task as they lie in the store: one of a kind, or several of the kind `+` (`seq`: of the last)."""

    seq: int
    ts: float
    round: int
    type: str
    data: str


class StoredTask(NamedTuple):
    """What a store keeps of a task beside its own rows, and another one has to know."""

    task_id: str
    request: str
    """The digest of what was asked."""
    created: float
    artifacts: tuple[tuple[str, Content], ...] = ()
    parent: str | None = None
    """Of a fork: the task whose events, up to `shared`, its log begins with."""
    shared: int = 0
    taken: tuple[tuple[str, str | None, int], ...] = ()
    """The calls that its family has taken, of the first of their line: key, who has it, how often it was taken."""
    sealed_by: str | None = None
    """Of a task that came from another store, and has calls with secrets in it: that store (`seal_mark`)."""


class Admission(NamedTuple):
    """A task that comes from another store: checked, its contents kept already, after the one that it rests on."""

    task: StoredTask
    rows: Callable[[], Iterable[StoredRow]]
    """Each time from the first."""
    status: str
    ended: bool
    description: str
    work: Work | None
    """How it waits for a worker."""
    due: bool
    """Something is to be done for it now: it neither has ended nor waits for a person."""
    last_seq: int = 0
    """The number of its last event."""
    tenant: str = ""
    session: str = ""


@runtime_checkable
class Movable(Protocol):
    """A store whose tasks can be moved to another."""

    async def stored(self, task_id: str) -> StoredTask: ...
    async def rows(self, task_id: str, after: int = 0, limit: int = 500) -> list[StoredRow]: ...
    async def admit(self, admissions: Sequence[Admission], digest: str, *, not_gone_on: bool = False) -> None:
        """Take the tasks of the file with this digest in, all or none. `TaskExists` if one of them is there.

        `InputError` if one that has not ended came in or was given away before with more of its history than here, or with this very
        file, and is gone: it may have gone on, here or where it went. `not_gone_on`: somebody knows that it has not."""
        ...

    async def undelivered(self, task_ids: Collection[str]) -> list[tuple[str, str]]:
        """Which of the tasks some consumer of the log has not got all of, and which consumer."""
        ...

    async def give_away(self, claims: Mapping[Claim, int], digest: str) -> None:
        """Mark tasks whose logs end there, all or none: from now on a file has them, nobody claims them, writes to them or forks them
        here. Their claims are void. `StaleWriter` if a claim holds no more or a log goes on, `TaskShared` if another task rests on one."""
        ...

    async def remove_given(self, task_ids: Sequence[str], digest: str) -> None:
        """Remove tasks that are marked so, all or none; some may be gone already. `StaleWriter` if one is here that is not marked so."""
        ...

    async def take_back(self, task_ids: Sequence[str], digest: str | None = None) -> list[str]:
        """Take the marks off, so that the tasks go on here; `digest`: only this mark. Those that had it."""
        ...
