"""The list of tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from replan.errors import TaskNotFound
from replan.ports import TaskSummary
from replan.store.postgres import statements as sql
from replan.store.postgres.line import Row
from replan.store.postgres.ports.opened import Opened
from replan.store.postgres.presence import OTHERS
from replan.store.postgres.tenants import listing


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
        asked = partial(
            listing.rows, status=status, limit=limit, before=before, tenant=tenant, session=session
        )
        found = await self._do(self._lined(asked))
        return list(map(self._summary, found))

    async def let_in(self, tenant: str) -> int:
        rows = await self._do(self._ask_again(sql.LET_IN, {"tenant": tenant}))
        return int(rows[0][0]) if rows else 0

    async def count_tasks(self, tenant: str | None = None, *, unfinished: bool = False) -> int:
        counted = partial(listing.count, tenant=tenant, unfinished=unfinished)
        return await self._do(self._lined(counted))

    async def summary(self, task_id: str) -> TaskSummary:
        async def work() -> TaskSummary:
            rows = await self._ask_again(
                f"SELECT t.*, ({OTHERS}) FROM ({sql.SUMMARY} WHERE task_id = %(task)s::text) t",
                {"task": task_id, "mine": self._presence.mine},
            )
            if not rows:
                raise TaskNotFound(task_id)
            self._others = rows[0][-1] > 0
            return self._summary(rows[0])

        return await self._do(work())

    def others(self) -> bool:
        return self._others

    def _summary(self, row: Row) -> TaskSummary:
        task_id, status, description, created, updated, last_seq = row[:6]
        return TaskSummary(
            task_id,
            status,
            json.loads(description),
            created,
            updated,
            last_seq,
            held=(held := self._held(row)),
            left=row[6] is not None and not held,
            queue=(row[9] or "").rpartition(":")[0],
            due=bool(row[10]),
            given_away=row[11] or "",
            tenant=row[12],
            session=row[13],
            rewritten=row[14],
        )

    def _held(self, row: Row) -> bool:
        holder, epoch, alive = row[6:9]
        if holder == self._presence.mine:
            return bool(self._driven.get(row[0]) == epoch)
        return bool(alive)
