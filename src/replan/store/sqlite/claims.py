"""Who drives a task: claimed, confirmed, given back."""

from __future__ import annotations

import asyncio
import sqlite3

from replan.errors import StaleWriter, TaskGivenAway, TaskHeld, TaskNotFound
from replan.ports import Claim
from replan.store.sqlite.opened import Opened


class Claims(Opened):
    """Who drives a task: claimed, confirmed, given back."""

    async def claim(self, task_id: str, *, steal: bool = False) -> Claim:
        mine = self._holders.mine

        def work(db: sqlite3.Connection) -> Claim:
            row = db.execute(
                "SELECT id, epoch, holder, given_away FROM task WHERE task_id = ?", (task_id,)
            ).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            number, epoch, holder, given_away = row
            if given_away is not None:
                raise TaskGivenAway(task_id, given_away)
            here = holder == mine and self._driven.get(task_id) == epoch
            if not steal and (here or (holder != mine and self._holders.alive(holder))):
                who = "this process already" if here else "another process"
                watch = f"replan tasks watch {task_id}"
                raise TaskHeld(f"task {task_id!r} is being driven by {who} (watch it: `{watch}`)")
            db.execute("UPDATE task SET epoch = ?, holder = ? WHERE id = ?", (epoch + 1, mine, number))
            self._driven[task_id] = epoch + 1  # here, so that the next claim of the same commit sees it
            return Claim(task_id, epoch + 1)

        # Not for the disk: nobody who could heed it outlives the machine.
        future = self._writer.submit(work, durable=False)
        try:
            claim: Claim = await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(self._give_back)
            raise
        self._watchers.changed(task_id)  # what the driver before has written last was not looked at yet
        return claim

    def _give_back(self, claimed: asyncio.Future[Claim]) -> None:
        """Release a claim that nobody waits for any more."""
        if not claimed.cancelled() and claimed.exception() is None:
            self._let_go(claimed.result()).add_done_callback(lambda done: done.exception())

    async def confirm(self, claim: Claim) -> None:
        def work(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT epoch FROM task WHERE task_id = ?", (claim.task_id,)).fetchone()
            if row is None:
                raise TaskNotFound(claim.task_id)
            if row[0] != claim.fence:
                raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver")

        await self._writer.submit(work, durable=False)

    async def release(self, claim: Claim) -> None:
        await asyncio.shield(self._let_go(claim))

    def _let_go(self, claim: Claim) -> asyncio.Future[None]:
        """The fence goes up, so that nothing can be appended with the claim that was given back."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE task SET holder = NULL, epoch = epoch + 1 WHERE task_id = ? AND epoch = ?",
                tuple(claim),
            )

        def gone(_: asyncio.Future[None]) -> None:
            # Even if it could not be written: nobody here drives it, so that it can be claimed here again.
            self._writer.mend(claim)
            if self._driven.get(claim.task_id) == claim.fence:
                del self._driven[claim.task_id]

        future = self._writer.submit(work, durable=False)
        future.add_done_callback(gone)
        return future
