"""`ports.Outbox` on SQLite, and what both stores have of it.

Nothing is written for it when events are: what is new is found by each task's own last number. The file has one writer,
so that tasks become visible in the order of their numbers, and the horizon moves with the cursor.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from replan.core.events import TERMINAL, Record
from replan.core.state.task import ENDED
from replan.errors import InputError, StaleWriter
from replan.ports import MOST_BEHIND, Batch, ConsumerState, Delivered, Reading
from replan.store.holders import Holders
from replan.store.reader import Reader
from replan.store.rows import records_of
from replan.store.writer import Writer

STALE_SECS = 20.0
"""Whoever delivers and has not been seen for so long is taken for dead."""
TASKS, TASK_ROWS, BATCH_BYTES = 50, 20, 2_000_000
"""What a batch holds at most: tasks, rows of each, and bytes before its last row."""
STEP = 1_000
"""So many tasks at a time the horizon moves at most."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")

_LAST = "(SELECT max(seq) FROM event WHERE task = {})"
_OLD = f"""SELECT t.id, t.task_id, p.seq, {_LAST.format("t.id")} FROM outbox_position p JOIN task t ON t.id = p.task
 WHERE p.consumer = ? AND p.task > ? AND p.task <= ? AND {_LAST.format("p.task")} > p.seq ORDER BY p.task LIMIT ?"""
_NEW = f"""SELECT t.id, t.task_id, coalesce(p.seq, t.shared), {_LAST.format("t.id")} FROM task t
 LEFT JOIN outbox_position p ON p.consumer = ? AND p.task = t.id
 WHERE t.id > ? AND {_LAST.format("t.id")} > coalesce(p.seq, t.shared) ORDER BY t.id LIMIT ?"""
_ROWS = "SELECT seq, ts, round, type, data FROM event WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?"
_ENDED = "status IN ({})".format(", ".join(f"'{status}'" for status in sorted(ENDED)))
_REACH = """INSERT INTO outbox_position VALUES (?, ?, ?) ON CONFLICT (consumer, task) DO UPDATE SET seq = max(seq, excluded.seq)"""
_DONE = f"""DELETE FROM outbox_position WHERE consumer = ? AND task > ? AND task <= ?
 AND seq >= {_LAST.format("outbox_position.task")} AND (SELECT {_ENDED} FROM task WHERE id = outbox_position.task)"""


def checked(name: str) -> str:
    """The name of a consumer; `InputError` if it cannot be one."""
    if _NAME.fullmatch(name) is None:
        raise InputError(
            f"{name!r} cannot be a consumer's name: small letters, digits, - _ and ., at most 63, such as 'audit'"
        )
    return name


class _New(NamedTuple):
    """A task with events that a consumer has not got."""

    number: int
    task_id: str
    after: int
    last: int


