"""The list of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from replan.core.state.task import ENDED


class TaskSummary(NamedTuple):
    """One row of the task list, a reading of the log."""

    task_id: str
    status: str
    description: str
    created: float
    updated: float
    last_seq: int
    held: bool
    """A living process drives it."""
    queue: str = ""
    """Of a task that workers take."""
    due: bool = False
    """Something was asked of the workers that none has taken up yet."""
    given_away: str = ""
    """A file of an export has it, and nobody goes on with it here: the SHA-256 in the end of that file."""
    tenant: str = ""
    """Whose it is, in a service."""
    session: str = ""
    """`context.session_id` of the request."""
    rewritten: int = 0
    """It grows when stored events of its history are written anew (`EventLog.redact`): what was read of them before is out of date."""
    left: bool = False
    """Whoever has driven it last is gone, and had not let go of it."""

    @property
    def lacks_worker(self) -> bool:
        """A worker should drive it, and none does."""
        idle = self.status in ENDED or (self.status == "waiting" and not self.due)
        return self.queue != "" and not self.held and not idle and not self.given_away


class TaskIndex(Protocol):
    """The list of tasks, newest first."""

    async def list_tasks(
        self,
        *,
        status: Sequence[str] = (),
        limit: int = 100,
        before: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
    ) -> list[TaskSummary]:
        """`tenant`: of that one alone; None: of all. `before`: those that are older than this task, which has to be of that tenant."""
        ...

    async def let_in(self, tenant: str) -> int:
        """How many tasks of the tenant were stored with a `Counted`."""
        ...

    async def count_tasks(self, tenant: str | None = None, *, unfinished: bool = False) -> int:
        """How many there are; `unfinished`: of those that have not ended."""
        ...

    async def summary(self, task_id: str) -> TaskSummary: ...
    def others(self) -> bool:
        """True if another living process has this database open, or if that cannot be told."""
        ...

    async def delete(self, task_id: str, *, unfinished: bool = False) -> None:
        """Remove a task with its log and artifacts. `TaskHeld` if somebody drives it; `InputError` if it has not ended,
        unless `unfinished` ones may go too; `TaskShared` if forks rest on it."""
        ...
