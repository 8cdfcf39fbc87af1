"""procrastinate's jobs as a worker of ours holds them: through lost connections, and never another worker's.

As it comes procrastinate ends a job whoever holds it, stops its heartbeats at the first that fails, and leaves a job whose
answer was lost with a worker that does not know of it. What is called here (names with `_v1`, `_v2`) belongs to 3.10.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from procrastinate import jobs, manager, retry

from replan.core.limits.needs import Needs, lines_for
from replan.engine.procrastinate.busy import Busy
from replan.errors import StoreBusy, StoreError, TaskHeld
from replan.ports import Database
from replan.run.service.unasked import LeftAlone
from replan.run.session.stops import HandedOver

log = logging.getLogger("replan.worker")
ANY = "procrastinate_any_queue_v1"
_COLUMNS = "id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts, worker_id"
_LINES = "SELECT queue, needs FROM need WHERE queue <> ALL(%(known)s::text[])"
_FETCH = f"""WITH f AS MATERIALIZED (SELECT {_COLUMNS} FROM fetch_within(%(queues)s::varchar[], %(worker)s::bigint, %(most)s::int) LIMIT 1),
d AS (DELETE FROM procrastinate_jobs j USING f WHERE j.lock = f.lock AND j.id <> f.id AND j.status = 'todo' AND j.scheduled_at IS NULL)
SELECT {_COLUMNS} FROM f"""
"""What was woken for until now is in the log that the driver reads next: further wake-ups of the same task have nothing to add. This
one stays until the task has been let go of, also where its worker dies."""
_MINE = "(SELECT id, lock FROM procrastinate_jobs WHERE id = %(job)s::bigint AND worker_id = %(worker)s::bigint AND status = 'doing' FOR UPDATE) j"
_TOLD = f"pg_notify('{ANY}', json_build_object('type', 'job_inserted', 'job_id', id)::text)"
_FINISH = (
    "SELECT procrastinate_finish_job_v1(id, %(status)s::procrastinate_job_status, %(delete)s::bool), CASE WHEN %(tell)s::bool "
    f"OR EXISTS (SELECT FROM procrastinate_jobs o WHERE o.lock = j.lock AND o.status = 'todo') THEN {_TOLD} END FROM {_MINE}"
)
"""Others are told where it makes room for a job: of the same task, or within the limit of all workers."""
_RETRY = (
    "SELECT procrastinate_retry_job_v2(id, %(at)s::timestamptz, %(priority)s::int, %(queue)s::varchar, %(lock)s::varchar), "
    f"{_TOLD} FROM " + _MINE
)
_BEAT = """WITH b AS (INSERT INTO procrastinate_workers (id, last_heartbeat) OVERRIDING SYSTEM VALUE
 VALUES (%(worker)s::bigint, now()) ON CONFLICT (id) DO UPDATE SET last_heartbeat = now())
