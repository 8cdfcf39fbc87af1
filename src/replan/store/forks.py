"""Forks in the SQLite file: tasks that share the events of another one up to some number, and go on with their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from replan.core import events as e
from replan.core.state.task import ENDED
from replan.errors import (
    InputError,
    SealedElsewhere,
    StaleWriter,
    TaskExists,
    TaskGivenAway,
    TaskGoneFrom,
    TaskNotFound,
)
from replan.ports import Claim, Member, Shared, Taken
from replan.store.rows import records_of

_ALL = 2**62


def family_is_elsewhere(task_id: str, fork: str) -> InputError:
    return InputError(
        f"task {task_id!r} cannot be forked here: task {fork!r}, which shares its history, was given away from this database to a file before it "
        "had ended, and neither fork would know what the other does; fork it where that one is"
    )


def refuse_gone(db: sqlite3.Connection, task_id: str) -> None:
    """`TaskGoneFrom` if a task of this id, which is not here, was given away from here."""
    if db.execute("SELECT 1 FROM moved_away WHERE task_id = ?", (task_id,)).fetchone() is not None:
        raise TaskGoneFrom(task_id)


class Piece(NamedTuple):
    """A part of a task's history: the events of the task of that row after `low`, up to `upto`."""

    number: int
    low: int
    upto: int


def pieces(db: sqlite3.Connection, task_id: str, number: int, after: int = 0) -> list[Piece]:
    """Whose rows have the task's events after `after`, the oldest first."""
    found, upto = list[Piece](), _ALL
    while True:
        row = db.execute("SELECT parent, shared FROM task WHERE id = ?", (number,)).fetchone()
        if row is None:  # removed just now
            raise TaskNotFound(task_id)
        parent, shared = row
        found.insert(0, Piece(number, max(after, shared), upto))
        if parent is None or after >= shared:
            return found
        number, upto = parent, shared


def records(
    db: sqlite3.Connection, task_id: str, history: Sequence[Piece], most: int, only: str = ""
) -> Iterator[e.Record]:
    """The events of these pieces, as those of this task. `only`: a condition that is laid on their rows."""
    for number, low, upto in history:
        bound = upto
        if upto != _ALL:  # events that were appended together are one row, which may go beyond
            row = db.execute("SELECT min(seq) FROM event WHERE task = ? AND seq >= ?", (number, upto))
            bound = row.fetchone()[0] or upto
        rows = db.execute(
            f"SELECT seq, ts, round, type, data FROM event WHERE task = ? AND seq > ? AND seq <= ? {only} "
            "ORDER BY seq LIMIT ?",
            (number, low, bound, most),
        )
        for record in records_of(task_id, rows, low):
            if record.seq > upto:
                break
            yield record


def fork(
    db: sqlite3.Connection,
    task_id: str,
    event: e.TaskForked,
    told: e.ForkMade,
    ts: float,
    epoch: int,
    let_in: Callable[[], None],
) -> str | None:
    """Store a fork; the task whose history it rests on, or None if it was there already. `let_in` is asked before a new one."""
    request = event.request()
    known = db.execute("SELECT request FROM task WHERE task_id = ?", (task_id,)).fetchone()
    if known is not None:
        if known[0] == request:
            return None
        raise TaskExists(task_id)
    refuse_gone(db, task_id)
    origin = db.execute(
        "SELECT id, parent, shared, family, status, description, sealed_by, given_away FROM task WHERE task_id = ?",
        (event.origin,),
    ).fetchone()
    if origin is None:
        raise TaskNotFound(event.origin)
    number, parent, shared, family, status, description, sealed_by, given_away = origin
    if given_away is not None:
        raise TaskGivenAway(event.origin, given_away)
    if sealed_by is not None:
        raise SealedElsewhere(event.origin)
    (last,) = db.execute("SELECT max(seq) FROM event WHERE task = ?", (number,)).fetchone()
    event.check_place(last, ended=status in ENDED)
    family = number if family is None else family
    while event.at <= shared:  # what is shared is not that task's own
        number = parent
        parent, shared, status, name, given_away = db.execute(
            "SELECT parent, shared, status, task_id, given_away FROM task WHERE id = ?", (number,)
        ).fetchone()
        if given_away is not None:
            raise TaskGivenAway(name, given_away)
    elsewhere = db.execute(
        "SELECT moved_away.task_id FROM moved_away JOIN task ON moved_away.family = task.task_id AND since = created WHERE task.id = ?",
        (family,),
    ).fetchone()
    if elsewhere is not None:
        raise family_is_elsewhere(event.origin, elsewhere[0])
    (round_,) = db.execute(
        "SELECT round FROM event WHERE task = ? AND seq >= ? ORDER BY seq LIMIT 1", (number, event.at)
    ).fetchone()
    let_in()
    row = db.execute(
        "INSERT INTO task (task_id, request, status, description, created, epoch, parent, shared, family) "
        "VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, ?)",
        (task_id, request, description, ts, epoch, number, event.at, family),
    ).lastrowid
    _write(db, (row, event.at + 1, ts, round_), event)
    (parent_id,) = db.execute("SELECT task_id FROM task WHERE id = ?", (number,)).fetchone()
    if status not in ENDED:
        last, now = db.execute(
            "SELECT seq, round FROM event WHERE task = ? ORDER BY seq DESC LIMIT 1", (number,)
        ).fetchone()
        _write(db, (number, last + 1, ts, now), told)
        db.execute("INSERT INTO signal (task, seq) VALUES (?, ?)", (number, last + 1))
    return str(parent_id)


