"""What a tenant may use: tasks at a time, submits in a time, and budgets of a task and of a day."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic import ValidationError

from replan.config.sections import Limits
from replan.core.tools.rules import Rate, read_rate
from replan.core.types import JsonObject
from replan.errors import InputError, TooMany
from replan.ports import Keys
from replan.run.access.requests import SubmitOptions
from replan.run.access.spending import DAY, Spending, Spent
from replan.run.service.tasks import Service

FRESH_SECS = 5.0
"""So long what the store has said of a tenant's limits counts."""
RETRY_AFTER_SECS = 5.0
MOST_REMEMBERED = 10_000
_OF_A_TASK = {"max_cost_usd": "max_cost_usd_per_task", "max_tokens": "max_tokens_per_task"}


def checked_limits(own: JsonObject) -> JsonObject:
    """A tenant's own limits, as they are stored: what is left out is as the configuration says, null is no limit. `InputError`."""
    try:
        Limits.model_validate(own)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InputError(f"limits: {name}: {first['msg'].removeprefix('Value error, ')}") from None
    return own


def limits_of(defaults: Limits, own: JsonObject | None) -> Limits:
    return defaults if not own else Limits.model_validate({**defaults.model_dump(), **own})


def lowered(options: SubmitOptions, limits: Limits) -> SubmitOptions:
    """What the caller has chosen for a task, within what its tenant may use for one."""
    changes: dict[str, Any] = {}
    for name, limit in _OF_A_TASK.items():
        asked, allowed = getattr(options, name), getattr(limits, limit)
        if allowed is not None and (asked is None or asked > allowed):
            changes[name] = allowed
    return options.model_copy(update=changes) if changes else options


class Bucket:
    """Tokens that come back at a steady rate; full, it holds the rate's calls."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate = rate
        self._left = float(rate.calls)
        self._at = now

    def take(self, now: float) -> float | None:
        """Take one; or the seconds until there is one."""
        each = self.rate.secs / self.rate.calls
        self._left = min(self.rate.calls, self._left + max(now - self._at, 0.0) / each)
        self._at = max(now, self._at)
        if self._left >= 1.0 - 1e-9:
            self._left = max(self._left - 1.0, 0.0)
            return None
        return (1.0 - self._left) * each


class Quotas:
    """The limits of all tenants, as this process has them. Its rates are its own; what is counted in the store is everybody's."""

    def __init__(
        self,
        defaults: Limits,
        service: Service,
        keys: Keys | None = None,
        *,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._defaults = defaults
        self._keys = keys
        self._parts = service.parts
        self._spending = Spending(service)
        self._monotonic = monotonic or asyncio.get_running_loop().time
        self._known: OrderedDict[str, tuple[float, Limits]] = OrderedDict()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._coming: Counter[str] = Counter()
        """Tasks that are let in and not stored yet."""
        self._promised: dict[str, Spent] = {}
        """What these may use."""

    async def limits(self, tenant: str) -> Limits:
        if self._keys is None:
            return self._defaults
        now = self._monotonic()
        known = self._known.get(tenant)
        if known is not None and now < known[0]:
            return known[1]
        limits = limits_of(self._defaults, await self._keys.tenant_limits(tenant))
        _remember(self._known, tenant, (now + FRESH_SECS, limits))
        return limits

    async def within(self, tenant: str, options: SubmitOptions) -> SubmitOptions:
        return lowered(options, await self.limits(tenant))

    async def look(self, tenant: str) -> None:
        """`TooMany` if the tenant may have nothing planned now: its rate, or its day."""
        limits = await self.limits(tenant)
        self._keep_rate(tenant, limits)
        await self._keep_day(tenant, limits, Spent())

    @asynccontextmanager
    async def place(self, tenant: str, options: SubmitOptions) -> AsyncIterator[SubmitOptions]:
        """Room for one task more while it is being stored, and what it may use. `TooMany` says when to come again."""
        limits = await self.limits(tenant)
        options = lowered(options, limits)
        wanted = Spent(options.max_cost_usd or 0.0, options.max_tokens or 0)
        self._keep_rate(tenant, limits)
        self._coming[tenant] += 1  # before anything is waited for: others come meanwhile
        self._promised[tenant] = self._promised.get(tenant, Spent()) + wanted
        try:
            await self._keep_count(tenant, limits)
            await self._keep_day(tenant, limits, wanted)
            yield options
            self._spending.stored(tenant, wanted)
        finally:
            self._coming[tenant] -= 1
            self._promised[tenant] = self._promised[tenant] - wanted
            if not self._coming[tenant]:
                del self._coming[tenant], self._promised[tenant]

    def _keep_rate(self, tenant: str, limits: Limits) -> None:
        if limits.submits is None:
            return
        now, rate = self._monotonic(), read_rate(limits.submits)
        bucket = self._buckets.get(tenant)
        if bucket is None or bucket.rate != rate:
            bucket = Bucket(rate, now)
        _remember(self._buckets, tenant, bucket)
        wait = bucket.take(now)
        if wait is not None:
            raise TooMany(f"the tenant may submit {limits.submits}: try again later", retry_after=wait)

    async def _keep_count(self, tenant: str, limits: Limits) -> None:
        allowed = limits.max_unfinished_tasks
        if allowed is None:
            return
        there = await self._parts.store.count_tasks(tenant, unfinished=True)
        if there + self._coming[tenant] > allowed:
            raise TooMany(
                f"the tenant has {there} unfinished tasks, and may have {allowed}: wait until one has ended, or cancel one",
                retry_after=RETRY_AFTER_SECS,
            )

    async def _keep_day(self, tenant: str, limits: Limits, wanted: Spent) -> None:
        """Of the tasks of a day, what they have used and what the unfinished may still use is within the limit."""
        if limits.max_cost_usd_per_day is None and limits.max_tokens_per_day is None:
            return
        day = await self._spending.today(tenant)
        coming = self._promised.get(tenant, Spent())
        for what, used, held, allowed in (
            ("dollars", day.used.cost_usd, day.held.cost_usd + coming.cost_usd, limits.max_cost_usd_per_day),
            ("tokens", day.used.tokens, day.held.tokens + coming.tokens, limits.max_tokens_per_day),
        ):
            if allowed is None:
                continue
            if used >= allowed:
                now = self._parts.clock.now()
                raise TooMany(
                    f"the tasks that the tenant has submitted today (UTC) have used {used:.6g} {what} of {allowed:g}: the next day begins anew",
                    retry_after=DAY - now % DAY,
                )
            if used + held > allowed + 1e-9:
                raise TooMany(
                    f"of {allowed:g} {what} a day the tenant's tasks have used {used:.6g}, and the unfinished ones with this one may use {held:.6g} more: "
                    "wait until one has ended, or ask for less",
                    retry_after=RETRY_AFTER_SECS,
                )


def _remember(known: OrderedDict[str, Any], tenant: str, value: Any) -> None:
    known[tenant] = value
    known.move_to_end(tenant)
    if len(known) > MOST_REMEMBERED:
        known.popitem(last=False)
