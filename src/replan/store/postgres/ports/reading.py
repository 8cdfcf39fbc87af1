"""What is read of the log, once or as it grows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial

from replan.beside import beside
from replan.core import events as e
from replan.core.data.pieces import MANY
from replan.errors import StoreError, TaskNotFound
from replan.store.postgres import statements as sql
from replan.store.postgres.ears import Ear
from replan.store.postgres.line import Params
from replan.store.postgres.ports.opened import Opened
from replan.store.postgres.tenants import picking
from replan.store.rows import records_of
from replan.store.tenants.picking import picked_of
from replan.store.watch import Watch

_FOLLOW_PAGE = 500
_NO_END = 2**62
_SIGNALS_ONLY = "AND e.type IN ({})".format(
    ", ".join(f"'{name}'" for name, kind in sorted(e.KINDS.items()) if kind.signal)
)


class Reading(Opened):
    """What is read of the log, once or as it grows."""

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[e.Record]:
        return (await self._do(self._page(task_id, after, limit, signals_only)))[0]

    async def _page(
        self, task_id: str, after: int, limit: int | None, signals_only: bool = False
    ) -> tuple[list[e.Record], bool]:
        """Records after `after`, at most `limit`; and whether nothing can come after these."""
        most = None if limit is None else max(limit, 0)
        after = max(after, 0)
        # Signals lie in rows of their own, and are far between.
        ends = most is not None and not signals_only
        params: Params = {"task": task_id, "after": after, "to": after + (most or 1) if ends else _NO_END}
        narrowed = {
            "only": _SIGNALS_ONLY if signals_only else "",
            "own": sql.OWN_TO if ends else "",
            "limit": "" if most is None else f"LIMIT {most or 1}",
        }
        rows = await self._ask_again(sql.PAGE.format(**narrowed), params)
        if not rows:
            raise TaskNotFound(task_id)
        records: list[e.Record] = []
        if rows[0][0] > after:  # a fork, whose log begins with another task's
            for *row, low, upto in await self._ask_again(sql.SHARED_PAGE.format(**narrowed), params):
                records += [one for one in records_of(task_id, [row], low) if one.seq <= upto]  # type: ignore[list-item]
        kept = (row[2:] for row in rows if row[2] is not None)
        records += records_of(task_id, kept, max(after, rows[0][0]))
        records, ended = records[:most], bool(rows[0][1])
        return records, ended and (limit is None or len(records) < limit)

    async def picked(self, after: Mapping[str, int], kinds: Collection[str]) -> dict[str, list[e.Record]]:
        rows = await self._do(self._lined(partial(picking.rows, after=after, kinds=kinds)))
        return await beside(picked_of, rows, kinds) if len(rows) > MANY else picked_of(rows, kinds)

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[e.Record]:
        watch = Watch()
        ear = self._ears.listen(task_id, watch.tell, signals=False)
        try:
            while not self._closed:
                watch.clear()
                records, last = await self._do(self._page(task_id, after, _FOLLOW_PAGE))
                for record in records:
                    yield record
                    if isinstance(record.event, e.TERMINAL):
                        return
                    after = record.seq
                if last:
                    return
                if len(records) < _FOLLOW_PAGE:
                    await watch.wait()
        except StoreError:
            if not self._closed:
                raise
        finally:
            ear.close()

    def listen(self, task_id: str, tell: Callable[[], None]) -> Ear:
        return self._ears.listen(task_id, tell, signals=True)
