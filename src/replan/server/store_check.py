"""Whether the store takes what a task would write: what a balancer sends elsewhere is better off than what is refused here."""

from __future__ import annotations

import asyncio

from replan.errors import StoreBusy
from replan.ports import Store
from replan.run.session.shielding import noticed

FRESH_SECS = 0.25
"""So long an answer holds for everybody who asks."""
MOST_SECS = 5.0
"""So long it may take."""


class StoreCheck:
    """A look into the store and a write, for all who ask at a time; raises what keeps it from either."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looking: asyncio.Task[None] | None = None
        self._ended = 0.0

    async def __call__(self) -> None:
        loop = asyncio.get_running_loop()
        looking = self._looking
        if looking is None or (looking.done() and loop.time() - self._ended > FRESH_SECS):
            looking = self._looking = loop.create_task(self._look())
            looking.add_done_callback(self._has_looked)
        done, _ = await asyncio.wait({looking}, timeout=MOST_SECS)
        if not done:
            raise StoreBusy(f"the database {self._store.shown} has not answered within {MOST_SECS:.0f} s")
        looking.result()

    async def _look(self) -> None:
        await self._store.try_write()  # first: it is told at once why not
        await self._store.list_tasks(limit=1)

    def _has_looked(self, looking: asyncio.Task[None]) -> None:
        self._ended = asyncio.get_running_loop().time()
        noticed(looking)
