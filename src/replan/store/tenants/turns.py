"""Tasks that are let in by a count of what their tenant has, in the SQLite file: none by a count that another process has overtaken."""

from __future__ import annotations

import sqlite3

from replan.errors import Overtaken
from replan.ports import Counted

_N = "SELECT n FROM let_in WHERE tenant = ?"
_TAKE = """INSERT INTO let_in AS l (tenant, n, maker) VALUES (?, 1, ?)
 ON CONFLICT (tenant) DO UPDATE SET n = l.n + 1, maker = excluded.maker WHERE l.n = ? OR l.maker = excluded.maker"""


def let_in(db: sqlite3.Connection, tenant: str) -> int:
    found = db.execute(_N, (tenant,)).fetchone()
    return 0 if found is None else int(found[0])


def take(db: sqlite3.Connection, turn: Counted | None, mine: str) -> None:
    """Within the transaction that stores the task."""
    if turn is not None and not db.execute(_TAKE, (turn.tenant, mine, turn.seen)).rowcount:
        raise Overtaken(turn.seen)