def _write(db: sqlite3.Connection, place: tuple[int | None, int, float, int], event: e.AnyEvent) -> None:
    db.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)", (*place, event.type, e.dump(event)))


def rests_on(db: sqlite3.Connection, task_id: str) -> list[Shared]:
    """The tasks whose events its history begins with, the oldest first, each with the last of them."""
    history = pieces(db, task_id, _number(db, task_id))[:-1]
    return [Shared(_name(db, piece.number), piece.upto) for piece in history]


def forks_of(db: sqlite3.Connection, task_id: str) -> list[Shared]:
    """The tasks whose history rests on this one's own events, in the order they came, each with the last of these."""
    rows = db.execute(
        "SELECT task_id, shared FROM task WHERE parent = ? ORDER BY id", (_number(db, task_id),)
    )
    return [Shared(*row) for row in rows]


def family(db: sqlite3.Connection, task_id: str) -> list[Member]:
    """All that share some history with the task, and itself, in the order they came."""
    found = [Member(*row) for row in db.execute(_FAMILY, (task_id,))]
    if not found:
        raise TaskNotFound(task_id)
    return found


def take(db: sqlite3.Connection, claim: Claim, key: str, over: Taken | None) -> Taken:
    """Take a call for the task, unless another one of its family has it; whoever has it now."""
    found = db.execute(
        "SELECT id, coalesce(family, id) FROM task WHERE task_id = ? AND epoch = ?", tuple(claim)
    ).fetchone()
    if found is None:
        raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver, or was given back")
    mine, family = found
    before = (None, -1) if over is None else (_number(db, over.task_id) if over.task_id else None, over.times)
    owner, times = db.execute(_TAKE, {"family": family, "key": key, "mine": mine, "owner": before[0], "times": before[1]}).fetchone()  # fmt: skip
    return Taken(_name(db, owner) if owner is not None else "", times)


def who_has(db: sqlite3.Connection, task_id: str, keys: Sequence[str]) -> dict[str, str]:
    """Which tasks of its family have these calls, as far as one has."""
    family = (_number(db, task_id),)
    (first,) = db.execute("SELECT coalesce(family, id) FROM task WHERE id = ?", family).fetchone()
    rows = (
        db.execute("SELECT key, owner FROM effect WHERE family = ? AND key = ?", (first, key)) for key in keys
    )
    return {key: _name(db, owner) if owner is not None else "" for found in rows for key, owner in found}


def reserve(db: sqlite3.Connection, task_id: str, keys: Sequence[str]) -> None:
    """These calls are that task's, unless one of its family has taken them."""
    number = _number(db, task_id)
    db.executemany(
        "INSERT OR IGNORE INTO effect SELECT coalesce(family, id), ?, id, 1 FROM task WHERE id = ?",
        [(key, number) for key in keys],
    )


def forget(db: sqlite3.Connection, number: int) -> None:
    """The task is deleted: what it has taken stays taken. No task may rest on it."""
    db.execute("DELETE FROM effect WHERE family = ?", (number,))
    db.execute("UPDATE effect SET owner = NULL WHERE owner = ?", (number,))


def _number(db: sqlite3.Connection, task_id: str) -> int:
    row = db.execute("SELECT id FROM task WHERE task_id = ?", (task_id,)).fetchone()
    if row is None:
        raise TaskNotFound(task_id)
    return int(row[0])


def _name(db: sqlite3.Connection, number: int) -> str:
    return str(db.execute("SELECT task_id FROM task WHERE id = ?", (number,)).fetchone()[0])


_FAMILY = """WITH RECURSIVE kin (id) AS (SELECT coalesce(family, id) FROM task WHERE task_id = ?
 UNION ALL SELECT t.id FROM task t JOIN kin ON t.parent = kin.id)
SELECT t.task_id, t.created, (SELECT max(seq) FROM event WHERE task = t.id) FROM kin JOIN task t USING (id) ORDER BY t.id"""
_MAY = "(owner = excluded.owner OR (owner IS :owner AND times = :times))"
_TAKE = f"""INSERT INTO effect (family, key, owner, times) VALUES (:family, :key, :mine, 1)
ON CONFLICT DO UPDATE SET owner = CASE WHEN {_MAY} THEN excluded.owner ELSE owner END,
 times = CASE WHEN {_MAY} THEN times + 1 ELSE times END
RETURNING owner, times"""
