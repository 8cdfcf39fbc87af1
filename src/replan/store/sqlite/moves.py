"""Tasks from and to other stores."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from replan.ports import Admission, Claim, StoredRow, StoredTask
from replan.store import moving
from replan.store.sqlite.removal import Removal


class Moves(Removal):
    """`ports.Movable`."""

    async def stored(self, task_id: str) -> StoredTask:
        return await self._reader.run(partial(moving.stored, task_id=task_id))

    async def rows(self, task_id: str, after: int = 0, limit: int = 500) -> list[StoredRow]:
        return await self._reader.run(partial(moving.rows, task_id=task_id, after=after, limit=limit))

    async def admit(self, admissions: Sequence[Admission], digest: str, *, not_gone_on: bool = False) -> None:
        await self._writer.submit(
            lambda db: moving.admit(db, admissions, digest, time.time(), not_gone_on=not_gone_on),
            on_disk=True,
        )

    async def undelivered(self, task_ids: Collection[str]) -> list[tuple[str, str]]:
        return await self._reader.run(partial(moving.undelivered, task_ids=task_ids))

    async def give_away(self, claims: Mapping[Claim, int], digest: str) -> None:
        await self._writer.submit(lambda db: moving.give_away(db, claims, digest), on_disk=True)
        for claim in claims:
            self._writer.mend(claim)
            if self._driven.get(claim.task_id) == claim.fence:
                del self._driven[claim.task_id]

    async def remove_given(self, task_ids: Sequence[str], digest: str) -> None:
        used = await self._writer.submit(lambda db: moving.remove_given(db, task_ids, digest), large=True)
        for task_id in task_ids:
            self._watchers.changed(task_id)
        await self._unused(used)

    async def take_back(self, task_ids: Sequence[str], digest: str | None = None) -> list[str]:
        found: list[str] = await self._writer.submit(
            lambda db: moving.take_back(db, task_ids, digest), large=True
        )
        return found
