"""A look at a SQLite file, through a connection that can only read."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from replan.core.state.task import ENDED, TaskStatus
from replan.store import schema
from replan.store.holders import alive, anybody
from replan.store.inspection.health import JUST_NOW_SECS, MOST, Form, Health, StillTask, tables_of
from replan.store.outbox import states
from replan.store.writer import translate

CHECK_SECS = 3.0
"""How long the file is looked through for damage."""
_BUSY_SECS = 1.0
_STEPS = 10_000
"""Of SQLite's machine, between two looks at the time."""

_LAST = "(SELECT ts FROM event WHERE task = id ORDER BY seq DESC LIMIT 1)"
_DRIVEN = tuple(status for status in get_args(TaskStatus) if status not in ENDED and status != "waiting")
"""The statuses of tasks that somebody should drive."""
_STILL = f"SELECT task_id, status, holder, {_LAST} FROM task WHERE status IN ({', '.join('?' * len(_DRIVEN))}) ORDER BY id LIMIT ?"
_ANSWERED = f"""SELECT task_id, status, holder, {_LAST} FROM task WHERE status = 'waiting' AND id IN (
 SELECT task FROM (SELECT task, max(seq) AS seq FROM signal WHERE id > (SELECT coalesce(max(id), 0) FROM signal) - ? GROUP BY task) s
 WHERE s.seq = (SELECT max(seq) FROM event WHERE task = s.task)) ORDER BY id LIMIT ?"""


_GIVEN_AWAY = f"SELECT task_id, status, {_LAST} FROM task WHERE given_away IS NOT NULL ORDER BY id LIMIT ?"


def look_at_sqlite(path: Path, *, check_secs: float = CHECK_SECS) -> Health:
    """What can be seen of it without changing anything."""
    health = Health(str(path))
    folder = next((each for each in path.parents if each.is_dir()), path.parent)
    with contextlib.suppress(OSError):
        health.free_bytes = shutil.disk_usage(folder).free
    if not path.exists():
        health.there = False
        if not os.access(folder, os.W_OK):
            health.unwritable = f"the folder {folder} may not be written to"
            health.to_write = "give --db a file that can be made"
        return health
    if path.is_dir():
        health.fault = f"{path} is a folder; give --db a file in it"
        return health
    try:
        health.bytes = path.stat().st_size
        with contextlib.suppress(FileNotFoundError):
            health.log_bytes = path.with_name(f"{path.name}-wal").stat().st_size
        with contextlib.closing(_opened(path)) as db:
            _look(health, db, path, check_secs)
    except (sqlite3.Error, OSError) as error:
        health.fault = str(translate(error, path))
    return health


def _opened(path: Path) -> sqlite3.Connection:
    """A connection that only reads; also of a file whose folder is read-only, which SQLite's own log cannot be put into."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECS, isolation_level=None)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
        return connection
    except sqlite3.OperationalError as error:
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY or (log.exists() and log.stat().st_size):
            raise
    connection = sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _look(health: Health, db: sqlite3.Connection, path: Path, check_secs: float) -> None:
    steps = schema.migrations()
    newest = steps[-1][0]
    (at,) = db.execute("PRAGMA user_version").fetchone()
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if names and (at == 0 or not names >= schema.OURS):
        health.fault = f"{path} is a database of something else; give --db another file"
        return
    health.form = Form(at, newest, at, sorted(tables_of(steps, min(at, newest)) - names))
    health.unwritable = _unwritable(path)
    health.to_write = "let no other process hold it, correct its permissions, or give --db a copy"
    _tried(health, lambda: _check(health, db, check_secs))
    if at == 0:
        return

    def count() -> None:
        (health.tasks,) = db.execute("SELECT count(*) FROM (SELECT 1 FROM task LIMIT ?)", (MOST,)).fetchone()

    def consumers() -> None:
        health.consumers = states(db, lambda holder: alive(path, holder))

    _tried(health, count)
    columns = {name for (name,) in db.execute("SELECT name FROM pragma_table_info('task')")}
    _tried(health, lambda: health.still.extend(_still(db, path, given="given_away" in columns)))
    if "outbox_consumer" in names:
        _tried(health, consumers)


def _tried(health: Health, part: Callable[[], None]) -> None:
    try:
        part()
    except Exception as error:  # noqa: BLE001 - whatever it is, also of a row that somebody has spoilt
        if (seen := str(error)) not in health.unseen:
            health.unseen.append(seen)


def _unwritable(path: Path) -> str | None:
    """Why it cannot be written; asked by beginning to, where that may be tried."""
    if not os.access(path, os.W_OK):
        return f"the file {path} is read-only"
    if not os.access(path.parent, os.W_OK):
        return f"the folder {path.parent} is read-only, and SQLite has files beside it"
    try:
        with contextlib.closing(
            sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECS, isolation_level=None
            )
        ) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
    except sqlite3.Error as error:
        return str(translate(error, path))
    return None


def _check(health: Health, db: sqlite3.Connection, check_secs: float) -> None:
    """Look through the file for damage, as far as the time goes."""
    until = time.monotonic() + check_secs
    db.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        rows = [text for (text,) in db.execute("PRAGMA quick_check(5)")]
        health.broken += [row for row in rows if row != "ok"]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_INTERRUPT:
            raise
        health.unchecked = f"looking through all of it would take longer than {check_secs:.0f} s"
    except sqlite3.DatabaseError as error:
        health.broken.append(str(error))
    finally:
        db.set_progress_handler(None, 0)


def _still(db: sqlite3.Connection, path: Path, *, given: bool) -> list[StillTask]:
    now, open_somewhere = time.time(), anybody(path)
    rows = db.execute(_GIVEN_AWAY, (MOST,)) if given else ()
    found = [
        StillTask(task_id, status, "given away", max(now - (ts or 0.0), 0.0)) for task_id, status, ts in rows
    ]
    away = {one.task_id for one in found}
    for task_id, status, holder, ts in db.execute(_STILL, (*_DRIVEN, MOST)):
        secs = max(now - (ts or 0.0), 0.0)
        waits_its_turn = status == "queued" and holder is None and (open_somewhere or secs < JUST_NOW_SECS)
        if not waits_its_turn and task_id not in away and not alive(path, holder):
            found.append(StillTask(task_id, status, "interrupted", secs))
    for task_id, status, holder, ts in db.execute(_ANSWERED, (MOST, MOST)):
        secs = max(now - (ts or 0.0), 0.0)
        if task_id not in away and not alive(path, holder) and secs > JUST_NOW_SECS:
            found.append(StillTask(task_id, status, "answered", secs))
    return found
