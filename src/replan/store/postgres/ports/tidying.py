"""The database freed of what nobody needs."""

from __future__ import annotations

from collections.abc import Collection

from replan.ports import KeptTask
from replan.store.postgres.kept import tidying
from replan.store.postgres.ports.opened import Opened


class Tidying(Opened):
    """`ports.Tidy`."""

    async def sizes(
        self,
        *,
        status: Collection[str],
        before: float | None = None,
        below: int | None = None,
        limit: int = 100,
    ) -> list[KeptTask]:
        return await self._do(self._lined(lambda line: tidying.sizes(line, status, before, below, limit)))

    async def sweep(self) -> int:
        gone = 0
        while some := await self._do(self._lined(tidying.sweep)):
            gone += some
        return gone

    async def give_back(self) -> None:
        await self._do(self._with_line(tidying.give_back))

    async def now(self) -> float | None:
        return await self._do(self._lined(tidying.now))

    async def lived_since(self, before: float) -> float | None:
        return await self._do(self._lined(lambda line: tidying.lived_since(line, before)))

    async def tidy_due(self, secs: float) -> bool:
        return await self._do(self._with_line(lambda line: tidying.due(line, secs)))

    async def not_tidied(self) -> None:
        await self._do(self._with_line(tidying.forget))
