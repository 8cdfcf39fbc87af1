"""The list of tasks in the SQLite file. Each way to narrow it down has an index in its order, so that a page reads that many rows.

The index is named in the statement: where a few tenants have nearly all tasks, a guess by averages would read through theirs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple, get_args

from replan.core.data.strict_json import storable
from replan.core.state.task import ENDED, TaskStatus
from replan.errors import TaskNotFound

_LAST_OF_ALL = 2**62
_REWRITTEN = """CASE WHEN parent IS NULL THEN rewritten ELSE (WITH RECURSIVE line (parent, n) AS (
 SELECT task.parent, task.rewritten UNION ALL SELECT p.parent, p.rewritten FROM line JOIN task p ON p.id = line.parent)
 SELECT sum(n) FROM line) END"""
"""Of a fork's whole history."""
_ROW = (
    f"SELECT task_id, status, description, created, ts, seq, holder, given_away, tenant, session, {_REWRITTEN} FROM task "
    "JOIN event ON task = id AND seq = (SELECT max(seq) FROM event WHERE task = id)"
)
_STATUSES = get_args(TaskStatus)
_OPEN = "status IN ({})".format(", ".join(f"'{status}'" for status in _STATUSES if status not in ENDED))


class Row(NamedTuple):
    """A task as its row has it."""

    task_id: str
    status: str
    description: str
    created: float
    updated: float
    last_seq: int
    holder: str | None
    given_away: str | None
    tenant: str
    session: str
    rewritten: int


def row(db: sqlite3.Connection, *, task_id: str) -> Row:
    found = db.execute(f"{_ROW} WHERE task_id = ?", (storable(task_id),)).fetchone()
    if found is None:
        raise TaskNotFound(task_id)
    return Row(*found)


def rows(
    db: sqlite3.Connection,
    *,
    status: Sequence[str],
    limit: int,
    before: str | None,
    tenant: str | None,
    session: str | None,
) -> list[Row]:
    """Tasks with one of these statuses, newest first."""
    start, most = _before(db, before, tenant), max(limit, 0)
    tenant, session = tenant and storable(tenant), session and storable(session)
    known = [one for one in _STATUSES if one in status]
    if status and not known:
        return []
    ways: list[tuple[str, list[str]]]
    """Where each looks, and what for; the page is the newest of what they find."""
    if session:
        where, values = "INDEXED BY task_session WHERE session <> '' AND session = ?", [session]
        if tenant is not None:
            where, values = f"{where} AND tenant = ?", [session, tenant]
        if known:
            where, values = f"{where} AND status IN ({', '.join('?' * len(known))})", [*values, *known]
        ways = [(where, values)]
    elif tenant is not None:
        within = "INDEXED BY task_tenant_status WHERE tenant = ? AND status = ?"
        ways = [(within, [tenant, one]) for one in known] or [
            ("INDEXED BY task_tenant WHERE tenant = ?", [tenant])
        ]
    else:
        ways = [("INDEXED BY task_status WHERE status = ?", [one]) for one in known] or [("WHERE 1", [])]
    each = " UNION ALL ".join(
        f"SELECT * FROM (SELECT id FROM task {where} AND id < ? ORDER BY id DESC LIMIT ?)"
        for where, _ in ways
    )
    query = f"{_ROW} WHERE id IN (SELECT id FROM ({each}) ORDER BY id DESC LIMIT ?) ORDER BY id DESC"
    given = [value for _, values in ways for value in (*values, start, most)]
    return [Row(*found) for found in db.execute(query, (*given, most))]


def _before(db: sqlite3.Connection, before: str | None, tenant: str | None) -> int:
    """The number that a page ends before. A task of another tenant is not there."""
    if before is None:
        return _LAST_OF_ALL
    known = db.execute("SELECT id, tenant FROM task WHERE task_id = ?", (storable(before),)).fetchone()
    if known is None or tenant not in (None, known[1]):
        raise TaskNotFound(before)
    return int(known[0])


def count(db: sqlite3.Connection, *, tenant: str | None, unfinished: bool) -> int:
    if tenant is None:
        where = f"INDEXED BY task_status WHERE {_OPEN}" if unfinished else ""
        query, given = f"SELECT count(*) FROM task {where}", list[str]()
    elif unfinished:
        query = f"SELECT count(*) FROM task INDEXED BY task_tenant_status WHERE tenant = ? AND {_OPEN}"
        given = [tenant]
    else:
        query, given = "SELECT count(*) FROM task INDEXED BY task_tenant WHERE tenant = ?", [tenant]
    return int(db.execute(query, given).fetchone()[0])
