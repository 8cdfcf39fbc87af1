"""What the SQLite file holds that nobody needs any more, and the space that it leaves."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from replan.ports import KeptTask

_PAGES = 512
"""Given back in one commit: two megabytes."""
_KEPT = """SELECT id, task_id, status, last.ts, last.seq FROM task JOIN event last ON last.task = id
 AND last.seq = (SELECT max(seq) FROM event WHERE task = id) WHERE id < ? AND created < ? AND last.ts < ?
 AND status IN ({}) ORDER BY id DESC LIMIT ?"""
_UNDELIVERED = """SELECT EXISTS (SELECT 1 FROM outbox_consumer c LEFT JOIN outbox_position p ON p.consumer = c.name AND p.task = :task
 WHERE coalesce(p.seq, CASE WHEN :task > c.horizon THEN 0 ELSE :last END) < :last)"""
_EVER = 1e300


def sizes(
    db: sqlite3.Connection, status: Collection[str], before: float | None, below: int | None, limit: int
) -> list[KeptTask]:
    when = _EVER if before is None else before
    query = _KEPT.format(", ".join("?" * len(status)))
    rows = db.execute(query, (2**62 if below is None else below, when, when, *status, limit)).fetchall()
    return [_kept(db, *row) for row in rows]


def _kept(
    db: sqlite3.Connection, number: int, task_id: str, status: str, updated: float, last: int
) -> KeptTask:
    (size,) = db.execute(
        "SELECT coalesce(sum(length(CAST(data AS BLOB))), 0) FROM event WHERE task = ?", (number,)
    ).fetchone()
    contents = db.execute(
        "SELECT digest, size, (SELECT count(DISTINCT task) FROM artifact_use u WHERE u.artifact = a.id) FROM artifact a "
        "WHERE id IN (SELECT artifact FROM artifact_use WHERE task = ?)",
        (number,),
    )
    forks = db.execute("SELECT task_id FROM task WHERE parent = ?", (number,))
    (undelivered,) = db.execute(_UNDELIVERED, {"task": number, "last": last}).fetchone()
    return KeptTask(
        task_id,
        status,
        updated,
        size,
        tuple((digest.hex(), size, users) for digest, size, users in contents),
        tuple(row[0] for row in forks),
        bool(undelivered),
        number,
    )


def lived_since(db: sqlite3.Connection, before: float) -> float | None:
    (found,) = db.execute(
        "SELECT min(ts) FROM (SELECT (SELECT ts FROM event WHERE task = id ORDER BY seq DESC LIMIT 1) AS ts FROM task) WHERE ts >= ?",
        (before,),
    ).fetchone()
    return None if found is None else float(found)


def due(db: sqlite3.Connection, secs: float, now: float) -> bool:
    row = db.execute("SELECT at FROM tidied").fetchone()
    if row is not None and now - secs < row[0] <= now:
        return False
    db.execute("INSERT INTO tidied VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET at = excluded.at", (now,))
    return True


def forget(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM tidied")


def shrinks(db: sqlite3.Connection) -> bool:
    """Whether free pages can be given back one by one: it was made by a release that sees to that."""
    return bool(db.execute("PRAGMA auto_vacuum").fetchone()[0] == 2)


def give_back(db: sqlite3.Connection) -> bool:
    """Give some free pages back; True if there are more."""
    for _ in range(_PAGES):  # a step of the statement is a page, and `execute` makes one
        db.execute("PRAGMA incremental_vacuum(1)")
    return int(db.execute("PRAGMA freelist_count").fetchone()[0]) > 0


def rebuild(db: sqlite3.Connection) -> None:
    """Write the file anew without free pages; from then on they can be given back one by one. Outside a transaction."""
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("VACUUM")
