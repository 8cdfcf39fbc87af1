"""Tasks that no worker was asked for and no process has, whichever way they came: workers take up those that they can go on with."""

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
    """Again and again: hand to the queue what a process has left that was there before, and what came from elsewhere."""
    known: dict[str, tuple[Needs, float]] = {}  # looked at, and as it was not for a worker that offers this
    seen: set[str] = set()  # at the last look: a process whose connection was cut comes back before the next
    while True:
        await asyncio.sleep(every)
        now = offers()
        tried = {task_id: at for task_id, (offered, at) in known.items() if offered == now}
        left: dict[str, float] = {}
        with contextlib.suppress(ReplanError):
            left = await queue.left_behind(tried, stale)
        due, seen = left.keys() & seen, set(left)
        for task_id in sorted(due):
            with contextlib.suppress(ReplanError):
                if await _taken(running, queue, task_id, offers, look):
                    continue
            known.pop(task_id, None)
            known[task_id] = now, left[task_id]
            if len(known) > _MOST_KNOWN:
                del known[next(iter(known))]


async def _taken(
    running: Running,
    queue: Queue,
    task_id: str,
    offers: Callable[[], Needs],
    look: Callable[[Collection[str]], Awaitable[None]],
) -> bool:
    """Hand the task to the queue, unless it is none for a worker with what this one offers."""
    work = to_take(await running.service.parts.store.read(task_id))
    if work is not None and work.needs.answer is not None:
        await look([work.needs.answer])
    if work is None or not work.needs.met_by(offers()):
        return False
    await queue.wake(task_id, work)
    return True


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
    if state.waiting is not None and state.waiting.until_resumed and state.waiting.because == "process":
        return None  # a worker's may end by it, too
    if (
        stopped
        or state.pause is not None
        or state.ended
        or (state.plan is None and first.plan is None and state.selection is None and begun.ids is None)
    ):
        return None
    return work_left(state, begun)
