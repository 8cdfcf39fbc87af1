"""Tools for databases in files: what there is, queries that cannot change anything, and changes apart from them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from replan.core.types import ToolSpec
from replan.errors import InputError, ToolCallError
from replan.tools.context import current
from replan.tools.decorator import tool
from replan.tools.kit.databases import Changed, Database, Rows, Table
from replan.tools.kit.rooted import Root
from replan.tools.kit.source import KitSource
from replan.tools.kit.sql_process import DatabaseProcesses

MOST_BYTES = 1_000_000
OUTLINE_SECS = 5.0
MOST_OUTLINE = 1_500
"""Characters of a description that tell of tables."""
Statement = Annotated[str, Field(min_length=1, max_length=100_000)]
Values = Annotated[list[Any], Field(max_length=1000)]


def sql(
    path: str | os.PathLike[str],
    write: bool = False,
    *,
    remember_keys: bool = False,
    timeout_secs: float = 30.0,
    name: str = "sql",
) -> KitSource:
    """The tables of an SQLite or DuckDB file; which of both, its content says. With `write`, also changes.

    Queries run on a connection that is read-only by the database's own means. No statement reaches another file, a
    network or an extension, or changes settings. Each runs in a process of its
    own, which is ended when its time or memory is used up, its values bound; a change is one
    transaction, undone if it fails or is stopped. `remember_keys` (SQLite): the key of each change is kept in a table
    `_replan_calls` of the same file, in the same transaction, so that a change whose answer was lost is never made twice.
    Raises `InputError` for a file that is no such database, or a missing DuckDB.
    """
    file = Path(path).expanduser().resolve()
    kind = _kind_of(file, os.fspath(path))
    if kind == "duckdb":
        if remember_keys:
            raise InputError("sql: keys are remembered in SQLite files only; leave that out for DuckDB")
        _need_duckdb()
    database = DatabaseProcesses(
        kind, file, timeout_secs=timeout_secs, most_bytes=MOST_BYTES, remember_keys=remember_keys
    )
    made = _reading(database, kind, timeout_secs)
    if write:
        made.append(_writing(database, kind, timeout_secs, remember_keys))
    return DatabaseSource(made, name, database)


def data(root: str | os.PathLike[str] = ".", *, timeout_secs: float = 30.0, name: str = "data") -> KitSource:
    """The CSV, TSV, Parquet and JSON files under a folder as tables, read by DuckDB; nothing is written.

    Only files that a statement mentions by path or name can be read; links, and everything outside, cannot. DuckDB
    itself would write to files that it may read: statements with parts that do more than read are refused.
    Raises `InputError` for a root that is no folder, or a missing DuckDB.
    """
    _need_duckdb()
    folder = Root(root).path
    found = DatabaseProcesses("data", folder, timeout_secs=timeout_secs, most_bytes=MOST_BYTES)
    return DatabaseSource(_reading(found, "data", timeout_secs), name, found)


class DatabaseSource(KitSource):
    """A source whose tools say which tables there are: who writes a statement has to know them."""

    def __init__(self, functions: list[Callable[..., Any]], name: str, database: DatabaseProcesses) -> None:
        super().__init__(functions, name=name, close=lambda: asyncio.to_thread(database.close))
        self._database = database

    async def tools(self) -> Sequence[ToolSpec]:
        specs = await super().tools()
        try:
            async with asyncio.timeout(OUTLINE_SECS):
                outline = outlined(await self._threads.run(self._database.tables))
        except (ToolCallError, TimeoutError, OSError):  # `sql_tables` will say why
            outline = ""
        if not outline:
            return specs
        takes = [spec for spec in specs if "statement" in spec.parameters.get("properties", {})]
        return [
            spec.model_copy(update={"description": f"{spec.description} {outline}"})
            if spec in takes
            else spec
            for spec in specs
        ]


def outlined(tables: Sequence[Table]) -> str:
    """Tables with their columns in one line; with their names only, or not at all, where that would be too long."""
    if not tables:
        return ""
    for words in (_columns, _name):
        told = f"Tables: {'; '.join(words(table) for table in tables)}."
        if len(told) <= MOST_OUTLINE:
            return told
    return ""


def _columns(table: Table) -> str:
    columns = ", ".join(f"{column['name']} {column['type']}".strip() for column in table["columns"])
    return f"{quoted(table['name'])}({columns})"


def _name(table: Table) -> str:
    return quoted(table["name"])


def quoted(name: str) -> str:
    """A name as statements write it; the path of a data file stands in quotes there."""
    return name if name.isidentifier() else "'" + name.replace("'", "''") + "'"


def _reading(database: Database, kind: str, timeout_secs: float) -> list[Callable[..., Any]]:
    whole = timeout_secs + 5

    @tool(effect="reads", timeout=whole)
    def sql_tables() -> list[Table]:
        """List the tables of the database with their columns. Do this before writing a query."""
        return database.tables()

    @tool(effect="reads", timeout=whole)
    def sql_query(
        statement: Statement,
        values: Values | None = None,
        limit: Annotated[int, Field(ge=1, le=10_000)] = 100,
    ) -> Rows:
        """Ask the database with one SELECT statement; nothing is changed.

        Args:
            statement: such as SELECT city, sum(price) AS total FROM sales GROUP BY city ORDER BY total DESC
            values: the values of question marks in the statement, in their order, if it has any
            limit: how many rows at most
        """
        return database.query(statement, values or [], limit)

    @tool(effect="reads", timeout=whole, name="sql_query")
    def data_query(
        statement: Statement,
        values: Values | None = None,
        limit: Annotated[int, Field(ge=1, le=10_000)] = 100,
    ) -> Rows:
        """Ask data files with one SELECT statement of DuckDB. A file is a table, by its path in quotes.

        Args:
            statement: such as SELECT city, sum(price) AS total FROM 'sales.csv' GROUP BY city ORDER BY total DESC
            values: the values of question marks in the statement, in their order, if it has any
            limit: how many rows at most
        """
        return database.query(statement, values or [], limit)

    return [sql_tables, data_query if kind == "data" else sql_query]


def _writing(database: Database, kind: str, timeout_secs: float, keyed: bool) -> Callable[..., Any]:
    @tool(effect="once", timeout=timeout_secs + 5, honours_key=keyed)
    def sql_execute(statement: Statement, values: Values | None = None) -> Changed:
        """Change the database with one statement, such as INSERT, UPDATE, DELETE or CREATE TABLE.

        Args:
            statement: such as INSERT INTO notes (day, text) VALUES (?, ?)
            values: the values of question marks in the statement, in their order, if it has any
        """
        return database.execute(statement, values or [], current().key)

    return sql_execute


_KEPT_OPEN: dict[tuple[int, int], int] = {}
"""Closing any descriptor of a file drops the locks that this process has on it (POSIX), an SQLite connection's too."""


