"""Forks, and which of their family makes a call."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence

from replan.core import events as e
from replan.core.limits.needs import Work
from replan.ports import Claim, Counted, Member, Shared, Taken
from replan.store import forks, moving
from replan.store.sqlite.opened import Opened
from replan.store.tenants import turns


class Family(Opened):
    """Forks, and which of their family makes a call."""

    async def fork(
        self,
        task_id: str,
        event: e.TaskForked,
        told: e.ForkMade,
        ts: float,
        *,
        work: Work | None = None,
        turn: Counted | None = None,
    ) -> bool:
        epoch, mine = secrets.randbits(moving.EPOCH_BITS), self._holders.mine

        def stored(db: sqlite3.Connection) -> str | None:
            return forks.fork(db, task_id, event, told, ts, epoch, lambda: turns.take(db, turn, mine))

        rests_on: str | None = await self._writer.submit(stored, large=True)
        if rests_on is None:
            return False
        self._watchers.changed(rests_on, signal=True)
        return True

    async def family(self, task_id: str) -> list[Member]:
        return await self._reader.family(task_id)

    async def rests_on(self, task_id: str) -> list[Shared]:
        return await self._reader.rests_on(task_id)

    async def forks(self, task_id: str) -> list[Shared]:
        return await self._reader.forks(task_id)

    async def take(self, claim: Claim, key: str, *, over: Taken | None = None) -> Taken:
        taken: Taken = await self._writer.submit(lambda db: forks.take(db, claim, key, over))
        return taken

    async def who_has(self, task_id: str, keys: Sequence[str]) -> dict[str, str]:
        return await self._reader.who_has(task_id, keys)

    async def reserve(self, task_id: str, keys: Sequence[str]) -> None:
        await self._writer.submit(lambda db: forks.reserve(db, task_id, keys), large=True)
