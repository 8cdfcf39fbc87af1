"""The queue as everybody sees it: whoever submits, follows or looks needs no more than this."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from importlib import resources
from typing import Any, NamedTuple, TypeVar

from replan.core.limits.needs import Needs, Work
from replan.errors import InputError
from replan.ports import Ask, Database
from replan.run.service.unasked import by_command, why_left

T = TypeVar("T")

_WAKE = """WITH t AS (
 UPDATE task SET queue = coalesce(queue, %(queue)s::text), priority = CASE WHEN queue IS NULL THEN %(priority)s::int ELSE priority END,
  due = true WHERE task_id = %(task)s::text AND NOT ended AND given_away IS NULL AND coalesce(queue, %(queue)s::text) IS NOT NULL
 RETURNING task_id, queue, priority),
n AS (INSERT INTO need SELECT queue, %(needs)s::text FROM t ON CONFLICT DO NOTHING)
SELECT wake(task_id, queue, priority) FROM t"""
_WAKE_LATER = """SELECT procrastinate_defer_jobs_v1(ARRAY[ROW('timers', 'replan.timer', 0, NULL, NULL,
 jsonb_build_object('task_id', %(task)s::text), now() + make_interval(secs => %(secs)s::float8))::procrastinate_job_to_defer_v1])"""
_WORKERS = """SELECT name, queues, offers, concurrency, seen > now() - make_interval(secs => stale_secs)
  OR pg_postmaster_start_time() > now() - make_interval(secs => stale_secs) AS alive,
  extract(epoch FROM now() - seen)::float8 AS ago,
  (SELECT count(*) FROM task WHERE task.holder = worker.number AND NOT ended) AS tasks,
  (to_jsonb(worker) ->> 'ahead')::float8 AS ahead, (to_jsonb(worker) ->> 'most')::int AS most,
  extract(epoch FROM now() - started)::float8 AS running FROM worker ORDER BY started"""
_NEEDS = """SELECT queue, needs, refused FROM task JOIN need USING (queue) WHERE task_id = %(task)s::text"""
_WAITING = """SELECT queue, needs, count(DISTINCT lock) AS tasks FROM procrastinate_jobs j JOIN need ON queue = queue_name
 WHERE status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())
 AND NOT EXISTS (SELECT FROM procrastinate_jobs other WHERE other.lock = j.lock AND other.status = 'doing')
 GROUP BY queue, needs ORDER BY count(DISTINCT lock) DESC LIMIT 100"""

_OLDEST = """SELECT extract(epoch FROM now() - greatest(j.scheduled_at, (SELECT max(at) FROM procrastinate_events WHERE job_id = j.id)))::float8 AS secs
 FROM procrastinate_jobs j WHERE status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())
 AND NOT EXISTS (SELECT FROM procrastinate_jobs other WHERE other.lock = j.lock AND other.status = 'doing') ORDER BY id LIMIT 1"""


_LEFT = """SELECT task_id, updated FROM left_behind WHERE (task_id, updated) NOT IN (SELECT * FROM unnest(%(tried)s::text[], %(at)s::float8[]))
 AND to_timestamp(updated) < now() - make_interval(secs => %(stale)s::float8) AND pg_postmaster_start_time() < now() - make_interval(secs => %(stale)s::float8)
 ORDER BY id LIMIT 20"""
"""After a start of the server nobody has a lock yet."""


class Worker(NamedTuple):
    """A process that takes tasks."""

    name: str
    queues: tuple[str, ...]
    """Empty: all."""
    offers: Needs
    concurrency: int
    alive: bool
    seen_secs_ago: float
    tasks: int
    """That it drives."""
    ahead_secs: float | None = None
    """Of its clock, to the database's, when it was last seen."""
    most: int | None = None
    """So many tasks it lets all workers together drive."""
    running_secs: float = 0.0
    """Since it has started."""

    def serves(self, queue: str) -> bool:
        return not self.queues or queue in self.queues


class Line(NamedTuple):
    """Tasks that wait for a worker, and need the same of it."""

    queue: str
    tasks: int
    needs: Needs
    why: str
    """Why nobody takes them; empty: somebody may."""


