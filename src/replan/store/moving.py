"""Tasks of the SQLite file as they lie there, for another store, and from one."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Collection, Mapping, Sequence

from replan.core import events as e
from replan.core.data.strict_json import storable
from replan.core.state.task import ENDED
from replan.errors import InputError, StaleWriter, TaskExists, TaskNotFound, TaskShared
from replan.ports import Admission, Claim, Content, NewArtifact, StoredRow, StoredTask
from replan.store import contents, forks

_ENDED = ", ".join(f"'{status}'" for status in sorted(ENDED))
_UNDELIVERED = """SELECT t.task_id, c.name FROM (SELECT id, task_id, (SELECT max(seq) FROM event WHERE task = id) AS last FROM task WHERE task_id = ?) t
 CROSS JOIN outbox_consumer c LEFT JOIN outbox_position p ON p.consumer = c.name AND p.task = t.id
 WHERE coalesce(p.seq, CASE WHEN t.id > c.horizon THEN 0 ELSE t.last END) < t.last ORDER BY c.name"""


def moved_before(task_id: str) -> InputError:
    return InputError(
        f"task {task_id!r} was here before, and came in or was given away with this file or a later one: what was done since then, here "
        "or where it went, would be done again. If no database has gone on with it since, import the file with --not-gone-on (library: "
        "not_gone_on=True)"
    )


EPOCH_BITS = 48
"""Where a task's fences begin is random: an id that comes again, for another task, has none of the fences that it had."""


def stored(db: sqlite3.Connection, task_id: str) -> StoredTask:
    row = db.execute(
        "SELECT t.id, t.request, t.created, p.task_id, t.shared, t.sealed_by FROM task t "
        "LEFT JOIN task p ON p.id = t.parent WHERE t.task_id = ?",
        (task_id,),
    ).fetchone()
    if row is None:
        raise TaskNotFound(task_id)
    uses = db.execute(
        "SELECT artifact_id, digest, size FROM artifact_use JOIN artifact ON artifact = id WHERE task = ? ORDER BY 1",
        (row[0],),
    )
    artifacts = tuple((name, Content(digest.hex(), size)) for name, digest, size in uses)
    taken = db.execute(
        "SELECT key, task_id, times FROM effect LEFT JOIN task ON id = owner WHERE effect.family = ? ORDER BY key",
        (row[0],),
    )
    return StoredTask(task_id, row[1], row[2], artifacts, row[3], row[4], tuple(taken), row[5])


def rows(db: sqlite3.Connection, task_id: str, after: int, limit: int) -> list[StoredRow]:
    known = db.execute("SELECT id FROM task WHERE task_id = ?", (task_id,)).fetchone()
    if known is None:
        raise TaskNotFound(task_id)
    found = db.execute(
        "SELECT seq, ts, round, type, data FROM event WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?",
        (known[0], after, limit),
    )
    return [StoredRow(*row) for row in found]


def admit(
    db: sqlite3.Connection,
    admissions: Sequence[Admission],
    digest: str,
    now: float,
    *,
    not_gone_on: bool = False,
) -> None:
    """Take the tasks in; in one transaction, which the caller has begun."""
    ids = [one.task.task_id for one in admissions]
    for task_id in ids:
        if db.execute("SELECT 1 FROM task WHERE task_id = ?", (task_id,)).fetchone():
            raise TaskExists(task_id)
    if not not_gone_on:
        _refuse_moved(db, admissions, digest)
    for one in admissions:
        number = _admit(db, one, now)
        db.execute("DELETE FROM moved_away WHERE task_id = ?", (one.task.task_id,))
        if not one.ended:
            _remember(db, number, digest)
    for one in admissions:  # who has taken a call may come later in the file
        db.executemany(
            "INSERT OR IGNORE INTO effect SELECT f.id, ?, (SELECT id FROM task WHERE task_id = ?), ? FROM task f WHERE f.task_id = ?",
            [(*taken, one.task.task_id) for taken in one.task.taken],
        )


def _admit(db: sqlite3.Connection, one: Admission, now: float) -> int:
    task = one.task
    parent = family = None
    if task.parent is not None:
        parent, family = db.execute(
            "SELECT id, coalesce(family, id) FROM task WHERE task_id = ?", (task.parent,)
        ).fetchone()
    number = db.execute(
        "INSERT INTO task (task_id, request, status, description, created, epoch, parent, shared, family, sealed_by, tenant, session) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            task.task_id,
            task.request,
            one.status,
            storable(one.description),
            task.created,
            secrets.randbits(EPOCH_BITS),
            parent,
            task.shared,
            family,
            task.sealed_by,
            one.tenant,
            one.session,
        ),
    ).lastrowid
    assert number is not None
    for row in one.rows():
        db.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", (number, *row))
        if (kind := e.KINDS.get(row.type)) is not None and kind.signal:
            db.execute("INSERT INTO signal (task, seq) VALUES (?, ?)", (number, row.seq))
    for artifact_id, content in task.artifacts:
        contents.use(db, number, NewArtifact(artifact_id, kept=content), now)
    return number


