"""Tasks that are removed, and what only they used."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence

from replan.core.state.task import ENDED
from replan.errors import TaskHeld, TaskNotFound, TaskShared, TaskUnfinished
from replan.store import contents, forks, moving
from replan.store.keeping import remove
from replan.store.sqlite.opened import Opened


class Removal(Opened):
    """Tasks that are removed, and what only they used."""

    async def delete(self, task_id: str, *, unfinished: bool = False) -> None:
        def work(db: sqlite3.Connection) -> list[int]:
            row = db.execute(
                "SELECT id, status, holder, epoch FROM task WHERE task_id = ?", (task_id,)
            ).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            number, status, holder, epoch = row
            here = holder == self._holders.mine
            if (here and self._driven.get(task_id) == epoch) or (not here and self._holders.alive(holder)):
                raise TaskHeld(f"task {task_id!r} is being driven and cannot be deleted; cancel it first")
            if status not in ENDED and not unfinished:
                raise TaskUnfinished(task_id, status)
            if shared := forks.forks_of(db, task_id):
                raise TaskShared(task_id, [one.task_id for one in shared])
            return moving.remove(db, number)

        used = await self._writer.submit(work, large=True)
        self._watchers.changed(task_id)
        await self._unused(used)

    async def _unused(self, used: Sequence[int]) -> None:
        if used:
            await asyncio.shield(remove(self._writer, used, time.time() - contents.KEPT_SECS))