class Queue:
    """Wakes tasks up, and tells who could take them. Of any event loop."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        found: T = await asyncio.wrap_future(self.database.run(work))
        return found

    async def prepare(self) -> None:
        """Make the tables of the queue, where there are none; `InputError` if procrastinate is not installed."""
        try:
            import procrastinate.schema
        except ImportError as error:
            raise InputError(
                f"tasks for workers need procrastinate ({error.name} is missing): pip install 'replan[workers]'"
            ) from None
        own = resources.files("replan.engine.procrastinate").joinpath("queue.sql").read_text("utf-8")
        script = f"{procrastinate.schema.SchemaManager.get_schema()}\n{own}"
        await self._do(self.database.prepare("procrastinate_jobs", script))

    async def wake(self, task_id: str, work: Work | None = None) -> None:
        """Have a worker drive the task, unless it has ended. `work`: how it waits, if it was not for workers before."""
        params = {
            "task": task_id,
            "queue": None if work is None else work.line,
            "priority": 0 if work is None else work.priority,
            "needs": "{}" if work is None else work.needs.model_dump_json(),
        }
        await self._do(self.database.ask(_WAKE, params))

    async def wake_later(self, task_id: str, secs: float) -> None:
        """The same in so many seconds. Without the task's lock: a job for later would hold up all that come before."""
        await self._do(self.database.ask(_WAKE_LATER, {"task": task_id, "secs": secs}))

    async def workers(self) -> list[Worker]:
        """Those that live, and those that have not said that they ended."""
        return await self._do(workers_in(self.database.ask))

    async def lines(self) -> list[Line]:
        """Where tasks wait now."""
        return await self._do(lines_in(self.database.ask))

    async def left_behind(self, tried: Mapping[str, float], stale: float) -> dict[str, float]:
        """Tasks without a queue that nobody has touched for so many seconds, and that have no process, or one that is gone: each with when
        something last happened in it. `tried`: those that were looked at, as they were then."""
        params = {"tried": list(tried), "at": list(tried.values()), "stale": stale}
        return {row["task_id"]: row["updated"] for row in await self._do(self.database.ask(_LEFT, params))}

    async def why_waiting(self, task_id: str) -> str:
        """Why no worker takes the task, or why one has given it back; empty: one may take it."""
        rows = await self._do(self.database.ask(_NEEDS, {"task": task_id}))
        if not rows:
            return ""
        queue, needs = rows[0]["queue"].rpartition(":")[0], Needs.model_validate_json(rows[0]["needs"])
        workers, refused = await self.workers(), rows[0]["refused"] or ""
        if refused and any(worker.alive and worker.serves(queue) for worker in workers):
            return str(refused)
        return why_not(queue, needs, workers, task_id) or busy(queue, needs, workers)


async def workers_in(ask: Ask) -> list[Worker]:
    """The workers of a database, by whatever it is asked through."""
    return [
        Worker(
            row["name"], tuple(row["queues"]), Needs.model_validate_json(row["offers"]), row["concurrency"],
            bool(row["alive"]), row["ago"], row["tasks"], row["ahead"],
            row["most"], row["running"],
        )
        for row in await ask(_WORKERS, None)
    ]  # fmt: skip


async def lines_in(ask: Ask) -> list[Line]:
    """Where tasks wait in it, and why nobody takes them."""
    rows = await ask(_WAITING, None)
    workers = await workers_in(ask) if rows else []
    found = []
    for row in rows:
        queue, needs = row["queue"].rpartition(":")[0], Needs.model_validate_json(row["needs"])
        found.append(Line(queue, row["tasks"], needs, why_not(queue, needs, workers)))
    return found


async def oldest_in(ask: Ask) -> float | None:
    """For how many seconds the oldest wake-up waits that could be taken; None: there is none."""
    rows = await ask(_OLDEST, None)
    return rows[0]["secs"] if rows else None


def why_not(queue: str, needs: Needs, workers: list[Worker], task_id: str = "ID") -> str:
    """Why none of the workers takes a task that waits in this queue for what it needs; empty: one may."""
    living = [worker for worker in workers if worker.alive]
    if not living:
        return "no worker is running: start one with `replan worker`"
    serving = [worker for worker in living if worker.serves(queue)]
    if not serving:
        return f"no worker serves the queue {queue!r}: start one with `replan worker --queues {queue}`"
    lacking = [list(needs.missing(worker.offers)) for worker in serving]
    able = [worker for worker, lacks in zip(serving, lacking, strict=True) if not lacks]
    if able:
        asked = min((needs.asked_by(worker.offers) for worker in able), key=len)
        whose = (
            "of this worker" if len(able) == 1 else f"of each of the {len(able)} workers that could take it"
        )
        return why_left(asked, whose, by_command(task_id, needs.approval)) if asked else ""
    nearest = min(lacking, key=len)
    shown = ", ".join(nearest[:5]) + (f" and {len(nearest) - 5} more" if len(nearest) > 5 else "")
    whose = (
        "the worker that is running does not"
        if len(serving) == 1
        else f"none of the {len(serving)} workers does"
    )
    return f"it waits for a worker that has {shown}: {whose}"


def busy(queue: str, needs: Needs, workers: list[Worker]) -> str:
    """What keeps those that may take such a task from it, if something does: their places, or a limit over all of them."""
    living = [worker for worker in workers if worker.alive]
    running = sum(worker.tasks for worker in living)
    limits = [worker.most for worker in living if worker.most is not None]
    if limits and running >= min(limits):
        return f"as many tasks run as all workers together may drive ([engine] max_running_tasks = {min(limits)})"
    able = [worker for worker in living if worker.serves(queue) and needs.met_by(worker.offers)]
    places = sum(worker.concurrency for worker in able)
    if able and all(worker.tasks >= worker.concurrency for worker in able):
        whose = "the worker" if len(able) == 1 else f"the {len(able)} workers"
        taken = "the only place" if places == 1 else f"all {places} places"
        return f"{taken} of {whose} that could take it {'is' if places == 1 else 'are'} taken"
    return ""