def _refuse_moved(db: sqlite3.Connection, admissions: Sequence[Admission], digest: str) -> None:
    for one in admissions:
        known = db.execute(
            "SELECT 1 FROM move WHERE task_id = ? AND created = ? AND (seq > ? OR digest = ?)",
            (one.task.task_id, one.task.created, one.last_seq, digest),
        )
        if not one.ended and known.fetchone() is not None:
            raise moved_before(one.task.task_id)


def _remember(db: sqlite3.Connection, number: int, digest: str) -> None:
    """How far a task has come that comes in with a file, or is given away to one."""
    db.execute(
        "INSERT INTO move SELECT task_id, created, ?, (SELECT max(seq) FROM event WHERE task = id) FROM task WHERE id = ? "
        "ON CONFLICT DO UPDATE SET seq = max(seq, excluded.seq)",
        (digest, number),
    )


def remove(db: sqlite3.Connection, number: int) -> list[int]:
    """Remove a task with its log; the contents that it used."""
    forks.forget(db, number)
    used = contents.of_task(db, number)
    for table in ("event", "signal", "artifact_use"):
        db.execute(f"DELETE FROM {table} WHERE task = ?", (number,))
    db.execute("DELETE FROM task WHERE id = ?", (number,))
    return used


def undelivered(db: sqlite3.Connection, task_ids: Collection[str]) -> list[tuple[str, str]]:
    return [found for task_id in task_ids for found in db.execute(_UNDELIVERED, (task_id,))]


def give_away(db: sqlite3.Connection, claims: Mapping[Claim, int], digest: str) -> None:
    """Mark tasks that a file has; looked at first, since what was written before an error stays."""
    named = [claim.task_id for claim in claims]
    for claim, last_seq in claims.items():
        row = db.execute(
            "SELECT (SELECT max(seq) FROM event WHERE task = id) FROM task WHERE task_id = ? AND epoch = ? AND given_away IS NULL",
            claim,
        ).fetchone()
        if row is None or row[0] != last_seq:
            raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver, or has gone on")
        refuse_shared(db, claim.task_id, named)
    for task_id in named:
        (number,) = db.execute(
            "UPDATE task SET given_away = ?, holder = NULL, epoch = epoch + 1 WHERE task_id = ? RETURNING id",
            (digest, task_id),
        ).fetchone()
        _remember(db, number, digest)
        db.execute(
            "INSERT OR REPLACE INTO moved_away SELECT t.task_id, f.task_id, f.created FROM task t "
            f"LEFT JOIN task f ON f.id = t.family AND t.status NOT IN ({_ENDED}) WHERE t.id = ?",
            (number,),
        )


def refuse_shared(db: sqlite3.Connection, task_id: str, named: Sequence[str]) -> None:
    if shared := [one.task_id for one in forks.forks_of(db, task_id) if one.task_id not in named]:
        raise TaskShared(task_id, shared)


def remove_given(db: sqlite3.Connection, task_ids: Sequence[str], digest: str) -> list[int]:
    """Remove tasks that are marked so; the contents that they used."""
    numbers = list[int]()
    for task_id in task_ids:
        row = db.execute("SELECT id, given_away FROM task WHERE task_id = ?", (task_id,)).fetchone()
        if row is None:
            continue
        if row[1] != digest:
            raise StaleWriter(
                f"task {task_id!r} was taken back meanwhile: the file is out of date, do not import it"
            )
        refuse_shared(db, task_id, task_ids)
        numbers.append(row[0])
    # One that rests on another has come later, and has a higher number.
    return [used for number in sorted(numbers, reverse=True) for used in remove(db, number)]


def take_back(db: sqlite3.Connection, task_ids: Sequence[str], digest: str | None) -> list[str]:
    taken = [
        task_id
        for task_id in task_ids
        if db.execute(
            "UPDATE task SET given_away = NULL WHERE task_id = ? AND given_away = coalesce(?, given_away)",
            (task_id, digest),
        ).rowcount
    ]
    db.executemany("DELETE FROM moved_away WHERE task_id = ?", [(task_id,) for task_id in taken])
    return taken
