"""Tasks from and to other stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from replan.ports import Admission, Claim, StoredRow, StoredTask
from replan.store.postgres.kept import moving
from replan.store.postgres.ports.opened import Opened


class Moves(Opened):
    """`ports.Movable`."""

    async def stored(self, task_id: str) -> StoredTask:
        return await self._do(self._lined(lambda line: moving.stored(line, task_id)))

    async def rows(self, task_id: str, after: int = 0, limit: int = 500) -> list[StoredRow]:
        return await self._do(self._lined(lambda line: moving.rows(line, task_id, after, limit)))

    async def admit(self, admissions: Sequence[Admission], digest: str, *, not_gone_on: bool = False) -> None:
        epochs = moving.new_epochs(admissions)
        await self._do(
            self._lined(lambda line: moving.admit(line, admissions, digest, epochs, not_gone_on=not_gone_on))
        )

    async def undelivered(self, task_ids: Collection[str]) -> list[tuple[str, str]]:
        return await self._do(self._lined(lambda line: moving.undelivered(line, task_ids)))

    async def give_away(self, claims: Mapping[Claim, int], digest: str) -> None:
        await self._do(self._lined(lambda line: moving.give_away(line, claims, digest)))
        for claim in claims:
            self._writer.over(claim)
            self._driven.pop(claim.task_id, None)

    async def remove_given(self, task_ids: Sequence[str], digest: str) -> None:
        used = await self._do(self._lined(lambda line: moving.remove_given(line, task_ids, digest)))
        for task_id in task_ids:
            self._appended(task_id)
        if used:
            await self._contents.unused(used)

    async def take_back(self, task_ids: Sequence[str], digest: str | None = None) -> list[str]:
        return await self._do(self._lined(lambda line: moving.take_back(line, task_ids, digest)))
