"""Tasks that no worker was asked for and no process has, whichever way they came: workers take up those that they can go on with."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection

from replan.core.begun import begun_with
from replan.core.events import Record, TaskSubmitted
from replan.core.limits.needs import Needs, Work
from replan.core.state.fold import fold
from replan.core.words import one_line
from replan.engine.procrastinate.queue import Queue
from replan.errors import ReplanError, StoreBusy, TaskEnded, TaskHeld
from replan.ports import EventLog
from replan.run.service.for_workers import work_left

_MOST_KNOWN = 10_000
_MOST_LOOKS = 64
"""After so many looks at the latest a task is asked about again that could not be looked at."""
log = logging.getLogger("replan")


class _Known:
    """Tasks that were looked at, and are left alone: for good, as long as nothing changes, those that are none for a worker with these
    offers; for some looks, ever more, those of which that could not be told."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Needs, float]] = {}
        self._failed: dict[
            str, tuple[int, int]
        ] = {}  # how often, and the look from which on it is asked about again
        self._looks = 0

    def tried(self, offers: Needs) -> dict[str, float]:
        """Those that are left alone at this look, as they were."""
        self._looks += 1
        return {
            task_id: at
            for task_id, (offered, at) in self._found.items()
            if offered == offers and self._failed.get(task_id, (0, self._looks + 1))[1] > self._looks
        }

    def taken(self, task_id: str) -> None:
        self._found.pop(task_id, None)
        self._failed.pop(task_id, None)

    def none_for_us(self, task_id: str, offers: Needs, at: float) -> None:
        self.taken(task_id)
        self._keep(task_id, offers, at)

    def failed(self, task_id: str, offers: Needs, at: float) -> bool:
        """Whether it is the first time."""
        times, _ = self._failed.get(task_id, (0, 0))
        self.taken(task_id)
        self._failed[task_id] = times + 1, self._looks + min(1 << times, _MOST_LOOKS)
        self._keep(task_id, offers, at)
        return not times

    def _keep(self, task_id: str, offers: Needs, at: float) -> None:
        self._found[task_id] = offers, at
        if len(self._found) > _MOST_KNOWN:
            self.taken(next(iter(self._found)))


async def take_up(
    store: EventLog,
    queue: Queue,
    offers: Callable[[], Needs],
    look: Callable[[Collection[str]], Awaitable[None]],
    stand: Callable[[str], Awaitable[object]],
    *,
    stale: float,
    every: float,
) -> None:
    """Again and again: hand to the queue what a process has left that was there before, and what came from elsewhere.

    Whatever fails is tried again, and keeps nobody from the other tasks. `stand` has the log of a task say that it waits for its
    secrets, which a process that is gone had alone.
    """
    known = _Known()
    seen: set[str] = set()  # at the last look: a process whose connection was cut comes back before the next
    while True:
        await asyncio.sleep(every)
        now = offers()
        left: dict[str, float] = {}
        with contextlib.suppress(ReplanError):
            left = await queue.left_behind(known.tried(now), stale)
        due, seen = left.keys() & seen, set(left)
        for task_id in sorted(due):
            try:
                taken = await _taken(store, queue, task_id, offers, look, stand)
            except Exception as error:  # noqa: BLE001 -- nobody knows what is in such a log
                if known.failed(task_id, now, left[task_id]) and not isinstance(error, StoreBusy):
                    why = one_line(str(error)) if isinstance(error, ReplanError) else type(error).__name__
                    log.warning("task %s, which no process has, could not be taken up: %s", task_id, why)
                continue
            if taken:
                known.taken(task_id)
            else:
                known.none_for_us(task_id, now, left[task_id])


async def _taken(
    store: EventLog,
    queue: Queue,
    task_id: str,
    offers: Callable[[], Needs],
    look: Callable[[Collection[str]], Awaitable[None]],
    stand: Callable[[str], Awaitable[object]],
) -> bool:
    """Hand the task to the queue, unless it is none for a worker with what this one offers."""
    records = await store.read(task_id)
    if _has_own_secrets(records):
        with contextlib.suppress(TaskHeld, TaskEnded):
            await stand(task_id)
        return False
    work = to_take(records)
    if work is not None and work.needs.answer is not None:
        await look([work.needs.answer])
    if work is None or next(work.needs.missing(offers()), None) is not None:
        return False  # one that is asked about here only waits in the queue: whoever asks nobody takes it, and everybody sees why
    await queue.wake(task_id, work)
    return True


def _has_own_secrets(records: list[Record]) -> bool:
    """Whether it was begun with some that its process was given alone."""
    first = records[0].event if records else None
    return isinstance(first, TaskSubmitted) and not all(first.secrets.values())


def to_take(records: list[Record]) -> Work | None:
    """How such a task waits for a worker; None if none could go on with it as it was begun."""
    if not records or not isinstance(first := records[0].event, TaskSubmitted):
        return None
    begun = begun_with(records)
    if begun.replay is not None or begun.unnamed_models or _has_own_secrets(records):
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
