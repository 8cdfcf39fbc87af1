"""What the tasks that a tenant has submitted today have used, as their logs say."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from itertools import takewhile
from typing import NamedTuple, get_args

from replan.core.events import LlmCallCompleted, Record, TaskForked
from replan.core.limits.policy import Budget, Policy
from replan.core.state.task import ENDED, TaskStatus
from replan.errors import TaskNotFound
from replan.ports import TaskSummary
from replan.run.service.tasks import Service
from replan.run.session.pages import pages

DAY = 86_400.0
FRESH_SECS = 5.0
"""So long a sum counts at the most."""
TIMES_WHAT_IT_TOOK = 10
"""So long one counts else: whoever waits for a task to end before the next is told what that has used, and a tenant whose sums take
long has few of them."""
MOST_TENANTS = 1_000
PAGE = 200
UNFINISHED = tuple(status for status in get_args(TaskStatus) if status not in ENDED)


class Spent(NamedTuple):
    """An amount of what costs something."""

    cost_usd: float = 0.0
    tokens: int = 0

    def __add__(self, other: object) -> Spent:
        assert isinstance(other, Spent)
        return Spent(self.cost_usd + other.cost_usd, self.tokens + other.tokens)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.cost_usd - other.cost_usd, self.tokens - other.tokens)


class Today(NamedTuple):
    used: Spent
    held: Spent
    """What unfinished tasks with a budget may use beyond that."""
    seen: int = 0
    """How many tasks had been let in when that was begun to be summed up."""


class _Task(NamedTuple):
    """What of a task's log has been read comes to."""

    seq: int = 0
    used: Spent = Spent()
    budget: Budget | None = None
    """None: a fork's, which goes on by what its history says."""

    @property
    def held(self) -> Spent:
        budget = self.budget or Budget()
        return Spent(
            max((budget.max_cost_usd or 0.0) - self.used.cost_usd, 0.0),
            max((budget.max_tokens or 0) - self.used.tokens, 0),
        )

    def after(self, record: Record) -> _Task:
        event, used = record.event, self.used
        if isinstance(event, LlmCallCompleted):
            used += Spent(event.usage.cost_usd, event.usage.input_tokens + event.usage.output_tokens)
        elif isinstance(event, TaskForked):
            used = Spent()  # what is shared was spent by the other task
        return _Task(record.seq, used, _budget_of(record) or self.budget)


class _Tenant:
    def __init__(self, day: float) -> None:
        self.day = day
        self.unfinished: dict[str, _Task] = {}
        self.ended: set[str] = set()
        self.used = Spent()
        """By those that have ended."""
        self.sum = Today(Spent(), Spent())
        self.since = Spent()
        """What tasks may use that were stored since the sum was made."""
        self.fresh_until = float("-inf")
        self.lock = asyncio.Lock()


class Spending:
    """Sums that are kept, and brought up to date by what has changed: a task that has ended is read once."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._store = service.parts.store
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()

    def stored(self, tenant: str, may_use: Spent) -> None:
        """A task more is there."""
        if (known := self._tenants.get(tenant)) is not None:
            known.since += may_use

    async def today(self, tenant: str, overtaken: int | None = None) -> Today:
        """`overtaken`: a sum that was made when so many had been let in counts no more."""
        now = self._service.parts.clock.now()
        day = now - now % DAY
        known = self._tenants.get(tenant)
        if known is None or known.day != day:
            known = self._tenants[tenant] = _Tenant(day)
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > MOST_TENANTS:
            self._tenants.popitem(last=False)
        async with known.lock:  # who comes meanwhile waits for the same sum
            if now >= known.fresh_until or known.sum.seen == overtaken:
                began = time.perf_counter()
                seen = await self._store.let_in(tenant)
                known.since = Spent()
                await self._bring_up(tenant, known)
                used, held = known.used, Spent()
                for one in known.unfinished.values():
                    used, held = used + one.used, held + one.held
                fresh = min(FRESH_SECS, TIMES_WHAT_IT_TOOK * (time.perf_counter() - began))
                known.sum, known.fresh_until = Today(used, held, seen), now + fresh
        return known.sum._replace(held=known.sum.held + known.since)

    async def _bring_up(self, tenant: str, known: _Tenant) -> None:
        gone = set(known.unfinished)
        before = gone | known.ended
        async for page in self._newest(known.day, tenant, UNFINISHED):
            gone -= {summary.task_id for summary in page}
            await self._look(known, page)
        for task_id in gone:
            try:
                await self._look(known, [await self._store.summary(task_id)])
            except TaskNotFound:  # deleted, it was paid for nevertheless
                known.used += known.unfinished.pop(task_id).used
        async for page in self._newest(known.day, tenant):
            await self._look(
                known,
                [
                    one
                    for one in page
                    if one.task_id not in known.ended and one.task_id not in known.unfinished
                ],
            )
            if before.issuperset(summary.task_id for summary in page):
                return  # what is older is known, too: some are stored out of turn, though not so far

    async def _newest(
        self, since: float, tenant: str, status: Sequence[str] = ()
    ) -> AsyncIterator[list[TaskSummary]]:
        """By page: what was submitted since then."""
        before = None
        while True:
            try:
                page = await self._store.list_tasks(status=status, limit=PAGE, before=before, tenant=tenant)
            except TaskNotFound:  # the last one was deleted meanwhile: the next sum has what is after it
                return
            recent = list(takewhile(lambda summary: summary.created >= since, page))
            if recent:
                yield recent
            if len(recent) < PAGE:
                return
            before = page[-1].task_id

    async def _look(self, known: _Tenant, summaries: Sequence[TaskSummary]) -> None:
        """All of them in one reading, of the few events that count."""
        before = {one.task_id: known.unfinished.get(one.task_id, _Task()) for one in summaries}
        found: dict[str, list[Record]] = {}
        for ended, kinds in ((True, _SPENT), (False, (*_SPENT, "task_submitted"))):
            new = {
                one.task_id: before[one.task_id].seq
                for one in summaries
                if (one.status in ENDED) is ended and before[one.task_id].seq < one.last_seq
            }
            found |= await self._store.picked(new, kinds) if new else {}
        for summary in summaries:
            task = before[summary.task_id]
            for record in found.get(summary.task_id, ()):
                task = task.after(record)
            task = task._replace(seq=max(task.seq, summary.last_seq))
            if summary.status in ENDED:
                known.unfinished.pop(summary.task_id, None)
                known.ended.add(summary.task_id)
                known.used += task.used
            elif task.budget is None:
                known.unfinished[summary.task_id] = task._replace(budget=await self._shared_budget(summary))
            else:
                known.unfinished[summary.task_id] = task

    async def _shared_budget(self, summary: TaskSummary) -> Budget:
        """Of a fork that goes on by the policy of the other task: what stands last in their common history."""
        budget = Budget()
        with contextlib.suppress(TaskNotFound):  # deleted just now
            async for records in pages(self._store, summary.task_id):
                for record in records:
                    budget = _budget_of(record) or budget
        return budget


def _budget_of(record: Record) -> Budget | None:
    policy = getattr(record.event, "policy", None)
    return policy.budget if isinstance(policy, Policy) else None


_SPENT = ("llm_call_completed", "task_forked")
"""Kinds of events that say what was used; what may still be used is said by `task_submitted`, too."""
