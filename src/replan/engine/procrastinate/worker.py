"""Takes tasks from the queue and has them driven in the event loop that it was started in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any

from procrastinate import App
from procrastinate.worker import Worker as JobWorker

from replan.core.limits.needs import Needs, Work
from replan.engine.procrastinate.connector import Connector
from replan.engine.procrastinate.counted import keep_counted
from replan.engine.procrastinate.jobs import Back, Hand, Jobs, Pace
from replan.errors import StaleWriter, StoreError, TaskEnded, TaskGivenAway, TaskHeld, TaskNotFound
from replan.ports import Database
from replan.run.service.unasked import LeftAlone
from replan.run.session.stops import HandedOver, ModelAway

STOP_SECS = 8.0
"""How long a drive that was cut off may take to let go of its task."""
_NEVER_SECS = 1e9
_WAKE = "SELECT wake(task_id, queue, priority) FROM task WHERE task_id = %(task)s::text AND NOT ended"
_NEEDS = "SELECT queue, needs FROM task JOIN need USING (queue) WHERE task_id = %(task)s::text"
_MOVE = """WITH n AS (INSERT INTO need VALUES (%(line)s::text, %(needs)s::text) ON CONFLICT DO NOTHING)
UPDATE task SET queue = %(line)s::text WHERE task_id = %(task)s::text AND NOT ended RETURNING 1 AS moved"""
_REFUSED = "UPDATE task SET refused = %(why)s::text WHERE task_id = %(task)s::text AND NOT ended"


class Away:
    """For how long a worker takes no task that asks a model, after its own could not be asked: twice as long each time."""

    MOST_SECS = 300.0

    def __init__(self, first_secs: float) -> None:
        self._first = first_secs
        self._secs = 0.0
        self._until = 0.0

    def begins(self) -> None:
        """It could not be asked just now. Several tasks that find it so at one time count once."""
        now = time.monotonic()
        if now < self._until:
            return
        lately = now < self._until + self._secs
        self._secs = min(self._secs * 2, self.MOST_SECS) if lately else self._first
        self._until = now + self._secs

    def now(self) -> bool:
        return time.monotonic() < self._until


class Worker:
    """One process's part of the work.

    The queue is asked, and heartbeats are sent, in the store's thread; `drive` is called in the loop of `run`.
    """

    def __init__(
        self,
        database: Database,
        drive: Callable[[str], Coroutine[Any, Any, object]],
        hand: Hand,
        *,
        takeover_secs: float,
        offers: Callable[[], Needs],
        look: Callable[[Collection[str]], Awaitable[None]],
        failed: Callable[[str, str], None],
        hide: Callable[[str], str],
    ) -> None:
        """`offers`: what this process has, asked in the loop of `run`. `look`: finds types of answers. `failed`: told of a task that could not be driven, and why.

        `hide` takes the secrets out of a text that is to be written down.
        """
        self._hide = hide
        self._database = database
        self._drive = drive
        self._hand = hand
        self._pace = Pace.of(takeover_secs)
        self._offers = offers
        self._look = look
        self._offered = offers()
        self._away = Away(takeover_secs / 6)
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._worker: JobWorker | None = None
        self._jobs: Jobs | None = None
        self._stopping = False
        self.ready = asyncio.Event()
        """It has been entered among the workers."""

    async def run(self, grace_secs: float) -> None:
        """Work until `stop` is called; then what runs may end for so long, and the rest is handed over."""
        refreshing = asyncio.create_task(self._refresh())
        working = asyncio.wrap_future(self._database.run(self._work(grace_secs)))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait({working}, timeout=grace_secs + STOP_SECS)
            raise
        finally:
            refreshing.cancel()

    def stop(self) -> None:
        """Take nothing more; from the loop of `run`."""
        self._stopping = True
        self._database.run(self._stop())

    async def _stop(self) -> None:
        if self._jobs is not None:
            self._jobs.leaving = True
        if self._worker is not None:
            self._worker.stop()  # type: ignore[no-untyped-call]

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self._jobs is not None:
                await self._look(self._jobs.answers)
            offers = self._offers()
            if self._away.now():
                offers = offers.model_copy(update={"models": {}})
            if offers != self._offered:
                self._offered = offers

    # ── in the store's thread ──

    async def _work(self, grace_secs: float) -> None:
        app = App(connector=Connector(self._database))
        jobs = self._jobs = Jobs(app.connector, self._database, self._hand, self._pace, lambda: self._offered)
        app.job_manager = jobs  # before a task is declared: each keeps its own
        app.task(name="replan.activate", retry=Back())(self._activate)
        app.task(name="replan.timer", retry=Back())(self._timer)
        worker = self._worker = app._worker(
            queues=None,  # type: ignore[arg-type] # all: it hears of every job, and `Jobs` chooses
            concurrency=self._hand.concurrency,
            update_heartbeat_interval=_NEVER_SECS,
            stalled_worker_timeout=3600,
            fetch_job_polling_interval=self._pace.poll,
            abort_job_polling_interval=_NEVER_SECS,
            shutdown_graceful_timeout=grace_secs,
            delete_jobs="always",
            install_signal_handlers=False,
        )
        beside = [
            asyncio.ensure_future(work()) for work in (jobs.beat, jobs.give_signs, jobs.sweep, jobs.tidy)
        ]
        beside.append(asyncio.ensure_future(keep_counted(self._database, self._pace.sweep)))
        working = asyncio.ensure_future(worker.run())  # type: ignore[no-untyped-call]
        try:
            entered = asyncio.ensure_future(jobs.entered.wait())
            await asyncio.wait({entered, working}, return_when=asyncio.FIRST_COMPLETED)
            entered.cancel()
            self._loop.call_soon_threadsafe(self.ready.set)
            if self._stopping:
                worker.stop()  # type: ignore[no-untyped-call]
            await working
        finally:
            jobs.leaving = True
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await jobs.leave()

    async def _activate(self, task_id: str) -> None:
        """Drive the task as far as it goes: to its end, or until it waits for a person."""
        try:
            await self._driven(task_id)
        except (StaleWriter, TaskEnded, TaskGivenAway, TaskNotFound):
            return  # it is another's, or nobody's, by now
        except (TaskHeld, HandedOver):
            raise
        except Exception as error:
            if isinstance(error, ModelAway):
                self._away.begins()
                self._offered = self._offered.model_copy(update={"models": {}})
            why = self._hide(str(error))
            self._loop.call_soon_threadsafe(self._failed, task_id, why)
            if isinstance(error, LeftAlone):
                with suppress(StoreError):
                    error.line = await self._moved(task_id, error)
            with suppress(StoreError):
                said = f"{self._hand.name} gave it back: {why}"
                await self._database.ask(_REFUSED, {"task": task_id, "why": said[:2_000]})
            raise

    async def _moved(self, task_id: str, left: LeftAlone) -> str:
        """Have it wait where workers that want a yes to what it calls unasked do not look; empty: it does already."""
        rows = await self._database.ask(_NEEDS, {"task": task_id})
        if not rows:
            return ""
        queue, needs = rows[0]["queue"].rpartition(":")[0], Needs.model_validate_json(rows[0]["needs"])
        unasked = tuple(sorted({*needs.unasked, *left.unasked}))
        if unasked == needs.unasked:
            return ""
        needs = needs.model_copy(update={"unasked": unasked, "approval": left.approval})
        line = Work(queue=queue, needs=needs).line
        params = {"task": task_id, "line": line, "needs": needs.model_dump_json()}
        return line if await self._database.ask(_MOVE, params) else ""

    async def _timer(self, task_id: str) -> None:
        await self._database.ask(_WAKE, {"task": task_id})

    async def _driven(self, task_id: str) -> None:
        here, there = asyncio.get_running_loop(), self._loop
        ended: asyncio.Future[None] = here.create_future()
        ended.add_done_callback(lambda done: done.cancelled() or done.exception())
        drives: list[asyncio.Task[object]] = []

        def begin() -> None:
            drive = there.create_task(self._drive(task_id))
            drives.append(drive)
            drive.add_done_callback(lambda drive: here.call_soon_threadsafe(settle, drive))

        def settle(drive: asyncio.Task[object]) -> None:
            if ended.done():
                return
            if drive.cancelled():
                ended.cancel()
            elif (error := drive.exception()) is not None:
                ended.set_exception(error)
            else:
                ended.set_result(None)

        there.call_soon_threadsafe(begin)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            if not ended.done():  # the job goes back when the task has been let go of
                there.call_soon_threadsafe(lambda: [drive.cancel() for drive in drives])
                await asyncio.wait({ended}, timeout=STOP_SECS)
            raise
