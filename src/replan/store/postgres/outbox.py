"""`ports.Outbox` on PostgreSQL.

Nothing is written for it when events are: what is new is found by each task's own last number, which goes up in the order
in which its events become visible. Numbers of new tasks do not: one that was given may be seen after a later one. So the
horizon, up to which every task is accounted for, moves only once all transactions that wrote to the table of tasks when
the last of them was seen are over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from replan.core.events import TERMINAL, Record
from replan.errors import InputError, StaleWriter, StoreBusy
from replan.ports import MOST_BEHIND, Ask, Batch, ConsumerState, Database, Delivered, Reading
from replan.store.outbox import BATCH_BYTES, STALE_SECS, STEP, TASK_ROWS, TASKS, checked
from replan.store.postgres.presence import ALIVE
from replan.store.rows import records_of

T = TypeVar("T")
_WRITERS_SECS = 30.0
"""How long the beginning of `from_now` is waited for."""

_MAX = "SELECT coalesce(max(id), 0) AS id FROM task"
_STEP = """SELECT max(id) AS id FROM (SELECT id FROM task WHERE id > (SELECT horizon FROM outbox_consumer WHERE name = %(name)s::text)
 ORDER BY id LIMIT %(step)s::int) new"""
_WRITERS = """SELECT DISTINCT virtualtransaction AS id FROM pg_locks WHERE locktype = 'relation' AND relation = 'task'::regclass
 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
 AND mode NOT IN ('AccessShareLock', 'RowShareLock') AND granted"""
"""The transactions that may have taken a number for a task: they hold this lock from before until they are over."""

_REGISTER = """INSERT INTO outbox_consumer (name, horizon) VALUES (%(name)s::text, 0) ON CONFLICT DO NOTHING RETURNING name"""
_REGISTER_NOW = """WITH c AS (
 INSERT INTO outbox_consumer (name, horizon) VALUES (%(name)s::text, %(horizon)s::bigint) ON CONFLICT DO NOTHING RETURNING name, horizon),
