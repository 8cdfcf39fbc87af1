"""Opening the database: settings, and migrations from `sql/NNNN_*.sql` in order."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from replan.errors import StoreUnusable

BUSY_SECS = 60.0
"""How long another process may hold the file before what has to be written is given up."""
OURS = frozenset({"task", "event"})
"""Tables that every release's database has."""


def migrations() -> list[tuple[int, str]]:
    """Every migration: its number and its statements."""
    folder = resources.files("replan.store").joinpath("sql")
    found = [
        (int(item.name[:4]), item.read_text("utf-8"))
        for item in folder.iterdir()
        if item.name.endswith(".sql")
    ]
    return sorted(found)


def keep_private(path: Path) -> None:
    """Make the file before SQLite does, for its owner alone: SQLite gives `-wal` and `-shm` the same permissions.

    Files that an earlier release made for everybody are closed to others, too. Where that cannot be done (a file of
    somebody else, a file system without permissions) it stays as it is; what cannot be opened is told when it is.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(each.stat().st_mode)
            if mode & 0o077 and each.is_file():
                each.chmod(mode & ~0o077)


def connect(path: Path, *, synchronous: str = "normal", busy_secs: float = BUSY_SECS) -> sqlite3.Connection:
    """A connection with this store's settings. It may be used from one thread at a time."""
    if path.exists() and not path.is_dir():
        if not os.access(path, os.R_OK):
            raise StoreUnusable(
                f"the database {path} may not be read by you; check its permissions or give --db another file"
            )
        if not os.access(path, os.W_OK):
            raise StoreUnusable(
                f"the database {path} is read-only, and who reads it has to lock it, too; check its permissions, or give "
                "--db a copy"
            )
    connection = sqlite3.connect(path, timeout=busy_secs, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA synchronous = {synchronous.upper()}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA secure_delete = ON")  # what is deleted or rewritten is in the file no more
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def connect_prompt(path: Path) -> sqlite3.Connection:
    """A connection for short writes in the event loop: it never waits, neither for a lock nor for the disk."""
    connection = connect(path, synchronous="normal")  # others may just be opening it, which needs a lock
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA busy_timeout = 0")
    return connection


def prepare(
    connection: sqlite3.Connection,
    path: Path,
    *,
    steps: Sequence[tuple[int, str]] | None = None,
    busy_secs: float = BUSY_SECS,
) -> None:
    """Bring the database to this release's form, all of it or nothing.

    `StoreUnusable` if it is from a newer release or of something else: then nothing in it is changed.
    """
    steps = migrations() if steps is None else steps
    newest = steps[-1][0]
    connection.execute("BEGIN")  # version and tables as of one moment
    try:
        at = _version_of_ours(connection, path, newest)
    finally:
        connection.execute("ROLLBACK")
    if at == 0:
        connection.execute(
            "PRAGMA auto_vacuum = INCREMENTAL"
        )  # before there is a table: free space can be given back
    _use_wal(connection, busy_secs)
    if at == newest:
        return
    connection.create_function("sha256", 1, _sha256, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        at = _version_of_ours(connection, path, newest)  # another process may have been faster
        for number, script in steps:
            if number > at:
                for statement in _statements(script):
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version_of_ours(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    """The version of a database that is ours; 0 if it is empty."""
    at = int(connection.execute("PRAGMA user_version").fetchone()[0])
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    names = {name for (name,) in rows}
    if at == 0 and not names:
        return 0
    if at == 0 or not names >= OURS:
        raise StoreUnusable(f"{path} is a database of something else; give --db another file")
    if at > newest:
        raise StoreUnusable(
            f"{path} was made by a newer Replan (schema {at}, this one knows {newest}); upgrade Replan"
        )
    return at


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _use_wal(connection: sqlite3.Connection, busy_secs: float) -> None:
    """Readers beside the writer. Of two that change a fresh file at once SQLite sends one away without a wait."""
    give_up = time.monotonic() + busy_secs
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
        time.sleep(0.01)


def _statements(script: str) -> list[str]:
    """The statements of a script, so that all of a migration is one transaction."""
    out: list[str] = []
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            out.append(pending)
            pending = ""
    return out
