"""Tasks that are removed."""

from __future__ import annotations

from replan.errors import StoreError, TaskHeld, TaskNotFound, TaskShared, TaskUnfinished
from replan.store.postgres import statements as sql
from replan.store.postgres.line import LONG_SECS, Line
from replan.store.postgres.ports.task_list import TaskList


class Removal(TaskList):
    """Tasks that are removed."""

    async def delete(self, task_id: str, *, unfinished: bool = False) -> None:
        async def work(line: Line) -> list[bytes]:
            params = {
                "task": task_id,
                "mine": self._presence.mine,
                "driven": self._driven.get(task_id, -1),
                "unfinished": unfinished,
            }
            rows = await line.ask(sql.DELETE, params, more_secs=LONG_SECS)
            if rows:
                return [bytes(digest) for digest in rows[0][1] or ()]
            known = await line.ask(sql.LOOK, {"task": task_id})
            if not known:
                raise TaskNotFound(task_id)
            if shared := await line.ask(sql.FORKS, {"task": task_id}):
                raise TaskShared(task_id, [one[0] for one in shared])
            if not known[0][3] and not unfinished:
                held = await line.ask(f"{sql.SUMMARY} WHERE task_id = %(task)s::text", {"task": task_id})
                if not (held and self._held(held[0])):
                    raise TaskUnfinished(task_id, known[0][4])
            raise TaskHeld(f"task {task_id!r} is being driven and cannot be deleted; cancel it first")

        if self._closed:
            raise StoreError(f"the store {self.shown} is closed")
        used: list[bytes] = await self._writer.run(work, of=task_id)
        self._appended(task_id)  # who follows it sees that it is gone
        if used:
            await self._contents.unused(used)