def _kind_of(file: Path, given: str) -> Literal["sqlite", "duckdb"]:
    """By the marks that both put at the beginning; an empty file is an empty SQLite database."""
    if not file.is_file():
        what = (
            "is no file"
            if file.exists()
            else "does not exist; make it first (an empty file is an empty database)"
        )
        raise InputError(f"sql: the database {given!r} {what}")
    status = file.stat()
    key = (status.st_dev, status.st_ino)
    opened = _KEPT_OPEN.get(key)
    if opened is None:
        opened = os.open(file, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    os.lseek(opened, 0, os.SEEK_SET)
    head = os.read(opened, 16)
    if not head or head.startswith(b"SQLite format 3\0"):
        _KEPT_OPEN[key] = opened
        return "sqlite"
    os.close(opened)
    _KEPT_OPEN.pop(key, None)
    if head[8:12] == b"DUCK":
        return "duckdb"
    raise InputError(
        f"sql: {given!r} is neither an SQLite nor a DuckDB database; for CSV, Parquet or JSON files use kit:data=FOLDER"
    )


def _need_duckdb() -> None:
    if find_spec("duckdb") is None:
        raise InputError(
            "files of DuckDB, CSV, TSV, Parquet and JSON need duckdb, which is not installed: pip install 'replan[kit]'"
        )
