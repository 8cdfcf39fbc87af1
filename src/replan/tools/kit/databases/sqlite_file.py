"""An SQLite file: read without being able to write, and written one transaction at a time."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from replan.errors import ToolCallError
from replan.tools.functions.context import time_left
from replan.tools.kit.databases.database import (
    Changed,
    Parameters,
    Rows,
    Table,
    interrupted,
    refused,
    rows_of,
)

_MOST_VALUE = 64 * 2**20
_READ = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_FUNCTION,
}
_NEVER = {
    sqlite3.SQLITE_ATTACH,
    sqlite3.SQLITE_DETACH,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_SAVEPOINT,
    sqlite3.SQLITE_PRAGMA,
}
_BAD_FUNCTIONS = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"}
_KEYS = "_replan_calls"


def _unsaid() -> None: ...


class SqliteFile:
    """One database file. `remember_keys`: keep the idempotency keys of what was executed in a table beside it."""

    def __init__(self, path: Path, *, timeout_secs: float, most_bytes: int, remember_keys: bool) -> None:
        self._path = path
        self._timeout_secs = timeout_secs
        self._most_bytes = most_bytes
        self._remember_keys = remember_keys

    def query(self, statement: str, parameters: Parameters, limit: int) -> Rows:
        with self._open(write=False) as connection:
            cursor = connection.execute(statement, parameters)
            if cursor.description is None:
                raise refused("statement: it gives no rows; a query begins with SELECT or WITH")
            columns = [column[0] for column in cursor.description]
            return rows_of(columns, cursor.fetchone, limit, self._most_bytes)

    def tables(self) -> list[Table]:
        with self._open(write=False) as connection:
            connection.set_authorizer(
                None
            )  # the statements are ours, and describing columns needs more than reading
            found = connection.execute(
                "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name <> ? ORDER BY name",
                [_KEYS],
            ).fetchall()
            return [
                {
                    "name": name,
                    "kind": kind,
                    "columns": [
                        {"name": column, "type": declared}
                        for column, declared in connection.execute(
                            "SELECT name, type FROM pragma_table_info(?)", [name]
                        )
                    ],
                }
                for name, kind in found
            ]

    def execute(
        self, statement: str, parameters: Parameters, key: str, committing: Callable[[], None] = _unsaid
    ) -> Changed:
        """`committing` is called before the change can be on disk."""
        with self._open(write=True) as connection:
            connection.set_authorizer(None)
            connection.execute("BEGIN IMMEDIATE")
            if self._remember_keys and key:
                connection.execute(f"CREATE TABLE IF NOT EXISTS {_KEYS} (key TEXT PRIMARY KEY, rows INTEGER)")
                before = connection.execute(f"SELECT rows FROM {_KEYS} WHERE key = ?", [key]).fetchone()
                if before is not None:
                    connection.execute("ROLLBACK")
                    return {"rows_changed": before[0]}
            connection.set_authorizer(_may_write)
            cursor = connection.execute(statement, parameters)
            cursor.fetchall()  # RETURNING changes as it is read
            changed = cursor.rowcount
            if changed < 0 and cursor.description is not None:
                raise refused(
                    "statement: it reads, and changes nothing; right is INSERT, UPDATE, DELETE, CREATE, ALTER or DROP"
                )
            connection.set_authorizer(None)
            if self._remember_keys and key:
                connection.execute(f"INSERT INTO {_KEYS} VALUES (?, ?)", [key, changed])
            committing()
            connection.execute("COMMIT")
            return {"rows_changed": changed}

    @contextlib.contextmanager
    def _open(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        # What fails before the commit is rolled back when the connection closes.
        try:
            connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode={'rw' if write else 'ro'}",
                uri=True,
                isolation_level=None,
                timeout=min(5.0, time_left(self._timeout_secs) / 2),  # for a lock, which is then told as such
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise refused(
                f"the database {self._path.name} cannot be opened: {error}", "unavailable"
            ) from error
        with contextlib.closing(connection):
            try:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE)
                connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
                if not write:
                    connection.execute("PRAGMA query_only = 1")
                    connection.set_authorizer(_may_read)
                with interrupted(connection.interrupt, self._timeout_secs):
                    yield connection
            except sqlite3.OperationalError as error:
                raise _as_told(error, self._path.name) from error
            except (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError) as error:
                raise refused(f"the statement was refused: {error}") from error


def _as_told(error: sqlite3.OperationalError, name: str) -> ToolCallError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ToolCallError(
            f"the database {name} is locked by another program: {error}", kind="unavailable", happened="no"
        )
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CORRUPT):
        return ToolCallError(f"the database {name} failed: {error}", happened="unknown")
    return refused(f"the statement was refused: {error}")


def _may_read(action: int, first: str | None, second: str | None, *_: Any) -> int:
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (second or "").lower() in _BAD_FUNCTIONS else sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action in _READ else sqlite3.SQLITE_DENY


def _may_write(action: int, first: str | None, second: str | None, *_: Any) -> int:
    if action in _NEVER or _KEYS in (first, second):
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _BAD_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK
