"""The logs of a task's family, as far as they have been read: each is gone on with where it was left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replan.core.again.in_family import Family
from replan.core.events import PlanGenerated, PlanUpdated, TaskForked, TaskSubmitted
from replan.core.state.task import State
from replan.core.types import ToolSpec
from replan.errors import TaskNotFound
from replan.run.session.context import Run
from replan.run.session.pages import folded, pages

if TYPE_CHECKING:
    from collections.abc import Callable


class FamilyLogs:
    """What the other tasks of a family have done, for one drive."""

    __slots__ = ("_read", "_run")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._read: dict[str, tuple[float, State]] = {}
        """With when the task was created: its name may come again."""

    async def state(self, task_id: str, created: float) -> State:
        """What the task has come to by now."""
        known = self._read.get(task_id)
        before = known[1] if known is not None and known[0] == created else State()
        state = await folded(self._run.parts.store, task_id, before)
        self._read[task_id] = created, state
        return state

    async def all(self, resolve: Callable[[str], ToolSpec | None]) -> Family:
        """The task with all others of its family."""
        run, store = self._run, self._run.parts.store
        line = await store.rests_on(run.task_id)
        waiting = [line[0].task_id if line else run.task_id]
        others: dict[str, State] = {}
        for task_id in waiting:
            try:
                waiting += [one.task_id for one in await store.forks(task_id)]
                if task_id != run.task_id:
                    others[task_id] = await self.state(task_id, (await store.summary(task_id)).created)
            except TaskNotFound:
                continue  # deleted meanwhile
        return Family(run.state, others, resolve)

    async def meant_since(self, version: int) -> float:
        """When the plan of this version was meant: made by a model, or given with the task or with the fork."""
        given, plans, ts = 0.0, 0, 0.0
        async for records in pages(self._run.parts.store, self._run.task_id):
            for one in records:
                if isinstance(one.event, TaskSubmitted | TaskForked) and one.event.plan is not None:
                    given = one.ts
                elif isinstance(one.event, PlanGenerated | PlanUpdated):
                    plans, ts, given = plans + 1, given or one.ts, 0.0
                    if plans == version:
                        return ts
        return ts


def logs_of(run: Run) -> FamilyLogs:
    """Those of this drive."""
    if run.family is None:
        run.family = FamilyLogs(run)
    found: FamilyLogs = run.family
    return found
