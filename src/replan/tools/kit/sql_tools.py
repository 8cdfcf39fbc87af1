"""Tools for databases in files: what there is, queries that cannot change anything, and changes apart from them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from replan.core.secrets import MASK, is_secret_name, without_secrets_said
from replan.core.tools.samples import as_many_as_fit
from replan.core.types import ToolSpec
from replan.errors import InputError, ToolCallError
from replan.tools.functions.context import current
from replan.tools.functions.decorator import tool
from replan.tools.kit.databases.database import Changed, Database, Rows, Table
from replan.tools.kit.databases.sql_process import DatabaseProcesses
from replan.tools.kit.folders.rooted import Root
from replan.tools.kit.source import KitSource

MOST_BYTES = 1_000_000
OUTLINE_SECS = 5.0
MOST_OUTLINE = 1_500
"""Characters of a description that tell of tables."""
MOST_WITH_ROWS = 2_500
"""The same, with rows of them."""
Statement = Annotated[str, Field(min_length=1, max_length=100_000)]
Values = Annotated[list[Any], Field(max_length=1000)]


def sql(
    path: str | os.PathLike[str],
    write: bool = False,
    *,
    remember_keys: bool = False,
    rows: bool = True,
    timeout_secs: float = 30.0,
    name: str = "sql",
) -> KitSource:
    """The tables of an SQLite or DuckDB file; which of both, its content says. With `write`, also changes.

    Queries run on a connection that is read-only by the database's own means. No statement reaches another file, a
    network or an extension, or changes settings. Each runs in a process of its
    own, which is ended when its time or memory is used up, its values bound; a change is one
    transaction, undone if it fails or is stopped. `remember_keys` (SQLite): the key of each change is kept in a table
    `_replan_calls` of the same file, in the same transaction, so that a change whose answer was lost is never made twice.
    `rows`: the model is told some rows of each table beside its columns; without, it sees rows that it asks for only.
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
    dialect = "SQLite" if kind == "sqlite" else "DuckDB"
    return DatabaseSource(made, name, database, f"Database {file.name}, in the SQL of {dialect}.", rows=rows)


def data(
    root: str | os.PathLike[str] = ".", *, rows: bool = True, timeout_secs: float = 30.0, name: str = "data"
) -> KitSource:
    """The CSV, TSV, Parquet and JSON files under a folder as tables, read by DuckDB; nothing is written.

    Only files that a statement mentions by path or name can be read; links, and everything outside, cannot. DuckDB
    itself would write to files that it may read: statements with parts that do more than read are refused.
    `rows`: as in `sql`.
    Raises `InputError` for a root that is no folder, or a missing DuckDB.
    """
    _need_duckdb()
    folder = Root(root).path
    found = DatabaseProcesses("data", folder, timeout_secs=timeout_secs, most_bytes=MOST_BYTES)
    about = f"Files in the folder {folder.name}, in the SQL of DuckDB."
    return DatabaseSource(_reading(found, "data", timeout_secs), name, found, about, rows=rows)


class DatabaseSource(KitSource):
    """A source whose tools say which file they are for, and which tables there are, with some rows.

    Who writes a statement has to know them, and who chooses among several databases has to tell them apart.
    """

    def __init__(
        self,
        functions: list[Callable[..., Any]],
        name: str,
        database: DatabaseProcesses,
        about: str,
        *,
        rows: bool,
    ) -> None:
        super().__init__(functions, name=name, close=lambda: asyncio.to_thread(database.close))
        self._database = database
        self._about = about
        self._rows = rows

    async def tools(self) -> Sequence[ToolSpec]:
        specs = await super().tools()
        tables: list[Table] = []
        rows: dict[str, list[str]] = {}
        with contextlib.suppress(ToolCallError, TimeoutError, OSError):  # `sql_tables` will say why
            async with asyncio.timeout(OUTLINE_SECS):
                tables = await self._threads.run(self._database.tables)
                if self._rows:
                    rows = await self._threads.run(lambda: sampled(self._database, tables))
        return [self._told(spec, tables, rows) for spec in specs]

    def _told(self, spec: ToolSpec, tables: Sequence[Table], rows: Mapping[str, Sequence[str]]) -> ToolSpec:
        """Who writes a statement is told of rows: as a sample, or in the description, where no samples are shown."""
        about = f"{spec.description} {self._about}"
        if "statement" not in spec.parameters.get("properties", {}):
            return spec.put(description=about)
        told, plain = outlined(tables, rows), outlined(tables)
        changes: dict[str, Any] = {"description": f"{about} {told}".rstrip()}
        if told != plain:
            changes |= {"plain_description": f"{about} {plain}".rstrip(), "sample": as_many_as_fit(rows)}
        return spec.put(**changes)