INSERT INTO worker (number, id, name, queues, offers, concurrency, stale_secs, ahead, most)
 VALUES (%(holder)s::int, %(worker)s::bigint, %(name)s::text, %(queues)s::text[], %(offers)s::text, %(concurrency)s::int, %(stale)s::float8,
 %(clock)s::float8 - extract(epoch FROM now())::float8, %(most)s::int)
 ON CONFLICT (number) DO UPDATE SET seen = now(), id = excluded.id, offers = excluded.offers, ahead = excluded.ahead"""
"""Also of one that was taken for dead while it was frozen."""
_STILL = """WITH w AS (UPDATE worker SET seen = now() WHERE number = %(holder)s::int AND seen > now() - make_interval(secs => stale_secs) RETURNING id)
UPDATE procrastinate_workers p SET last_heartbeat = now() FROM w WHERE p.id = w.id"""
"""Of one that cannot say so itself, and that nobody has taken for dead yet."""
MOST_BUSY = 20
"""So many times `takeover_secs` a worker may compute without a sign of life."""
_LEAVE = """WITH w AS (DELETE FROM procrastinate_workers WHERE id = %(worker)s::bigint)
DELETE FROM worker WHERE number = %(holder)s::int"""
_AGAIN = "SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL)"
_GHOSTS = f"""{_AGAIN}, {_TOLD} FROM (SELECT id FROM procrastinate_jobs
 WHERE worker_id = %(worker)s::bigint AND status = 'doing' AND id <> ALL(%(held)s::bigint[]) FOR UPDATE) j"""
"""Jobs that were given to this worker in an answer that it never got."""
_SWEEP = f"""{_AGAIN}, {_TOLD}, x.lock, x.whose FROM (
 SELECT j.id, j.lock, (SELECT name FROM worker w WHERE w.id = j.worker_id LIMIT 1) AS whose FROM procrastinate_jobs j WHERE j.status = 'doing' AND j.worker_id IS DISTINCT FROM %(worker)s::bigint
 AND pg_postmaster_start_time() < now() - make_interval(secs => %(stale)s::float8) AND (j.worker_id IS NULL OR EXISTS
 (SELECT 1 FROM procrastinate_workers w LEFT JOIN worker own USING (id) WHERE w.id = j.worker_id
  AND w.last_heartbeat < now() - make_interval(secs => coalesce(own.stale_secs, %(stale)s::float8))))
 FOR UPDATE OF j SKIP LOCKED) x"""
"""The jobs of workers that are gone: of others, since one that was frozen goes on with what it still has."""
_LOST = """SELECT wake(task_id, queue, priority) FROM (
 SELECT t.task_id, t.queue, t.priority FROM task t WHERE NOT t.ended AND t.queue IS NOT NULL AND t.given_away IS NULL
 AND (t.due OR t.status <> 'waiting' OR t.last_signal > t.append_seq) AND to_timestamp(t.updated) < now() - make_interval(secs => %(stale)s::float8)
 AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs j WHERE j.lock = t.task_id AND j.status IN ('todo', 'doing'))
 ORDER BY t.id LIMIT 1000 FOR UPDATE SKIP LOCKED) lost"""
"""The net below: tasks that somebody should drive, and that no job is there for."""
_NEEDLESS = """DELETE FROM procrastinate_jobs j USING task t WHERE j.status = 'todo' AND j.lock = t.task_id AND t.ended"""
_NEEDLESS_TIMERS = """DELETE FROM procrastinate_jobs j USING task t
 WHERE j.status = 'todo' AND j.queue_name = 'timers' AND t.task_id = j.args->>'task_id' AND t.ended"""
_OLD_WORKERS = "DELETE FROM worker WHERE seen < now() - interval '1 day'"


class Pace(NamedTuple):
    """How often a worker says that it lives, and looks for those that do not. All follow from one number."""

    beat: float
    stale: float
    sweep: float
    poll: float
    tidy: float
    takeover: float

    @classmethod
    def of(cls, takeover_secs: float) -> Pace:
        """What is lost is taken over within that: seen as lost, noticed, fetched."""
        part = takeover_secs / 30
        return cls(
            beat=4 * part, stale=18 * part, sweep=3 * part, poll=min(2.0, 2 * part), tidy=60 * part,
            takeover=takeover_secs,
        )  # fmt: skip


class Hand(NamedTuple):
    """What a worker takes."""

    name: str
    queues: tuple[str, ...]
    concurrency: int
    most: int | None
    """So many tasks at a time by all workers together."""


class Jobs(manager.JobManager):
    """The jobs of one worker process."""

    def __init__(
        self, connector: Any, database: Database, hand: Hand, pace: Pace, offers: Callable[[], Needs]
    ) -> None:
        super().__init__(connector)
        self._database = database
        self._hand = hand
        self._pace = pace
        self._offers = offers
        self._held: set[int] = set()
        self._turn = asyncio.Lock()
        """A job that is being fetched is neither held nor lost."""
        self.me: int | None = None
        self._lines: dict[str, Needs] = {}
        self.answers: set[str] = set()
        """Types of answers that tasks ask for."""
        self._open: tuple[Needs | None, int, list[str]] = (None, 0, [])
        """Those that jobs may be taken from, for these offers and so many lines."""
        self._failed_at = time.monotonic() - pace.stale + 1.5 * pace.beat
        """When something was last asked in vain: while nobody gets through, everybody looks dead. Also when this one
        starts: it may be at the end of such a time."""
        self._unanswered = 0
        """Questions in a row that the database has not answered."""
        self.entered = asyncio.Event()
        self.leaving = False

    # ── what procrastinate's worker calls ──

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:
        return (
            await self._until_answered(
                lambda: super(Jobs, self).prune_stalled_workers(seconds_since_heartbeat)
            )
            or []
        )

    async def register_worker(self) -> int:
        me: int | None = await self._until_answered(super().register_worker)
        if me is None:  # it is to end before it could begin
            raise StoreBusy(f"the database {self._database.shown} does not answer")
        self.me = me
        await self.beat_once()
        self.entered.set()
        return me

    async def unregister_worker(self, worker_id: int) -> None:
        with contextlib.suppress(StoreError):
            await super().unregister_worker(worker_id)

    async def update_heartbeat(self, worker_id: int) -> None:
        """It beats by itself: also while it lets its last jobs end, when procrastinate's worker does not."""

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> Iterable[int]:
        return []

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> jobs.Job | None:
        async with self._turn:
            try:
                params = {"queues": await self._open_lines(), "worker": worker_id, "most": self._hand.most}
                rows = await self._database.ask(_FETCH, params)
            except StoreBusy:
                self._failed_at = time.monotonic()
            else:
                if not rows:
                    return None
                job = jobs.Job.from_row(rows[0])
                assert job.id is not None
                self._held.add(job.id)
                return job
        await asyncio.sleep(0.5)
        return None

    async def finish_job(self, job: jobs.Job, status: jobs.Status, delete_job: bool) -> None:
        await self._let_go(
            job, _FINISH, {"status": status.value, "delete": delete_job, "tell": self._hand.most is not None}
        )

    async def retry_job(
        self,
        job: jobs.Job,
        retry_at: dt.datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        at = retry_at or dt.datetime.now(dt.UTC)
        await self._let_go(job, _RETRY, {"at": at, "priority": priority, "queue": queue, "lock": lock})

    # ── beside it ──

    async def beat(self) -> None:
        """Say again and again that this worker lives."""
        while True:
            await asyncio.sleep(self._pace.beat)
            await self.beat_once()

    async def beat_once(self) -> None:
        if self.me is None:
            return
        hand = self._hand
        params = {
            "worker": self.me,
            "holder": self._database.holder,
            "name": hand.name,
            "queues": list(hand.queues),
            "offers": self._offers().model_dump_json(),
            "concurrency": hand.concurrency,
            "stale": self._pace.stale,
            "clock": time.time(),
            "most": hand.most,
        }
        await self._try(_BEAT, params)

    async def give_signs(self) -> None:
        """Let another process beat where a tool lets nothing of this one run."""
        values = {"holder": self._database.holder}
        most = MOST_BUSY * self._pace.takeover
        await Busy(self._database.given, _STILL, values, every=self._pace.beat, most=most).give_signs()

    async def leave(self) -> None:
        await self._try(_LEAVE, {"holder": self._database.holder, "worker": self.me})

    async def sweep(self) -> None:
        """Take back what was lost on the way, and what dead workers have left."""
        while True:
            await asyncio.sleep(self._pace.sweep)
            if self.me is None:
                continue
            async with self._turn:
                await self._try(_GHOSTS, {"worker": self.me, "held": list(self._held)})
            if time.monotonic() - self._failed_at > self._pace.stale:
                swept = await self._try(_SWEEP, {"stale": self._pace.stale, "worker": self.me})
                _tell_gone((row["whose"], row["lock"]) for row in swept)

    async def tidy(self) -> None:
        """Find tasks that were lost all the same, and jobs that nobody needs any more."""
        while True:
            await asyncio.sleep(self._pace.tidy)
            await self._try(_LOST, {"stale": self._pace.stale})
            await self._try(_NEEDLESS, {})
            await self._try(_NEEDLESS_TIMERS, {})
            await self._try(_OLD_WORKERS, {})

    async def _try(self, statement: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            rows = await self._database.ask(statement, params)
        except StoreBusy as error:
            self._failed_at = time.monotonic()
            self._unanswered += 1
            if self._unanswered == 2:  # once it may be this process that was held up
                log.warning("the database is away: %s", error)
        except StoreError as error:  # what comes next may do all the same
            self._failed_at = time.monotonic()
            log.warning("the queue could not be asked: %s", error)
        else:
            if self._unanswered > 1:
                log.info("the database answers again")
            self._unanswered = 0
            return rows
        return []

    async def _open_lines(self) -> list[str]:
        for row in await self._database.ask(_LINES, {"known": list(self._lines)}):
            needs = self._lines[row["queue"]] = Needs.model_validate_json(row["needs"])
            if needs.answer is not None:
                self.answers.add(needs.answer)
        offers, count = self._offers(), len(self._lines)
        if self._open[0] is not offers or self._open[1] != count:
            self._open = (offers, count, ["timers", *lines_for(offers, self._hand.queues, self._lines)])
        return self._open[2]

    async def _let_go(self, job: jobs.Job, statement: str, params: dict[str, Any]) -> None:
        """Until it is known; a job that is another's by now is left alone."""
        mine = {"job": job.id, "worker": job.worker_id if job.worker_id is not None else self.me}
        await self._until_answered(lambda: self._database.ask(statement, {**mine, **params}))
        assert job.id is not None
        self._held.discard(job.id)

    async def _until_answered(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What is left undone by one that leaves is found by others."""
        tries = 0
        while True:
            try:
                return await ask()
            except StoreBusy:
                self._failed_at = time.monotonic()
                tries += 1
                if self.leaving and tries > 2:
                    return None
                await asyncio.sleep(0.5)


def _tell_gone(lost: Iterable[tuple[str | None, str | None]]) -> None:
    """Whose tasks go back into the queue."""
    tasks: dict[str, list[str]] = {}
    for whose, task_id in lost:
        if task_id is not None:
            tasks.setdefault(whose or "a worker", []).append(task_id)
    for whose, names in tasks.items():
        told = {"did": "taken_back", "from": whose, "tasks": names}
        log.warning("%s is gone: back into the queue: %s", whose, ", ".join(names), extra={"told": told})


class Back(retry.BaseRetryStrategy):
    """A job whose task was not driven as far as it goes now comes back: how a task ends, its log says."""

    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> retry.RetryDecision:
        if isinstance(
            exception, asyncio.CancelledError | HandedOver
        ):  # this worker ends: another one goes on
            secs = 0
        elif isinstance(exception, LeftAlone) and exception.line:  # for workers that take it: at once
            return retry.RetryDecision(retry_in={"seconds": 0}, queue=exception.line)
        elif isinstance(exception, TaskHeld):
            secs = 1
        else:
            secs = min(2 ** min(job.attempts, 6), 60)
        return retry.RetryDecision(retry_in={"seconds": secs})
