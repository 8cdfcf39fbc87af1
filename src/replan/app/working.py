"""A `Replan` at work for the queue: it takes tasks that others have submitted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from replan.app.running import Running
from replan.app.taking_up import take_up
from replan.app.worker_log import gave_back, logged
from replan.config import Settings
from replan.core.limits.needs import FORKS, Needs
from replan.errors import InputError, ReplanError
from replan.run.rounds.plan_checks import own_here
from replan.run.service.for_workers import checked_queue
from replan.run.service.typed import answer_check
from replan.run.service.unasked import asked_here
from replan.tools.catalog.catalog import Catalog
from replan.wiring import Models, driver_name, need_queue

if TYPE_CHECKING:
    from replan.engine.procrastinate.jobs import Hand

GRACE_SECS = 20.0
log = logging.getLogger("replan")


def hand_of(settings: Settings, queues: Sequence[str], concurrency: int | None) -> Hand:
    """What a worker takes, by what is asked and the settings."""
    from replan.engine.procrastinate.jobs import Hand

    section = settings.engine
    return Hand(
        name=driver_name(shared=True),
        queues=tuple(dict.fromkeys(map(checked_queue, queues))),
        concurrency=concurrency or section.worker_concurrency or settings.orchestrator.max_concurrent_tasks,
        most=section.max_running_tasks,
    )


async def work_off(
    running: Running,
    catalog: Catalog,
    models: Models,
    hand: Hand,
    takeover_secs: float,
    *,
    grace_secs: float,
    stop: asyncio.Event | None,
    ready: Callable[[], None] | None,
) -> None:
    """Take tasks until `stop` is set, or the caller is cancelled."""
    queue = need_queue(running.queue)
    if running.works:
        raise InputError("this Replan takes tasks already: one `work` at a time, with a higher concurrency")
    await queue.prepare()
    running.works = running.service.parts.gives_back = True
    from replan.engine.procrastinate.jobs import Pace
    from replan.engine.procrastinate.worker import Worker

    await models.load(models)

    def offers() -> Needs:
        own = own_here(running.service.parts)
        tools = (*(spec.id for spec in (*catalog.specs(), *own)), FORKS)
        asks = tuple(asked_here(running.service.parts.tools.specs(), running.service.parts.approval))
        return Needs(
            tools=tools,
            models=_that_open(models),
            endpoint=models.endpoint,
            answers=answers.here(),
            asks=asks,
        )

    answers = _Answers()

    worker = Worker(
        queue.database, partial(logged, running), hand, takeover_secs=takeover_secs, offers=offers, look=answers.look,
        failed=gave_back, hide=running.service.parts.secrets.hide,
    )  # fmt: skip
    working = asyncio.create_task(worker.run(grace_secs))
    told = asyncio.create_task(_tell_ready(worker.ready, ready))
    stale = Pace.of(takeover_secs).stale
    taking = asyncio.create_task(
        take_up(
            running.service.parts.store,
            queue,
            offers,
            answers.look,
            running.service.stands_without_secrets,
            stale=stale,
            every=takeover_secs / 6,
        )
    )
    stopping = None if stop is None else asyncio.create_task(stop.wait())
    try:
        if stopping is not None:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            worker.stop()
            running.service.parts.leaving.set()
        await working
    finally:
        running.works = running.service.parts.gives_back = False
        for task in (told, taking, stopping, working):
            if task is not None and not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


class _Answers:
    """Types of answers that tasks ask for: each is imported once, beside the event loop, and is here or is not."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def here(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, there in self._known.items() if there))

    async def look(self, names: Collection[str]) -> None:
        for name in set(names) - self._known.keys():
            try:
                await asyncio.to_thread(answer_check, name)
            except ReplanError as error:
                log.warning("tasks whose answer is %s are left to others: %s", name, error)
                self._known[name] = False
            else:
                self._known[name] = True


def _that_open(models: Models) -> dict[str, str]:
    """The models that could be asked: one that was never set up here is another worker's."""
    found = {}
    for role, name in models.named().items():
        with contextlib.suppress(ReplanError):
            _ = models[role]  # type: ignore[index] # a role
            found[role] = name
    return found


async def _tell_ready(entered: asyncio.Event, ready: Callable[[], None] | None) -> None:
    await entered.wait()
    if ready is not None:
        ready()
