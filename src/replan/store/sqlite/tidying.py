"""The file freed of what nobody needs."""

from __future__ import annotations

import time
from collections.abc import Collection
from functools import partial

from replan.ports import KeptTask
from replan.store import contents, tidying
from replan.store.keeping import remove
from replan.store.sqlite.opened import Opened


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
        return await self._reader.run(
            partial(tidying.sizes, status=status, before=before, below=below, limit=limit)
        )

    async def sweep(self) -> int:
        before, gone = time.time() - contents.KEPT_SECS, 0
        while numbers := await self._reader.run(partial(contents.sweepable, before=before)):
            removed = await remove(self._writer, numbers, before)
            gone += removed
            if not removed:
                break
        return gone

    async def give_back(self) -> None:
        submit = partial(self._writer.submit, large=True, durable=False, patient=False)
        if await self._reader.run(tidying.shrinks):
            while await submit(tidying.give_back):
                pass
            await submit(lambda db: None, scrub=True)  # the file is cut when its own log is brought into it
        elif not self._holders.others():
            await submit(tidying.rebuild, single=True)

    async def now(self) -> float | None:
        return None

    async def lived_since(self, before: float) -> float | None:
        return await self._reader.run(partial(tidying.lived_since, before=before))

    async def tidy_due(self, secs: float) -> bool:
        return bool(
            await self._writer.submit(
                lambda db: tidying.due(db, secs, time.time()), large=True, durable=False, patient=False
            )
        )

    async def not_tidied(self) -> None:
        await self._writer.submit(tidying.forget, large=True, durable=False, patient=False)