p AS (INSERT INTO outbox_position SELECT c.name, t.id, t.last_seq FROM c, task t WHERE t.id <= c.horizon AND NOT t.ended)
SELECT name FROM c"""
_FORGET = """WITH c AS (DELETE FROM outbox_consumer WHERE name = %(name)s::text RETURNING name),
p AS (DELETE FROM outbox_position WHERE consumer = %(name)s::text)
SELECT name FROM c"""
_STALE = f"seen < now() - make_interval(secs => {STALE_SECS})"
_TAKE = f"""UPDATE outbox_consumer SET epoch = epoch + 1, holder = %(mine)s::int, seen = now()
 WHERE name = %(name)s::text AND (holder IS NULL OR {_STALE}
  OR (holder = %(mine)s::int AND epoch <> %(here)s::bigint) OR (holder <> %(mine)s::int AND NOT {ALIVE.format(holder="holder")}))
 RETURNING epoch"""
_KNOWN = "SELECT epoch FROM outbox_consumer WHERE name = %(name)s::text"
_BEAT = """UPDATE outbox_consumer SET seen = now(), failures = %(failures)s::int, error = %(error)s::text
 WHERE name = %(name)s::text AND epoch = %(fence)s::bigint RETURNING name"""
_LEAVE = """UPDATE outbox_consumer SET holder = NULL, epoch = epoch + 1 WHERE name = %(name)s::text AND epoch = %(fence)s::bigint"""

_NEW = """SELECT * FROM (
 (SELECT t.id, t.task_id, t.last_seq, p.seq AS after FROM outbox_position p JOIN task t ON t.id = p.task
  WHERE p.consumer = {name} AND p.task <= {horizon} AND p.task > {from_} AND t.last_seq > p.seq ORDER BY p.task LIMIT {most})
 UNION ALL
 (SELECT t.id, t.task_id, t.last_seq, coalesce(p.seq, t.shared) FROM task t LEFT JOIN outbox_position p ON p.consumer = {name} AND p.task = t.id
  WHERE t.id > {horizon} AND t.id > {from_} AND t.last_seq > coalesce(p.seq, t.shared) ORDER BY t.id LIMIT {most})) n ORDER BY id LIMIT {most}"""
"""Tasks with events that a consumer has not got, by their numbers."""
_NEXT = f"""SELECT id, task_id, after, seq, ts, round, type, data FROM (
 SELECT n.id, n.task_id, n.after, e.seq, e.ts, e.round, e.type, e.data,
  sum(octet_length(e.data)) OVER (ORDER BY n.id, e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
 FROM (SELECT horizon FROM outbox_consumer WHERE name = %(name)s::text AND epoch = %(fence)s::bigint) c, LATERAL ({
    _NEW.format(name="%(name)s::text", horizon="c.horizon", from_="%(from)s::bigint", most=TASKS)
}) n, LATERAL (SELECT * FROM event WHERE task = n.id AND seq > n.after ORDER BY seq LIMIT {TASK_ROWS}) e) s
 WHERE coalesce(before, 0) < {BATCH_BYTES} ORDER BY id, seq"""
_DELIVERED = """WITH c AS (
 UPDATE outbox_consumer SET seen = now(), delivered = now(), failures = 0, error = NULL
 WHERE name = %(name)s::text AND epoch = %(fence)s::bigint RETURNING name, horizon),
r AS (SELECT c.name, c.horizon, r.* FROM c, unnest(%(tasks)s::bigint[], %(seqs)s::bigint[], %(ends)s::bool[]) AS r(task, seq, ends)
 JOIN task ON task.id = r.task),
p AS (INSERT INTO outbox_position AS o SELECT name, task, seq FROM r WHERE NOT ends OR task > horizon
 ON CONFLICT (consumer, task) DO UPDATE SET seq = greatest(o.seq, excluded.seq)),
d AS (DELETE FROM outbox_position o USING r WHERE o.consumer = r.name AND o.task = r.task AND r.ends AND r.task <= r.horizon)
SELECT name FROM c"""
_ADVANCE = """WITH c AS (
 UPDATE outbox_consumer n SET horizon = %(horizon)s::bigint FROM outbox_consumer o
 WHERE n.name = %(name)s::text AND n.epoch = %(fence)s::bigint AND o.name = n.name AND n.horizon < %(horizon)s::bigint
 RETURNING n.name, o.horizon AS before, n.horizon),
p AS (INSERT INTO outbox_position SELECT c.name, t.id, t.shared FROM c, task t WHERE t.id > c.before AND t.id <= c.horizon
 AND NOT EXISTS (SELECT FROM outbox_position o WHERE o.consumer = c.name AND o.task = t.id))
DELETE FROM outbox_position o USING c, task t WHERE o.consumer = c.name AND o.task > c.before AND o.task <= c.horizon
 AND t.id = o.task AND t.ended AND t.last_seq <= o.seq"""
"""With what is over: tasks that are delivered to their end. Both parts see the rows as they were: none is written by both."""
_GONE = """DELETE FROM outbox_position o USING outbox_consumer c WHERE c.name = %(name)s::text AND c.epoch = %(fence)s::bigint
 AND o.consumer = c.name AND NOT EXISTS (SELECT FROM task t WHERE t.id = o.task)"""
"""What is left of tasks that were deleted."""
_CONSUMERS = f"""SELECT c.name, extract(epoch FROM c.delivered)::float8 AS delivered, c.failures, c.error,
 holder IS NOT NULL AND NOT {_STALE} AND (holder = %(mine)s::int OR {
    ALIVE.format(holder="holder")
}) AS read, b.events, b.tasks, b.since
 FROM outbox_consumer c, LATERAL (SELECT count(*) AS tasks, coalesce(sum(last_seq - after), 0)::bigint AS events,
  min((SELECT ts FROM event WHERE task = n.id AND seq > n.after ORDER BY seq LIMIT 1)) AS since FROM ({
    _NEW.format(name="c.name", horizon="c.horizon", from_="0", most=MOST_BEHIND)
}) n) b ORDER BY c.name"""


class _Coming(NamedTuple):
    """Where the horizon goes to when these transactions are over."""

    horizon: int
    writers: frozenset[str]


class PostgresOutbox:
    """All consumers of one database. Of any event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._here: dict[str, int] = {}
        """Whom this process delivers to: the fences."""
        self._from: dict[str, int] = {}
        """Where the last batch ended: one task that never ends holds up no others."""
        self._coming: dict[str, _Coming] = {}

    async def register(self, name: str, *, from_now: bool = False) -> bool:
        return await self._do(self._register(checked(name), from_now))

    async def _register(self, name: str, from_now: bool) -> bool:
        if not from_now:
            return bool(await self._ask(_REGISTER, name=name))
        horizon = (await self._ask(_MAX))[0]["id"]
        writers, until = await self._writers(), time.monotonic() + _WRITERS_SECS
        while writers & await self._writers():
            if time.monotonic() > until:
                raise StoreBusy(
                    f"the database {self._database.shown} has a transaction that has been writing to the table of tasks for "
                    f"over {_WRITERS_SECS:.0f} s (see pg_stat_activity): end it, or register {name!r} from the beginning"
                )
            await asyncio.sleep(0.05)
        return bool(await self._ask(_REGISTER_NOW, name=name, horizon=horizon))

    async def forget(self, name: str) -> bool:
        return bool(await self._do(self._ask(_FORGET, name=name)))

    async def take(self, name: str) -> Reading | None:
        return await self._do(self._take(name))

    async def _take(self, name: str) -> Reading | None:
        mine = self._database.holder
        rows = await self._ask(_TAKE, name=name, mine=mine, here=self._here.get(name, -1))
        if not rows:
            if not await self._ask(_KNOWN, name=name):
                raise InputError(f"there is no consumer {name!r}: register it first")
            return None
        self._here[name] = rows[0]["epoch"]
        self._coming.pop(name, None)
        self._from.pop(name, None)
        reading = Reading(name, rows[0]["epoch"])
        await self._ask(_GONE, **_named(reading))
        return reading

    async def beat(self, reading: Reading, *, failures: int = 0, error: str | None = None) -> None:
        params = {**_named(reading), "failures": failures, "error": None if error is None else _text(error)}
        self._check(reading, await self._do(self._ask(_BEAT, **params)))

    async def leave(self, reading: Reading) -> None:
        if self._here.get(reading.consumer) == reading.fence:
            del self._here[reading.consumer]
        await self._do(self._ask(_LEAVE, **_named(reading)))

    async def next(self, reading: Reading) -> Batch:
        rows = await self._do(self._next(reading))
        return await asyncio.to_thread(_batch, rows)  # beside the event loop: it may be large

    async def _next(self, reading: Reading) -> list[dict[str, Any]]:
        name = reading.consumer
        await self._advance(reading)
        since = self._from.get(name, 0)
        rows = await self._ask(_NEXT, **_named(reading), **{"from": since})
        if not rows and since:
            rows = await self._ask(_NEXT, **_named(reading), **{"from": 0})
        if rows:
            self._from[name] = rows[-1]["id"]
        else:
            self._from.pop(name, None)
            self._check(
                reading, await self._ask(_KNOWN + " AND epoch = %(fence)s::bigint", **_named(reading))
            )
        return rows

    async def _advance(self, reading: Reading) -> None:
        """Bring the horizon forward, as far as that can be said."""
        name = reading.consumer
        if (coming := self._coming.get(name)) is not None:
            if coming.writers and coming.writers & await self._writers():
                return
            await self._ask(_ADVANCE, **_named(reading), horizon=coming.horizon)
            del self._coming[name]
        horizon = (await self._ask(_STEP, name=name, step=STEP))[0]["id"]
        if horizon is not None:
            # In this order: who took a lower number and is not seen by then, has the lock now or is over.
            self._coming[name] = _Coming(horizon, await self._writers())

    async def _writers(self) -> frozenset[str]:
        return frozenset(row["id"] for row in await self._ask(_WRITERS))

    async def delivered(self, reading: Reading, batch: Batch) -> None:
        params = {
            **_named(reading),
            "tasks": [one.task for one in batch.reached],
            "seqs": [one.seq for one in batch.reached],
            "ends": [one.ends for one in batch.reached],
        }
        self._check(reading, await self._do(self._ask(_DELIVERED, **params)))

    async def consumers(self) -> list[ConsumerState]:
        return await self._do(consumers_in(self._database.ask, self._database.holder))

    def _check(self, reading: Reading, rows: list[dict[str, Any]]) -> None:
        if not rows:
            raise StaleWriter(f"another process delivers to {reading.consumer!r} by now, or it was forgotten")

    async def _ask(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        return await self._database.ask(sql, params)

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        found: T = await asyncio.wrap_future(self._database.run(work))
        return found


async def consumers_in(ask: Ask, mine: int = 0) -> list[ConsumerState]:
    """How each consumer is doing. `mine`: the number of the process that looks, if it has one."""
    return [
        ConsumerState(
            row["name"], bool(row["read"]), row["events"], row["tasks"], row["since"], row["delivered"], row["failures"],
            row["error"],
        )
        for row in await ask(_CONSUMERS, {"mine": mine})
    ]  # fmt: skip


def _batch(rows: list[dict[str, Any]]) -> Batch:
    records, reached = list[Record](), list[Delivered]()
    for (number, task_id, after), some in groupby(rows, itemgetter("id", "task_id", "after")):
        columns = ((row["seq"], row["ts"], row["round"], row["type"], row["data"]) for row in some)
        records += records_of(task_id, columns, after)
        last = records[-1]
        reached.append(Delivered(number, last.seq, last.ts, isinstance(last.event, TERMINAL)))
    return Batch(records, reached)


def _named(reading: Reading) -> dict[str, Any]:
    return {"name": reading.consumer, "fence": reading.fence}


def _text(error: str) -> str:
    return error.replace("\x00", "\\0")[:2_000]
