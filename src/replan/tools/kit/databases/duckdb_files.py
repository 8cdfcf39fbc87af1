"""DuckDB: a database file of its own, or the CSV, Parquet and JSON files of a folder. Imported when used."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import duckdb

from replan.errors import ToolCallError
from replan.tools.kit.databases.csv_dates import date_options
from replan.tools.kit.databases.database import (
    Changed,
    Parameters,
    Rows,
    Table,
    interrupted,
    refused,
    rows_of,
)
from replan.tools.kit.databases.duckdb_queries import reading, the_only
from replan.tools.kit.databases.encodings import in_utf8
from replan.tools.kit.folders.rooted import Root, kind_of
from replan.tools.names import nearest

READERS = {
    ".csv": "read_csv_auto",
    ".tsv": "read_csv_auto",
    ".parquet": "read_parquet",
    ".json": "read_json_auto",
    ".jsonl": "read_json_auto",
    ".ndjson": "read_json_auto",
}
"""How files of each kind are read, by the ends of their names (also with `.gz` behind)."""
_WRITING = {
    duckdb.StatementType.INSERT,
    duckdb.StatementType.UPDATE,
    duckdb.StatementType.DELETE,
    duckdb.StatementType.MERGE_INTO,
    duckdb.StatementType.CREATE,
    duckdb.StatementType.ALTER,
    duckdb.StatementType.DROP,
}
_BROKEN = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException, duckdb.TransactionException)
"""After a commit that ends with one of these, the change may be on disk or not."""
_MOST_LISTED = 200
_COLUMNS = (
    "SELECT t.table_name, t.table_type, c.column_name, c.data_type FROM information_schema.tables t "
    "JOIN information_schema.columns c USING (table_schema, table_name) "
    "WHERE t.table_schema = 'main' ORDER BY t.table_name, c.ordinal_position"
)


def _unsaid() -> None: ...


class DuckdbFile:
    """One DuckDB database file."""

    def __init__(self, path: Path, *, timeout_secs: float, most_bytes: int) -> None:
        self._path = path
        self._timeout_secs = timeout_secs
        self._most_bytes = most_bytes

    def query(self, statement: str, parameters: Parameters, limit: int) -> Rows:
        with self._open(read_only=True) as connection:
            return _rows(connection, statement, parameters, limit, self._most_bytes)

    def tables(self) -> list[Table]:
        with self._open(read_only=True) as connection:
            return _tables(connection)

    def execute(
        self, statement: str, parameters: Parameters, key: str, committing: Callable[[], None] = _unsaid
    ) -> Changed:
        """`committing` is called before the change can be on disk."""
        with self._open(read_only=False) as connection:
            one = the_only(connection, statement, _WRITING, "INSERT, UPDATE, DELETE, CREATE, ALTER or DROP")
            connection.begin()
            cursor = connection.execute(one, parameters)
            counted = [column[0] for column in cursor.description or ()] == ["Count"]
            found = cursor.fetchone()
            committing()
            try:
                connection.commit()
            except _BROKEN as error:
                text = f"the database {self._path.name} failed: {_first_line(error)}"
                raise ToolCallError(text, happened="unknown") from error
            return {"rows_changed": found[0] if counted and found else -1}

    @contextlib.contextmanager
    def _open(self, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        with _connected(str(self._path), read_only=read_only) as connection:
            _lock(connection)
            with _told(connection, self._timeout_secs):
                yield connection


_UNREACHED = re.compile(r'Cannot access file "([^"]*)"|Table with name (\S+) does not exist')


def _there_are(name: str, paths: list[str]) -> str:
    """The files most like the one that was meant first, as statements write them."""
    if not paths:
        return "there are none at all"
    first = nearest(name, paths, n=3)
    shown = [*first, *(path for path in paths if path not in first)][:10]
    more = f", and {len(paths) - len(shown)} more" if len(paths) > len(shown) else ""
    return f"there are: {', '.join(_quoted(path, chr(39)) for path in shown)}{more}"


def _name_otherwise(connection: duckdb.DuckDBPyConnection, stems: Mapping[str, list[str]]) -> None:
    """The other ways to write a file: `sales`, where that is one file's, and `sales.csv` without its quotes."""
    for stem, paths in stems.items():
        for path in paths:
            schema, dot, table = path.partition(".")
            if dot and schema.isidentifier() and table.isidentifier():
                with contextlib.suppress(duckdb.Error):
                    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)}")
                    view = f"{_quoted(schema)}.{_quoted(table)}"
                    connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {_quoted(path)}")
        if len(paths) == 1 and stem != paths[0]:
            with contextlib.suppress(duckdb.Error):
                connection.execute(f"CREATE VIEW {_quoted(stem)} AS SELECT * FROM {_quoted(paths[0])}")


