"""What is read of the log, once or as it grows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial

from replan.core import events as e
from replan.store.sqlite.opened import Opened
from replan.store.tenants import picking
from replan.store.watch import Listener

_FOLLOW_PAGE = 500


class Reading(Opened):
    """What is read of the log, once or as it grows."""

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[e.Record]:
        from_the_first = after == 0 and (limit is None or limit > 0) and not signals_only
        if from_the_first and (first := self._only_created(task_id)) is not None:
            return [first]
        return (await self._reader.page(task_id, after, limit, signals_only)).records

    async def picked(self, after: Mapping[str, int], kinds: Collection[str]) -> dict[str, list[e.Record]]:
        return await self._reader.run(partial(picking.picked, after=after, kinds=kinds))

    def _only_created(self, task_id: str) -> e.Record | None:
        """The request that a task's log consists of, where it was stored here just now: who drives it need not wait for it."""
        if (made := self._created.pop(task_id, None)) is None or self._closed:
            return None
        # Another process may have deleted that task, and taken its id for another one.
        if self._writer.at_once(lambda db: db.execute(_ONLY, (task_id, *made)).fetchall()) != [(1,)]:
            return None
        return e.Record(1, task_id, made[0], 0, e.load("task_submitted", made[1]))

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[e.Record]:
        with self._watchers.watch(task_id) as watch:
            while not self._closed:
                watch.clear()
                records, last = await self._reader.page(task_id, after, _FOLLOW_PAGE)
                for record in records:
                    yield record
                    if isinstance(record.event, e.TERMINAL):
                        return
                    after = record.seq
                if last:
                    return
                if len(records) < _FOLLOW_PAGE:
                    watch.seen = after
                    await watch.wait()

    def listen(self, task_id: str, tell: Callable[[], None]) -> Listener:
        return self._watchers.listen(task_id, tell)


_ONLY = (
    "SELECT 1 FROM task JOIN event ON id = task WHERE task_id = ? AND seq = 1 AND ts = ? AND data = ? "
    "AND NOT EXISTS (SELECT 1 FROM event WHERE task = id AND seq > 1)"
)
"""Whether that request is all that the log has."""
