"""What a tenant may use: tasks at a time, submits in a time, and budgets of a task and of a day."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from pydantic import ValidationError

from replan.config.sections import Limits
from replan.core.tools.rules import Rate, read_rate
from replan.core.types import JsonObject, Usage
from replan.core.words import in_digits
from replan.errors import InputError, TooMany
from replan.ports import Counted, Keys
from replan.run.access.requests import SubmitOptions
from replan.run.access.tenants.fresh import Fresh
from replan.run.access.tenants.spending import DAY, Spending, Spent, Today
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


def _may_use(options: SubmitOptions) -> Spent:
    return Spent(options.max_cost_usd or 0.0, options.max_tokens or 0)


class Bucket:
    """Tokens that come back at a steady rate; full, it holds the rate's calls."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate = rate
        self._left = float(rate.calls)
        self._at = now

    def take(self, now: float) -> float | None:
        """Take one; or the seconds until there is one."""
        wait = self.wait(now)
        if wait is None:
            self._left = max(self._left - 1.0, 0.0)
        return wait

    def wait(self, now: float) -> float | None:
        """The seconds until there is one; None: there is."""
        each = self.rate.secs / self.rate.calls
        self._left = min(self.rate.calls, self._left + max(now - self._at, 0.0) / each)
        self._at = max(now, self._at)
        return None if self._left >= 1.0 - 1e-9 else (1.0 - self._left) * each


def _by_day(limits: Limits) -> bool:
    return limits.max_cost_usd_per_day is not None or limits.max_tokens_per_day is not None


class Leave(NamedTuple):
    """Leave to store a task."""

    options: SubmitOptions
    """What it may use."""
    turn: Counted | None = None
    """It holds until another process has let in one."""


