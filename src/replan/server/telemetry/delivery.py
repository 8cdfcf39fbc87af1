"""What operators see of whoever is delivered the log: how far each is behind, and whether it takes what it is given."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from replan.core.words import in_digits
from replan.errors import StoreError
from replan.ports import MOST_BEHIND, ConsumerState

_LOOK_SECS, _LOOK_SHARE = 2.0, 20
"""Between two looks, or longer where a look takes long."""


class Deliveries(Collector):
    """As they were when last looked at: nobody who asks for metrics or readiness has the database asked."""

    def __init__(self, look: Callable[[], Awaitable[Sequence[ConsumerState]]]) -> None:
        self._look = look
        self._known: dict[str, ConsumerState] = {}

    async def keep_up(self) -> None:
        """Look now and then, until it is cancelled."""
        while True:
            since = time.monotonic()
            with contextlib.suppress(StoreError):  # said by the check of the store
                self._known = {state.name: state for state in await self._look()}
            await asyncio.sleep(max(_LOOK_SECS, _LOOK_SHARE * (time.monotonic() - since)))

    def stands(self, name: str) -> Callable[[], Awaitable[str]]:
        """How one stands. That it takes nothing makes nothing unready: what it has not got is kept for it."""

        async def check() -> str:
            state = self._known.get(name)
            if state is None:
                return "not looked at yet"
            more = "more than " if state.tasks_behind >= MOST_BEHIND else ""
            told = (
                f"{more}{in_digits(state.events_behind)} events behind"
                if state.events_behind
                else "has got everything"
            )
            if not state.read:
                told += "; nobody delivers to it"
            return f"{told}; {state.error}" if state.failures and state.error else told

        return check

    def collect(self) -> Iterator[Metric]:
        now, labels = time.time(), ["consumer"]
        behind = GaugeMetricFamily(
            "replan_outbox_behind_events", "Events that a consumer of the log has not got.", labels=labels
        )
        tasks = GaugeMetricFamily("replan_outbox_behind_tasks", "Tasks with such events.", labels=labels)
        late = GaugeMetricFamily(
            "replan_outbox_behind_seconds", "For how long the oldest of them has been there.", labels=labels
        )
        refused = GaugeMetricFamily(
            "replan_outbox_refused_batches", "Batches that it has refused in a row.", labels=labels
        )
        read = GaugeMetricFamily("replan_outbox_delivering", "Whether anybody delivers to it.", labels=labels)
        for name, state in self._known.items():
            since = state.behind_since
            behind.add_metric([name], state.events_behind)
            tasks.add_metric([name], state.tasks_behind)
            late.add_metric([name], 0.0 if since is None else max(0.0, now - since))
            refused.add_metric([name], state.failures)
            read.add_metric([name], 1 if state.read else 0)
        yield from (behind, tasks, late, refused, read)
