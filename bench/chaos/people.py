"""People: they hand tasks in, change their minds, agree or not, and look into the journal before they answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.chaos.outside import ask
from bench.chaos.tasks import plan_for
from replan.errors import ReplanError, StoreError, TaskEnded

LOOK_SECS = 0.3
UNDER_WAY_SECS = 2.0
"""So long a call of a process that was killed may still be on its way to the outside."""


class People:
    """All of them, over one `Replan`."""

    def __init__(self, replan: Any, folder: Path, seed: int, frozen: Callable[[], frozenset[int]]) -> None:
        """`frozen`: the workers that are frozen now. What one of them was about to do it still does when it wakes."""
        self._replan = replan
        self._folder = folder
        self._seed = seed
        self._chance = random.Random(f"{seed} people")
        self._frozen = frozen
        self._doubts: dict[str, tuple[float, frozenset[int]]] = {}
        self.did: Counter[str] = Counter()
        self.plans: dict[str, dict[str, Any]] = {}
        self.rejected: set[str] = set()
        self.stopped: set[str] = set()

    async def hand_in(self, count: int, pause: Callable[[int], float]) -> None:
        """Submit the tasks; `pause`: seconds before the next."""
        async with asyncio.TaskGroup() as both:
            for n in range(count):
                both.create_task(self._one(n))
                await asyncio.sleep(pause(n))

    async def _one(self, n: int) -> None:
        chance = random.Random(f"{self._seed} task {n}")
        task_id, plan = f"task-{n:06d}", plan_for(chance)
        while True:
            try:
                await self._replan.submit(f"do {n}", plan=plan, task_id=task_id)
                break
            except StoreError:
                self.did["handed in again"] += 1
                await asyncio.sleep(0.5)
        self.plans[task_id] = plan
        whim = chance.random()
        if whim < 0.05:
            await asyncio.sleep(chance.uniform(0, 1.5))
            await self._cancel(task_id)
        elif whim < 0.12:
            await asyncio.sleep(chance.uniform(0, 1.5))
            await self._say(lambda: self._replan.service.pause(task_id, now=chance.random() < 0.5), "paused")
            await asyncio.sleep(chance.uniform(0, 4.0))
            await self._say(lambda: self._replan.service.unpause(task_id), "let go on")

    async def _say(self, say: Callable[[], Awaitable[None]], what: str) -> None:
        """Until it is heard, or is of no use any more."""
        while True:
            try:
                await say()
            except StoreError:
                await asyncio.sleep(0.5)
            except ReplanError as error:
                self.did[f"not {what}: {type(error).__name__}"] += 1
                return
            else:
                self.did[what] += 1
                return

    async def _cancel(self, task_id: str) -> None:
        while True:
            try:
                await self._replan.cancel(task_id, reason="on second thoughts")
                self.did["cancelled"] += 1
                self.stopped.add(task_id)
                return
            except TaskEnded:
                return
            except StoreError:
                await asyncio.sleep(0.5)

    async def look_after(self) -> None:
        """Answer whatever is asked, until cancelled."""
        while True:
            try:
                waiting = await self._replan.tasks(status=["waiting"], limit=5_000)
                self._chance.shuffle(waiting)
                for task in waiting:
                    if not task.due:
                        await self._attend(task.task_id)
            except StoreError:
                self.did["not reached"] += 1
            await asyncio.sleep(LOOK_SECS)

    async def _attend(self, task_id: str) -> None:
        result = await self._replan.result(task_id)
        for one in result.waiting_for:
            try:
                if one.kind == "approval":
                    await self._decide(task_id, one.id)
                elif one.kind == "outcome":
                    await self._settle(task_id, one)
                elif one.kind == "intervention":
                    self.did[f"asked for {one.kind}"] += 1
                    await self._cancel(task_id)
            except StoreError:
                raise
            except ReplanError as error:  # somebody else was faster, or it has ended
                self.did[f"refused: {type(error).__name__}"] += 1

    async def _decide(self, task_id: str, approval_id: str) -> None:
        if random.Random(f"{self._seed} {task_id} agrees").random() < 0.1:
            self.rejected.add(task_id)
            await self._replan.reject(task_id, approval_id, reason="no")
            self.did["rejected"] += 1
        else:
            await self._replan.approve(task_id, approval_id)
            self.did["approved"] += 1

    async def _settle(self, task_id: str, question: Any) -> None:
        """Yes at once where the journal has it; no only when whoever was about to do it cannot do it any more."""
        if await ask(self._folder, look=question.step_id, task=task_id):
            await self._replan.answer(task_id, "yes", question.id, output=question.step_id)
            self.did["yes, it happened"] += 1
            return
        now = time.monotonic()
        since, frozen = self._doubts.setdefault(question.id, (now, self._frozen()))
        if left := frozen & self._frozen():
            self._doubts[question.id] = (now, left)
        elif now - since > UNDER_WAY_SECS:
            await self._replan.answer(task_id, "no", question.id)
            self.did["no, it did not"] += 1