class SqliteOutbox:
    """All consumers of one file."""

    def __init__(self, writer: Writer, reader: Reader, holders: Holders) -> None:
        self._writer = writer
        self._reader = reader
        self._holders = holders
        self._here: dict[str, int] = {}
        """Whom this process delivers to: the fences."""
        self._from: dict[str, int] = {}
        """Where the last batch ended: one task that never ends holds up no others."""
        self._quiet: dict[str, int] = {}
        """The file's version at which a consumer had got all there was."""

    async def register(self, name: str, *, from_now: bool = False) -> bool:
        checked(name)

        def work(db: sqlite3.Connection) -> bool:
            if _row(db, name) is not None:
                return False
            horizon = db.execute("SELECT coalesce(max(id), 0) FROM task").fetchone()[0] if from_now else 0
            db.execute("INSERT INTO outbox_consumer (name, horizon) VALUES (?, ?)", (name, horizon))
            if from_now:
                db.execute(
                    f"INSERT INTO outbox_position SELECT ?, id, {_LAST.format('task.id')} FROM task WHERE NOT ({_ENDED})",
                    (name,),
                )
            return True

        return bool(await self._write(work))

    async def forget(self, name: str) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            db.execute("DELETE FROM outbox_position WHERE consumer = ?", (name,))
            return db.execute("DELETE FROM outbox_consumer WHERE name = ?", (name,)).rowcount > 0

        return bool(await self._write(work))

    async def take(self, name: str) -> Reading | None:
        mine = self._holders.mine

        def work(db: sqlite3.Connection) -> Reading | None:
            row = _row(db, name)
            if row is None:
                raise InputError(f"there is no consumer {name!r}: register it first")
            epoch, holder, seen = row
            here = holder == mine and self._here.get(name) == epoch
            if _fresh(seen) and (here or (holder != mine and self._holders.alive(holder))):
                return None
            db.execute(
                "UPDATE outbox_consumer SET epoch = ?, holder = ?, seen = ? WHERE name = ?",
                (epoch + 1, mine, time.time(), name),
            )
            self._here[name] = epoch + 1
            return Reading(name, epoch + 1)

        reading: Reading | None = await self._write(work)
        if reading is not None:
            self._from.pop(name, None)
            self._quiet.pop(name, None)
        return reading

    async def beat(self, reading: Reading, *, failures: int = 0, error: str | None = None) -> None:
        await self._move(reading, "failures = ?, error = ?", (failures, error and error[:2_000]))

    async def leave(self, reading: Reading) -> None:
        if self._here.get(reading.consumer) == reading.fence:
            del self._here[reading.consumer]
        await self._write(
            lambda db: (
                db.execute(
                    "UPDATE outbox_consumer SET holder = NULL, epoch = epoch + 1 WHERE name = ? AND epoch = ?",
                    tuple(reading),
                ).rowcount
            )
        )

    async def next(self, reading: Reading) -> Batch:
        name = reading.consumer

        def work(db: sqlite3.Connection) -> Batch:
            version = int(db.execute("PRAGMA data_version").fetchone()[0])
            if self._quiet.get(name) == version:
                return Batch((), ())
            db.execute("BEGIN")  # a number that is given again meanwhile is another task's
            try:
                horizon = db.execute(
                    "SELECT horizon FROM outbox_consumer WHERE name = ? AND epoch = ?", tuple(reading)
                ).fetchone()
                if horizon is None:
                    raise _stale(name)
                found = _new(db, name, horizon[0], self._from.get(name, 0), TASKS)
                if not found and self._from.pop(name, 0):
                    found = _new(db, name, horizon[0], 0, TASKS)
                if not found:
                    self._quiet[name] = version
                    return Batch((), ())
                batch = _batch(db, found)
                self._from[name] = batch.reached[-1].task
                return batch
            finally:
                db.execute("ROLLBACK")

        return await self._reader.run(work)

    async def delivered(self, reading: Reading, batch: Batch) -> None:
        def reach(db: sqlite3.Connection, horizon: int) -> None:
            horizon = _advance(db, reading.consumer, horizon)
            for task, seq, ts, ends in batch.reached:
                there = db.execute(
                    "SELECT 1 FROM event WHERE task = ? AND seq = ? AND ts = ?", (task, seq, ts)
                ).fetchone()
                if there is None:  # it was deleted, and the number may be another task's by now
                    continue
                if ends and task <= horizon:
                    db.execute(
                        "DELETE FROM outbox_position WHERE consumer = ? AND task = ?",
                        (reading.consumer, task),
                    )
                else:
                    db.execute(_REACH, (reading.consumer, task, seq))

        await self._move(reading, "delivered = ?, failures = 0, error = NULL", (time.time(),), reach)

    async def consumers(self) -> list[ConsumerState]:
        return await self._reader.run(lambda db: states(db, self._holders.alive))

    async def _move(
        self,
        reading: Reading,
        what: str,
        values: tuple[Any, ...],
        then: Callable[[sqlite3.Connection, int], None] | None = None,
    ) -> None:
        def work(db: sqlite3.Connection) -> None:
            row = db.execute(
                f"UPDATE outbox_consumer SET seen = ?, {what} WHERE name = ? AND epoch = ? RETURNING horizon",
                (time.time(), *values, *reading),
            ).fetchone()
            if row is None:
                raise _stale(reading.consumer)
            if then is not None:
                then(db, row[0])

        await self._write(work)

    async def _write(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        # Not for the disk: what a power cut takes back is delivered again.
        return await self._writer.submit(work, large=True, durable=False)


def _row(db: sqlite3.Connection, name: str) -> tuple[int, str | None, float] | None:
    found: tuple[int, str | None, float] | None = db.execute(
        "SELECT epoch, holder, seen FROM outbox_consumer WHERE name = ?", (name,)
    ).fetchone()
    return found


def _fresh(seen: float) -> bool:
    return abs(time.time() - seen) < STALE_SECS


def _stale(name: str) -> StaleWriter:
    return StaleWriter(f"another process delivers to {name!r} by now, or it was forgotten")


def _new(db: sqlite3.Connection, name: str, horizon: int, since: int, most: int) -> list[_New]:
    rows = db.execute(_OLD, (name, since, horizon, most)).fetchall()
    if len(rows) < most:
        rows += db.execute(_NEW, (name, max(since, horizon), most - len(rows))).fetchall()
    return [_New(*row) for row in rows]


def _batch(db: sqlite3.Connection, found: list[_New]) -> Batch:
    records: list[Record] = []
    reached: list[Delivered] = []
    size = 0
    for task in found:
        if size >= BATCH_BYTES:
            break
        rows = []
        for row in db.execute(_ROWS, (task.number, task.after, TASK_ROWS)):
            rows.append(row)
            size += len(row[4])
            if size >= BATCH_BYTES:
                break
        records += records_of(task.task_id, rows, task.after)
        last = records[-1]
        reached.append(Delivered(task.number, last.seq, last.ts, isinstance(last.event, TERMINAL)))
    return Batch(records, reached)


def _advance(db: sqlite3.Connection, name: str, horizon: int) -> int:
    """Bring the horizon forward, and let go of tasks before it that are delivered to their end; where it is now."""
    moved: int | None = db.execute(
        "SELECT max(id) FROM (SELECT id FROM task WHERE id > ? ORDER BY id LIMIT ?)", (horizon, STEP)
    ).fetchone()[0]
    if moved is None:
        return horizon
    db.execute(
        "INSERT OR IGNORE INTO outbox_position SELECT ?, id, shared FROM task WHERE id > ? AND id <= ?",
        (name, horizon, moved),
    )
    db.execute("UPDATE outbox_consumer SET horizon = ? WHERE name = ?", (moved, name))
    db.execute(_DONE, (name, horizon, moved))
    return moved


def states(db: sqlite3.Connection, alive: Callable[[str | None], bool]) -> list[ConsumerState]:
    """How each consumer is doing. `alive`: whether the process of that name lives."""
    rows = db.execute(
        "SELECT name, horizon, holder, seen, delivered, failures, error FROM outbox_consumer ORDER BY name"
    ).fetchall()
    return [_state(db, row, read=_fresh(row[3]) and alive(row[2])) for row in rows]


def _state(db: sqlite3.Connection, row: tuple[Any, ...], *, read: bool) -> ConsumerState:
    name, horizon, _, _, delivered, failures, error = row
    behind = _new(db, name, horizon, 0, MOST_BEHIND)
    since = [
        db.execute(
            "SELECT ts FROM event WHERE task = ? AND seq > ? ORDER BY seq LIMIT 1", (task.number, task.after)
        ).fetchone()[0]
        for task in behind
    ]
    events = sum(task.last - task.after for task in behind)
    return ConsumerState(
        name, read, events, len(behind), min(since, default=None), delivered, failures, error
    )
