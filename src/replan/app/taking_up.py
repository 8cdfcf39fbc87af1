"""Tasks that were begun without workers, and whose process is gone: workers take up those that they can go on with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection

from replan.app.running import Running
from replan.core.begun import begun_with
from replan.core.events import Record, TaskSubmitted
from replan.core.limits.needs import Needs, Work
from replan.core.state.fold import fold
from replan.engine.procrastinate.queue import Queue
from replan.errors import ReplanError
from replan.run.service.for_workers import work_left

_MOST_KNOWN = 10_000


async def take_up(
    running: Running,
    queue: Queue,
    offers: Callable[[], Needs],
    look: Callable[[Collection[str]], Awaitable[None]],
    *,
    stale: float,
    every: float,
) -> None:
    """Again and again: hand to the queue what a process has left that was there before."""
    known: dict[str, Needs] = {}  # looked at, and not for a worker that offers this
    seen: set[str] = set()  # at the last look: a process whose connection was cut comes back before the next
    while True:
        await asyncio.sleep(every)
        now = offers()
        with contextlib.suppress(ReplanError):
            tried = [task_id for task_id, offered in known.items() if offered == now]
            left = set(await queue.left_behind(tried, stale))
            due, seen = left & seen, left
            for task_id in sorted(due):
                work = to_take(await running.service.parts.store.read(task_id))
                if work is not None and work.needs.answer is not None:
                    await look([work.needs.answer])
                if work is not None and work.needs.met_by(offers()):
                    await queue.wake(task_id, work)
                else:
                    known.pop(task_id, None)
                    known[task_id] = now
                    if len(known) > _MOST_KNOWN:
                        del known[next(iter(known))]


def to_take(records: list[Record]) -> Work | None:
    """How such a task waits for a worker; None if none could go on with it as it was begun."""
    if not records or not isinstance(first := records[0].event, TaskSubmitted):
        return None
    begun = begun_with(records)
    if (
        begun.replay is not None
        or begun.unnamed_models
        or any(not source for source in first.secrets.values())
    ):
        return None
    state = fold(records)
    stopped = state.cancel is not None and state.cancel.until_resumed  # by a person, who may resume it
    if (
        stopped
        or state.pause is not None
        or state.ended
        or (state.plan is None and first.plan is None and state.selection is None and begun.ids is None)
    ):
        return None
    return work_left(state, begun)
