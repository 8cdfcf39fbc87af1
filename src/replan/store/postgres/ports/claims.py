"""Who drives a task: claimed, confirmed, given back."""

from __future__ import annotations

import asyncio

from replan.errors import StaleWriter, StoreError, TaskGivenAway, TaskHeld, TaskNotFound
from replan.ports import Claim
from replan.store.postgres import statements as sql
from replan.store.postgres.line import Line
from replan.store.postgres.ports.opened import Opened


class Claims(Opened):
    """Who drives a task: claimed, confirmed, given back."""

    async def claim(self, task_id: str, *, steal: bool = False) -> Claim:
        async def work(line: Line) -> Claim:
            params = {
                "task": task_id,
                "mine": self._presence.mine,
                "driven": self._driven.get(task_id, -1),
                "steal": steal,
            }
            rows = await line.ask(sql.CLAIM, params)
            if rows:
                claim = Claim(task_id, rows[0][0])
                self._driven[task_id] = claim.fence
                self._writer.begins(claim)
                return claim
            known = await line.ask(
                "SELECT holder, given_away FROM task WHERE task_id = %(task)s::text", {"task": task_id}
            )
            if not known:
                raise TaskNotFound(task_id)
            if known[0][1] is not None:
                raise TaskGivenAway(task_id, known[0][1])
            who = "this process already" if known[0][0] == self._presence.mine else "another process"
            raise TaskHeld(
                f"task {task_id!r} is being driven by {who} (watch it: `replan tasks watch {task_id}`)"
            )

        if self._closed:
            raise StoreError(f"the store {self.shown} is closed")
        claiming = self._writer.queue(work, of=task_id)
        try:
            claim: Claim = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(self._give_back)
            raise
        return claim

    def _give_back(self, claimed: asyncio.Future[Claim]) -> None:
        """Release a claim that nobody waits for any more."""
        if not claimed.cancelled() and claimed.exception() is None and not self._closed:
            releasing = asyncio.ensure_future(self._let_go(claimed.result()))
            releasing.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def confirm(self, claim: Claim) -> None:
        async def work() -> None:
            rows = await self._ask_again(sql.LOOK, {"task": claim.task_id})
            if not rows:
                raise TaskNotFound(claim.task_id)
            if rows[0][0] != claim.fence:
                raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver")

        await self._do(work())

    async def release(self, claim: Claim) -> None:
        await asyncio.shield(self._let_go(claim))

    async def _let_go(self, claim: Claim) -> None:
        """The fence goes up, so that nothing can be appended with the claim that was given back."""

        async def work(line: Line) -> None:
            try:
                await line.ask(sql.RELEASE, {"task": claim.task_id, "epoch": claim.fence})
            finally:
                # Even if it could not be written: nobody here drives it, so that it can be claimed here again.
                self._writer.over(claim)
                if self._driven.get(claim.task_id) == claim.fence:
                    del self._driven[claim.task_id]

        await self._writer.run(work, of=claim.task_id)
