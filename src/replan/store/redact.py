"""Taking out of a task's rows what nobody should have been able to read in them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from replan.core import events as e
from replan.ports import Redaction
from replan.store import contents
from replan.store.rows import TOGETHER

_EVER = float("inf")


def redact(db: sqlite3.Connection, number: int, redaction: Redaction) -> None:
    """Rewrite the rows of a task that hold something to take out, and no others. The numbers of its events stay."""
    uses = db.execute("SELECT artifact_id, artifact FROM artifact_use WHERE task = ?", (number,)).fetchall()
    for artifact_id, content in uses:
        data = contents.whole(db, content)
        if (new := redaction.artifact(artifact_id, data)) != data:
            where = (contents.put(db, new, 0.0), number, artifact_id)
            db.execute("UPDATE artifact_use SET artifact = ? WHERE task = ? AND artifact_id = ?", where)
            for alone in contents.abandoned(db, [content], _EVER):
                contents.drop(db, alone)
    rows = db.execute("SELECT seq, type, data FROM event WHERE task = ? ORDER BY seq", (number,)).fetchall()
    for seq, kind, data in rows:
        made = rewritten(kind, data, redaction)
        if made is None:
            continue
        db.execute("UPDATE event SET data = ? WHERE task = ? AND seq = ?", (made.data, number, seq))
        _tell_of(db, number, made.events)


class Rewritten(NamedTuple):
    """A row's events as they should have been recorded, and their stored form."""

    events: list[e.AnyEvent]
    data: str


def rewritten(kind: str, data: str, redaction: Redaction) -> Rewritten | None:
    """A stored row without what is to be taken out; None if nothing is."""
    events = [e.read(*pair) for pair in e.split_together(data)] if kind == TOGETHER else [e.load(kind, data)]
    made = [redaction.event(event) for event in events]
    if all(new is old for new, old in zip(made, events, strict=True)):
        return None
    return Rewritten(made, e.dump_together(made) if kind == TOGETHER else e.dump(made[0]))


def _tell_of(db: sqlite3.Connection, number: int, events: Sequence[e.AnyEvent]) -> None:
    """The list of tasks has the description and the session once more, for the forks too."""
    for event in events:
        if isinstance(event, e.TaskSubmitted):
            db.execute(
                "UPDATE task SET description = ?, session = ? WHERE id = ? OR family = ?",
                (event.description, event.session, number, number),
            )
