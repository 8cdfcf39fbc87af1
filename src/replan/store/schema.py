"""Opening the database: settings, and migrations from `sql/NNNN_*.sql` in order."""

from __future__ import annotations

import sqlite3
from importlib import resources
from pathlib import Path

from replan.errors import StoreUnusable

BUSY_SECS = 5.0


def migrations() -> list[tuple[int, str]]:
    """Every migration: its number and its statements."""
    folder = resources.files("replan.store").joinpath("sql")
    found = [(int(item.name[:4]), item.read_text("utf-8")) for item in folder.iterdir() if item.name.endswith(".sql")]
    return sorted(found)


def connect(path: Path, *, synchronous: str = "normal", busy_secs: float = BUSY_SECS) -> sqlite3.Connection:
    """A connection with this store's settings. It may be used from one thread at a time."""
    connection = sqlite3.connect(path, timeout=busy_secs, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA synchronous = {synchronous.upper()}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the database to this release's form; `StoreUnusable` if it is from a newer one."""
    connection.execute("PRAGMA journal_mode = WAL")
    steps = migrations()
    newest = steps[-1][0]
    if _version(connection) == newest:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        at = _version(connection)
        if at > newest:
            raise StoreUnusable(
                f"{path} was made by a newer Replan (schema {at}, this one knows {newest}); upgrade Replan"
            )
        if at == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise StoreUnusable(f"{path} is a database of something else; give --db another file")
        for number, script in steps:
            if number > at:
                for statement in _statements(script):
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


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
