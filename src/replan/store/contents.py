"""Large outputs in the SQLite file: each content once, in pieces, and which tasks use it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from replan.errors import InputError, StoreDamaged, StoreError, TaskNotFound
from replan.ports import Content, NewArtifact
from replan.store import forks

PIECE = 1 << 20
KEPT_SECS = 3_600.0
"""So long a content that no task uses yet is left alone: its task is about to."""


class Found(NamedTuple):
    """Where a content lies."""

    number: int
    content: Content


def put(db: sqlite3.Connection, data: bytes, now: float) -> int:
    """Store a content that is at hand; its number."""
    digest = hashlib.sha256(data).digest()
    known = db.execute("SELECT id FROM artifact WHERE digest = ?", (digest,)).fetchone()
    if known is not None:
        return int(known[0])
    number = begin(db, now)
    for n, at in enumerate(range(0, len(data), PIECE)):
        db.execute("INSERT INTO artifact_piece VALUES (?, ?, ?)", (number, n, data[at : at + PIECE]))
    db.execute("UPDATE artifact SET digest = ?, size = ? WHERE id = ?", (digest, len(data), number))
    return number


def begin(db: sqlite3.Connection, now: float) -> int:
    """A content that comes piece by piece; nobody finds it before it is finished."""
    return int(db.execute("INSERT INTO artifact (size, touched) VALUES (0, ?)", (now,)).lastrowid or 0)


def add(db: sqlite3.Connection, number: int, n: int, data: bytes, now: float) -> None:
    """Its next piece."""
    if not db.execute("UPDATE artifact SET touched = ? WHERE id = ?", (now, number)).rowcount:
        raise StoreError(
            "what was stored of a large output was removed meanwhile: it came to a halt for too long"
        )
    db.execute("INSERT INTO artifact_piece VALUES (?, ?, ?)", (number, n, data))


def finish(db: sqlite3.Connection, number: int, content: Content, now: float) -> None:
    """It is whole now; the same content once more is dropped."""
    digest = bytes.fromhex(content.digest)
    if db.execute("UPDATE artifact SET touched = ? WHERE digest = ?", (now, digest)).rowcount:
        drop(db, number)
        return
    done = db.execute(
        "UPDATE artifact SET digest = ?, size = ?, touched = ? WHERE id = ?",
        (digest, content.size, now, number),
    )
    if not done.rowcount:
        raise StoreError(
            "what was stored of a large output was removed meanwhile: it came to a halt for too long"
        )


def drop(db: sqlite3.Connection, number: int) -> None:
    db.execute("DELETE FROM artifact_piece WHERE artifact = ?", (number,))
    db.execute("DELETE FROM artifact WHERE id = ?", (number,))


def use(db: sqlite3.Connection, task: int, artifact: NewArtifact, now: float) -> None:
    """The task has this artifact from now on; what it has under that id already stays."""
    if artifact.kept is None:
        number = put(db, artifact.data, now)
    else:
        digest = bytes.fromhex(artifact.kept.digest)
        found = db.execute("SELECT id FROM artifact WHERE digest = ?", (digest,)).fetchone()
        if found is None:
            raise StoreError(
                f"the content of {artifact.artifact_id} was removed before its task came to use it"
            )
        number = found[0]
    db.execute("INSERT OR IGNORE INTO artifact_use VALUES (?, ?, ?)", (task, artifact.artifact_id, number))
    db.execute("UPDATE artifact SET touched = 0 WHERE id = ?", (number,))


def find(db: sqlite3.Connection, task_id: str, artifact_id: str) -> Found:
    """The content of a task's artifact."""
    known = db.execute("SELECT id FROM task WHERE task_id = ?", (task_id,)).fetchone()
    if known is None:
        raise TaskNotFound(task_id)
    for one in reversed(forks.pieces(db, task_id, known[0])):
        row = db.execute(
            "SELECT id, digest, size FROM artifact JOIN artifact_use ON artifact = id WHERE task = ? AND artifact_id = ?",
            (one.number, artifact_id),
        ).fetchone()
        if row is not None:
            return Found(row[0], Content(row[1].hex(), row[2]))
    raise InputError(f"task {task_id!r} has no artifact {artifact_id!r}")


def piece(db: sqlite3.Connection, number: int, n: int) -> bytes | None:
    """One piece; None after the last."""
    row = db.execute("SELECT data FROM artifact_piece WHERE artifact = ? AND n = ?", (number, n)).fetchone()
    return None if row is None else bytes(row[0])


def part(db: sqlite3.Connection, number: int, start: int, size: int) -> bytes:
    """So many bytes from there on; of pieces that none of them is in only the length is read."""
    found, at = bytearray(), 0
    for n, length in db.execute(
        "SELECT n, length(data) FROM artifact_piece WHERE artifact = ? ORDER BY n", (number,)
    ).fetchall():
        if len(found) >= size:
            break
        if at + length > start:
            found += (piece(db, number, n) or b"")[max(0, start - at) :]
        at += length
    return bytes(found[:size])


def whole(db: sqlite3.Connection, number: int) -> bytes:
    """All of it, as it lies there."""
    rows = db.execute("SELECT data FROM artifact_piece WHERE artifact = ? ORDER BY n", (number,))
    return b"".join([row[0] for row in rows])


def abandoned(db: sqlite3.Connection, numbers: Iterable[int], before: float) -> list[int]:
    """Those of the contents that no task uses or is about to use (`touched` before then): from now on nobody finds them."""
    return [
        number
        for number in numbers
        if db.execute(
            "UPDATE artifact SET digest = NULL, touched = 0 WHERE id = ? AND touched < ? "
            "AND NOT EXISTS (SELECT 1 FROM artifact_use WHERE artifact = id)",
            (number, before),
        ).rowcount
    ]


def shrunk(db: sqlite3.Connection, number: int, most: int = 32) -> bool:
    """Remove some pieces of an abandoned content; True once it is gone."""
    gone = db.execute(
        "DELETE FROM artifact_piece WHERE artifact = ? AND n IN "
        "(SELECT n FROM artifact_piece WHERE artifact = ? ORDER BY n DESC LIMIT ?)",
        (number, number, most),
    ).rowcount
    if gone < most:
        db.execute("DELETE FROM artifact WHERE id = ?", (number,))
    return gone < most


def sweepable(db: sqlite3.Connection, before: float, most: int = 100) -> list[int]:
    """Contents that no task uses, half-written ones among them."""
    rows = db.execute(
        "SELECT id FROM artifact WHERE touched < ? AND NOT EXISTS (SELECT 1 FROM artifact_use WHERE artifact = id) LIMIT ?",
        (before, most),
    )
    return [row[0] for row in rows]


def of_task(db: sqlite3.Connection, task: int) -> list[int]:
    """The numbers of the contents that a task uses."""
    return [
        row[0] for row in db.execute("SELECT DISTINCT artifact FROM artifact_use WHERE task = ?", (task,))
    ]


def check(data: bytes, content: Content, artifact_id: str) -> bytes:
    """The data; `StoreDamaged` where it is not what was stored."""
    if len(data) != content.size or hashlib.sha256(data).hexdigest() != content.digest:
        raise damaged(artifact_id)
    return data


def damaged(artifact_id: str) -> StoreDamaged:
    return StoreDamaged(
        f"artifact {artifact_id} is not what was stored: the database is damaged, or was changed by somebody; restore it "
        "from a backup"
    )
