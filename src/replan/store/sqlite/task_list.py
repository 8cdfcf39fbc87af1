"""The list of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from replan.ports import TaskSummary
from replan.store.sqlite.opened import Opened
from replan.store.tenants import listing, turns


class TaskList(Opened):
    """The list of tasks."""

    async def list_tasks(
        self,
        *,
        status: Sequence[str] = (),
        limit: int = 100,
        before: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
    ) -> list[TaskSummary]:
        found = await self._reader.run(
            partial(listing.rows, status=status, limit=limit, before=before, tenant=tenant, session=session)
        )
        return list(map(self._summary, found))

    async def let_in(self, tenant: str) -> int:
        return await self._reader.run(partial(turns.let_in, tenant=tenant))

    async def count_tasks(self, tenant: str | None = None, *, unfinished: bool = False) -> int:
        return await self._reader.run(partial(listing.count, tenant=tenant, unfinished=unfinished))

    async def summary(self, task_id: str) -> TaskSummary:
        looked = partial(listing.row, task_id=task_id)
        # One row is read sooner than the reading thread is woken up.
        row = None if self._closed else self._writer.at_once(looked)
        await asyncio.sleep(0)  # whoever asks in a loop still lets the task get on that is asked about
        return self._summary(row if row is not None else await self._reader.run(looked))

    def others(self) -> bool:
        return self._holders.others()

    def _summary(self, row: listing.Row) -> TaskSummary:
        if row.holder == self._holders.mine:
            held = row.task_id in self._driven
        else:
            held = self._holders.alive(row.holder)
        summary = TaskSummary(*row[:6], held=held, given_away=row.given_away or "")
        left = row.holder is not None and not held
        return summary._replace(tenant=row.tenant, session=row.session, rewritten=row.rewritten, left=left)