class FolderOfData:
    """The data files below a folder, each a table by its path (`sales.csv`) and its name (`sales`) if that is one's own."""

    def __init__(self, root: Root, *, timeout_secs: float, most_bytes: int) -> None:
        self._root = root
        self._timeout_secs = timeout_secs
        self._most_bytes = most_bytes

    def query(self, statement: str, parameters: Parameters, limit: int) -> Rows:
        files = list(self._files())
        try:
            with self._open(statement, files) as connection:
                return _rows(connection, statement, parameters, limit, self._most_bytes)
        except ToolCallError as error:
            named = _UNREACHED.search(str(error))
            if named is None:
                raise
            name = next(group for group in named.groups() if group)
            paths = [path for path, _ in files]
            wrong = f"there is no data file {name!r} in the folder; {_there_are(name, paths)}"
            if name in paths:
                wrong = f"a data file is read by its name, without a function: FROM {_quoted(name, chr(39))}"
            raise refused(f"the statement was refused: {wrong}") from error

    def tables(self) -> list[Table]:
        found: list[Table] = []
        for path, reader in islice(self._files(), _MOST_LISTED):
            try:
                with self._open(path, [(path, reader)]) as connection:
                    found += [table for table in _tables(connection) if table["name"] == path]
            except ToolCallError as error:
                found.append({"name": path, "kind": f"unreadable: {str(error)[:200]}", "columns": []})
        return found

    def execute(
        self, statement: str, parameters: Parameters, key: str, committing: Callable[[], None] = _unsaid
    ) -> Changed:
        raise refused("data files are only read")

    def _files(self) -> Iterator[tuple[str, str]]:
        """Path and reader of each data file. Links are left out, as they may lead anywhere."""
        for found in self._root.walk():
            ends = [end for end in Path(found.path).suffixes if end != ".gz"]
            reader = READERS.get(ends[-1].lower()) if ends else None
            if reader is not None and kind_of(found.status) == "file":
                yield found.path, reader

    @contextlib.contextmanager
    def _open(self, mentions: str, files: Iterable[tuple[str, str]]) -> Iterator[duckdb.DuckDBPyConnection]:
        """A database in memory with a view of each of the files that the statement mentions, and no other."""
        mentions += mentions.replace("''", "'")  # as a name in quotes is written in SQL
        with (
            _connected(":memory:") as connection,
            tempfile.TemporaryDirectory(prefix="replan-data-") as copies,
        ):
            allowed = []
            stems: dict[str, list[str]] = {}
            for path, reader in files:
                stem = Path(path).name.partition(".")[0]
                if path in mentions or stem in mentions:
                    full = _readable(self._root.path / path, reader, Path(copies))
                    allowed.append(full)
                    stems.setdefault(stem, []).append(path)
                    with (
                        contextlib.suppress(duckdb.Error) if path not in mentions else _told(connection, 30.0)
                    ):
                        file = _quoted(full, chr(39))
                        told = date_options(connection, file) if reader == "read_csv_auto" else ""
                        source = f"{reader}({file}{told})"
                        connection.execute(f"CREATE VIEW {_quoted(path)} AS SELECT * FROM {source}")
            _name_otherwise(connection, stems)
            listed = ", ".join(_quoted(full, "'") for full in allowed)
            connection.execute(f"SET allowed_paths = [{listed}]")
            _lock(connection)
            with _told(connection, self._timeout_secs):
                yield connection


def _readable(file: Path, reader: str, copies: Path) -> str:
    """The file, or a copy of it in UTF-8. What cannot be read at all DuckDB tells itself."""
    if reader == "read_parquet" or file.suffix == ".gz":
        return str(file)
    with contextlib.suppress(OSError):
        return str(in_utf8(file, copies))
    return str(file)


@contextlib.contextmanager
def _connected(database: str, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        connection = duckdb.connect(database, read_only=read_only)
    except duckdb.Error as error:
        raise refused(f"the database cannot be opened: {_first_line(error)}", "unavailable") from error
    try:
        yield connection
    finally:
        connection.close()


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    """No files, no network, no extensions, no secrets, bounded memory; and none of that can be changed again."""
    for setting in (
        "python_enable_replacements = false",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "allow_community_extensions = false",
        "memory_limit = '1GB'",
        "temp_directory = ''",
        "threads = 2",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")


@contextlib.contextmanager
def _told(connection: duckdb.DuckDBPyConnection, secs: float) -> Iterator[None]:
    try:
        with interrupted(connection.interrupt, secs):
            yield
    except duckdb.Error as error:
        raise refused(f"the statement was refused: {_first_line(error)}") from error


def _rows(
    connection: duckdb.DuckDBPyConnection, statement: str, parameters: Parameters, limit: int, most_bytes: int
) -> Rows:
    one = reading(connection, statement)
    cursor = connection.execute(one, parameters)
    columns = [column[0] for column in cursor.description or ()]
    return rows_of(columns, cursor.fetchone, limit, most_bytes)


def _tables(connection: duckdb.DuckDBPyConnection) -> list[Table]:
    tables: dict[str, Table] = {}
    for name, kind, column, declared in connection.execute(_COLUMNS).fetchall():
        shown = "view" if kind == "VIEW" else "table"
        table = tables.setdefault(name, {"name": name, "kind": shown, "columns": []})
        table["columns"].append({"name": column, "type": declared})
    return list(tables.values())


def _quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, mark * 2) + mark


def _first_line(error: Exception) -> str:
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:500]