class Planning(NamedTuple):
    """Leave to plan without a task."""

    options: SubmitOptions
    """What it may use."""
    spent: Callable[[Usage], None]
    """To be told what it has used, whatever has come of it."""


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
        self._limits = Fresh(self._asked, FRESH_SECS, monotonic=monotonic, most=MOST_REMEMBERED)
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._coming: Counter[str] = Counter()
        """Tasks that are let in and not stored yet."""
        self._stored: Counter[str] = Counter()
        """How many were, so far."""
        self._promises: Counter[str] = Counter()
        self._promised: dict[str, Spent] = {}
        """What these may use, and plans that are being made without a task."""
        self._planned: OrderedDict[str, tuple[float, Spent]] = OrderedDict()
        """What was used for such plans, which no log has, on which day."""

    async def limits(self, tenant: str) -> Limits:
        return self._defaults if self._keys is None else await self._limits.get(tenant)

    async def bind(self, tenant: str) -> bool:
        """Whether there are any for it."""
        return any(value is not None for _, value in await self.limits(tenant))

    async def _asked(self, tenant: str) -> Limits:
        assert self._keys is not None
        return limits_of(self._defaults, await self._keys.tenant_limits(tenant))

    async def within(self, tenant: str, options: SubmitOptions) -> SubmitOptions:
        return lowered(options, await self.limits(tenant))

    @asynccontextmanager
    async def planning(self, tenant: str, options: SubmitOptions) -> AsyncIterator[Planning]:
        """Leave to have something planned that is no task. `TooMany` says when to come again: its rate, or its day."""
        limits = await self.limits(tenant)
        options = lowered(options, limits)
        self._keep_rate(tenant, limits)
        day, wanted = await self._today(tenant, limits), _may_use(options)
        self._check_day(tenant, limits, day, wanted)
        with self._promise(tenant, wanted):
            yield Planning(options, lambda usage: self._note_planned(tenant, usage))

    @asynccontextmanager
    async def place(
        self, tenant: str, options: SubmitOptions, overtaken: int | None = None
    ) -> AsyncIterator[Leave]:
        """Room for one task more while it is being stored, and what it may use. `TooMany` says when to come again.

        `overtaken`: it was let in when so many had been, and another process has let in one since.
        """
        limits = await self.limits(tenant)
        options = lowered(options, limits)
        wanted = _may_use(options)
        if overtaken is None:
            self._keep_rate(tenant, limits)
        stored = self._stored[tenant]
        by_day = _by_day(limits)
        day = await self._today(tenant, limits, overtaken)
        seen = None  # of the older one of both, where both count
        if by_day or limits.max_unfinished_tasks is not None:
            seen = day.seen if by_day else await self._parts.store.let_in(tenant)
        there = await self._unfinished(tenant, limits)
        # Nothing is waited for from here to where it is let in: others come meanwhile.
        self._check_count(tenant, limits, there + self._stored[tenant] - stored)
        self._check_day(tenant, limits, day, wanted)
        self._coming[tenant] += 1
        try:
            with self._promise(tenant, wanted):
                yield Leave(options, None if seen is None else Counted(tenant, seen))
                self._stored[tenant] += 1
                self._spending.stored(tenant, wanted)
        finally:
            self._coming[tenant] -= 1
            if not self._coming[tenant]:
                del self._coming[tenant]

    @contextmanager
    def _promise(self, tenant: str, wanted: Spent) -> Iterator[None]:
        """It may be used as long as that lasts."""
        self._promises[tenant] += 1
        self._promised[tenant] = self._promised.get(tenant, Spent()) + wanted
        try:
            yield
        finally:
            self._promises[tenant] -= 1
            self._promised[tenant] = self._promised[tenant] - wanted
            if not self._promises[tenant]:
                del self._promises[tenant], self._promised[tenant]

    def _note_planned(self, tenant: str, usage: Usage) -> None:
        spent = Spent(usage.cost_usd, usage.input_tokens + usage.output_tokens)
        self._planned[tenant] = (self._day(), self._planned_today(tenant) + spent)
        self._planned.move_to_end(tenant)
        if len(self._planned) > MOST_REMEMBERED:
            self._planned.popitem(last=False)

    def _planned_today(self, tenant: str) -> Spent:
        day, spent = self._planned.get(tenant, (0.0, Spent()))
        return spent if day == self._day() else Spent()

    def _day(self) -> float:
        now = self._parts.clock.now()
        return now - now % DAY

    def _keep_rate(self, tenant: str, limits: Limits) -> None:
        if limits.submits is None:
            return
        now, rate = self._monotonic(), read_rate(limits.submits)
        bucket = self._buckets.get(tenant)
        if bucket is None or bucket.rate != rate:
            bucket = self._buckets[tenant] = Bucket(rate, now)
            if len(self._buckets) > MOST_REMEMBERED:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(tenant)
        wait = bucket.take(now)
        if wait is not None:
            raise TooMany(f"the tenant may submit {limits.submits}: try again later", retry_after=wait)

    async def _unfinished(self, tenant: str, limits: Limits) -> int:
        if limits.max_unfinished_tasks is None:
            return 0
        return await self._parts.store.count_tasks(tenant, unfinished=True)

    def _check_count(self, tenant: str, limits: Limits, there: int) -> None:
        allowed = limits.max_unfinished_tasks
        coming = self._coming[tenant]
        if allowed is not None and there + coming >= allowed:
            with_them = f" and {in_digits(coming)} that are being stored" if coming else ""
            raise TooMany(
                f"the tenant has {in_digits(there)} unfinished tasks{with_them}, and may have {in_digits(allowed)}: wait until one has ended, or cancel one",
                retry_after=RETRY_AFTER_SECS,
            )

    async def _today(self, tenant: str, limits: Limits, overtaken: int | None = None) -> Today:
        if not _by_day(limits):
            return Today(Spent(), Spent())
        return await self._spending.today(tenant, overtaken)

    def _check_day(self, tenant: str, limits: Limits, day: Today, wanted: Spent) -> None:
        """What the tasks of the day have used, and what the unfinished may still use, is within the limit."""
        coming = self._promised.get(tenant, Spent()) + wanted
        spent = day.used + self._planned_today(tenant)
        for what, used, held, allowed in (
            ("dollars", spent.cost_usd, day.held.cost_usd + coming.cost_usd, limits.max_cost_usd_per_day),
            ("tokens", spent.tokens, day.held.tokens + coming.tokens, limits.max_tokens_per_day),
        ):
            if allowed is None:
                continue
            if used >= allowed:
                now = self._parts.clock.now()
                raise TooMany(
                    f"what the tenant has submitted today (UTC) has used {used:.6g} {what} of {allowed:g}: the next day begins anew",
                    retry_after=DAY - now % DAY,
                )
            if used + held > allowed + 1e-9:
                raise TooMany(
                    f"of {allowed:g} {what} a day the tenant's tasks have used {used:.6g}, and the unfinished ones with this one may use {held:.6g} more: "
                    "wait until one has ended, or ask for less",
                    retry_after=RETRY_AFTER_SECS,
                )