def sampled(database: Database, tables: Sequence[Table]) -> dict[str, list[str]]:
    """The first rows of the first tables, each as short text without what looks like a secret: they stand in descriptions, too. None where the
    database cannot tell them.
    """
    asked = [(table["name"], _row(table)) for table in tables[:_SAMPLED_TABLES]]
    parts = [
        f"SELECT * FROM (SELECT {_literal(name)} AS t, {row} AS r FROM {_source(name)} LIMIT {_SAMPLED_ROWS})"
        for name, row in asked
        if row
    ]
    found: dict[str, list[str]] = {}
    if not parts:
        return found
    with contextlib.suppress(ToolCallError):
        for one in database.query(" UNION ALL ".join(parts), [], _SAMPLED_TABLES * _SAMPLED_ROWS)["rows"]:
            text = ", ".join(_seen(str(one["r"]).split(_BETWEEN)))
            found.setdefault(str(one["t"]), []).append(
                text[:_SAMPLED_CHARS] + "…" * (len(text) > _SAMPLED_CHARS)
            )
    return found


def _seen(values: Sequence[str]) -> Iterator[str]:
    """The beginnings of a row's values, cut once they are masked: half a password is known by nothing. What a row calls as secrets are called
    (`smtp_password`) stands behind that.
    """
    is_named = False
    for value in values:
        text = " ".join(value.split())
        seen = MASK if is_named else without_secrets_said(text)
        yield seen[:_SAMPLED_VALUE]
        is_named = is_named or is_secret_name(text)


_BETWEEN = "\x1f"
"""Between the values of a row."""
_SAMPLED_VALUE, _LOOKED_AT = 40, 400
"""Characters of a value that are shown, and that are looked at for secrets."""
_SAMPLED_TABLES = 8
_SAMPLED_ROWS = 2
_SAMPLED_COLUMNS = 12
_SAMPLED_CHARS = 160


def _row(table: Table) -> str:
    """An expression for a row as text: its first columns, those of bytes left out, and masked what is called as secrets are."""
    names = [column["name"] for column in table["columns"] if "BLOB" not in column["type"].upper()]
    texts = [
        _literal(MASK)
        if is_secret_name(name)
        else f"coalesce(substr(CAST({_identifier(name)} AS VARCHAR), 1, {_LOOKED_AT}), 'NULL')"
        for name in names
    ]
    return f" || {_literal(_BETWEEN)} || ".join(texts[:_SAMPLED_COLUMNS])


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _source(name: str) -> str:
    """A table as a statement names it: that of a database, or a data file by its path."""
    return _identifier(name) if "." not in name and "/" not in name else quoted(name)


def outlined(tables: Sequence[Table], rows: Mapping[str, Sequence[str]] | None = None) -> str:
    """Tables with columns and some rows in one line; with less, or not at all, where that would be too long."""
    if not tables:
        return ""
    samples = rows or {}

    def with_rows(table: Table) -> str:
        shown = samples.get(table["name"])
        return f"{_columns(table)} with rows like ({') ('.join(shown)})" if shown else _columns(table)

    for words, most in ((with_rows, MOST_WITH_ROWS), (_columns, MOST_OUTLINE), (_name, MOST_OUTLINE)):
        told = f"Tables: {'; '.join(words(table) for table in tables)}."
        if len(told) <= most:
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

        A date of a CSV file that may be read in two ways (10.02.26, 02/10/2026) is a text: strptime(column, '%d.%m.%y') reads it.

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
            "is not a file"
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
