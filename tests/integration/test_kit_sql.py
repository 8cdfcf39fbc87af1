"""Databases in files: queries cannot change or reach anything, changes are whole or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall
from replan.tools.kit import data, load, sql
from replan.tools.kit.databases.duckdb_files import FolderOfData
from replan.tools.kit.folders.rooted import Root

pytestmark = pytest.mark.anyio


async def call(
    source: Any, tool: str, /, deadline: float | None = 20.0, key: str = "key", **parameters: Any
) -> Any:
    return await source.call(ToolCall(tool, parameters, key, deadline_secs=deadline))


def sqlite_file(path: Path) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sales (id INTEGER PRIMARY KEY, city TEXT, price REAL, note BLOB)")
        connection.executemany(
            "INSERT INTO sales VALUES (?, ?, ?, ?)",
            [(n, "Ulm" if n % 2 else "Bonn", n * 1.5, b"\xff") for n in range(1, 11)],
        )
    connection.close()
    return path


def duckdb_file(path: Path) -> Path:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE sales (id INTEGER, city TEXT, price DECIMAL(8, 2))")
        connection.execute("INSERT INTO sales SELECT n, 'Ulm', n * 1.5 FROM range(1, 11) t(n)")
    return path


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return sqlite_file(tmp_path / "shop ü.db")


@pytest.fixture
def duckdb_path(tmp_path: Path) -> Path:
    return duckdb_file(tmp_path / "shop.duckdb")


@pytest.fixture(params=["sqlite", "duckdb"])
def path(request: pytest.FixtureRequest) -> Path:
    made: Path = request.getfixturevalue(f"{request.param}_path")
    return made


class Kept(NamedTuple):
    """A file or a folder that no test changes, and a source of it: its process serves them all."""

    path: Path
    source: Any


@contextlib.contextmanager
def kept(path: Path, source: Any) -> Iterator[Kept]:
    yield Kept(path, source)
    asyncio.run(source.aclose())


@pytest.fixture(scope="module")
def kept_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    path = sqlite_file(tmp_path_factory.mktemp("kept") / "shop ü.db")
    with kept(path, sql(path, write=True)) as one:
        yield one


@pytest.fixture(scope="module")
def kept_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    path = duckdb_file(tmp_path_factory.mktemp("kept") / "shop.duckdb")
    with kept(path, sql(path, write=True)) as one:
        yield one


@pytest.fixture(scope="module")
def kept_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    path = tmp_path_factory.mktemp("kept") / "folder"
    path.mkdir()
    (path / "sales.csv").write_text("id,city\n1,Ulm\n")
    with kept(path, data(path)) as one:
        yield one


@pytest.fixture(params=["sqlite", "duckdb"])
def kept_database(request: pytest.FixtureRequest) -> Kept:
    made: Kept = request.getfixturevalue(f"kept_{request.param}")
    return made


def content(path: Path) -> bytes:
    return path.read_bytes()


async def test_tables_and_queries(path: Path) -> None:
    source = sql(path)
    assert {spec.id: spec.effect for spec in await source.tools()} == {
        "sql_tables": "reads",
        "sql_query": "reads",
    }
    (table,) = await call(source, "sql_tables")
    assert table["name"] == "sales"
    assert [column["name"] for column in table["columns"]][:3] == ["id", "city", "price"]
    found = await call(
        source,
        "sql_query",
        statement="SELECT city, sum(price) AS total FROM sales WHERE id > ? GROUP BY city ORDER BY city",
        values=[2],
    )
    assert found["columns"] == ["city", "total"]
    assert sum(row["total"] for row in found["rows"]) == sum(n * 1.5 for n in range(3, 11))
    assert found["truncated"] is False
    few = await call(source, "sql_query", statement="SELECT id, id FROM sales ORDER BY id", limit=2)
    assert (few["rows"], few["truncated"]) == ([{"id": 1, "id_2": 1}, {"id": 2, "id_2": 2}], True)


async def test_an_answer_has_its_limit_in_bytes(path: Path) -> None:
    statement = (
        "SELECT repeat('x', 300000) AS x FROM sales"
        if path.suffix == ".duckdb"
        else ("SELECT printf('%.*c', 300000, 'x') AS x FROM sales")
    )
    found = await call(sql(path), "sql_query", statement=statement)
    assert (found["row_count"], found["truncated"]) == (3, True)


SQLITE_ESCAPES = [
    "INSERT INTO sales (city) VALUES ('x')",
    "UPDATE sales SET city = 'x'",
    "DELETE FROM sales",
    "DROP TABLE sales",
    "CREATE TABLE x (y)",
    "CREATE TEMP TABLE x (y)",
    "WITH x AS (SELECT 1) DELETE FROM sales",
    "DELETE FROM sales RETURNING *",
    "SELECT 1; DELETE FROM sales",
    "PRAGMA query_only = 0",
    "PRAGMA writable_schema = 1",
    "PRAGMA journal_mode = DELETE",
    "ATTACH 'other.db' AS other",
    "ATTACH ':memory:' AS other",
    "VACUUM INTO 'copy.db'",
    "VACUUM",
    "REINDEX",
    "ANALYZE",
    "BEGIN IMMEDIATE",
    "SAVEPOINT x",
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT * FROM pragma_database_list",
    "",
]
DUCKDB_ESCAPES = [
    "INSERT INTO sales VALUES (1, 'x', 1)",
    "UPDATE sales SET city = 'x'",
    "DELETE FROM sales",
    "DROP TABLE sales",
    "CREATE TABLE x (y INT)",
    "CREATE TEMP TABLE x (y INT)",
    "SELECT 1; DELETE FROM sales",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM 'https://example.org/x.csv'",
    "SELECT * FROM path",
    "COPY sales TO 'out.csv'",
    "COPY (SELECT 1) TO '/tmp/out.csv'",
    "EXPORT DATABASE 'out'",
    "ATTACH 'other.duckdb'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET enable_external_access",
    "PRAGMA enable_profiling",
    "CALL pragma_version()",
    "CREATE SECRET s (TYPE s3)",
    "PREPARE x AS DELETE FROM sales",
    "EXPLAIN ANALYZE DELETE FROM sales",
    "",
]


# To a file that may be read, without the file beside it that may not be made.
COPY = "COPY (SELECT 7 AS city) TO '{file}' (USE_TMP_FILE false)"
COPIES = [
    COPY,
    f"EXPLAIN ANALYZE {COPY}",
    f"WITH x AS ({COPY}) SELECT * FROM x",
    f"(WITH x AS ({COPY}) SELECT * FROM x UNION ALL SELECT 1)",
    f"SELECT * FROM (WITH x AS ({COPY}) SELECT * FROM x)",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql($$WITH x AS ({copy}) SELECT * FROM x$$))",
    "SELECT * FROM query($$WITH x AS ({copy}) SELECT * FROM x$$)",
    "FROM query('FROM json_execute_serialized_sql(json_serialize_sql($$WITH x AS ({quoted}) FROM x$$))')",
]


@pytest.mark.parametrize("statement", COPIES)
async def test_no_query_writes_to_a_file_that_it_may_read(kept_data: Kept, statement: str) -> None:
    file = kept_data.path / "sales.csv"
    copy = COPY.format(file=file)
    words = statement.format(file=file, copy=copy, quoted=copy.replace("'", "''"))
    with pytest.raises(ToolCallError) as caught:
        await call(kept_data.source, "sql_query", statement=words)
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
    assert file.read_text() == "id,city\n1,Ulm\n"


@pytest.mark.parametrize(
    "statement",
    [
        "WITH x AS (SELECT city FROM 'sales.csv') SELECT upper(city) AS city FROM x",
        "FROM sales SELECT city",
        "SELECT s.city FROM sales s JOIN range(3) r(n) ON s.id = r.n WHERE s.id IN (SELECT 1 UNION SELECT 2)",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT max(n) FROM r",
        "SELECT city, count(*) OVER (PARTITION BY city) AS copy FROM sales WHERE city <> 'copy' ORDER BY 2 LIMIT 5",
        "DESCRIBE sales",
        "SUMMARIZE sales",
        "VALUES (1), (2)",
        "SELECT * FROM read_csv('{file}')",
        "SELECT function_name FROM duckdb_functions() LIMIT 1",
    ],
)
async def test_queries_of_data_files_may_be_of_any_form_that_reads(kept_data: Kept, statement: str) -> None:
    words = statement.format(file=kept_data.path / "sales.csv")
    found = await call(kept_data.source, "sql_query", statement=words)
    assert found["rows"]


@pytest.mark.parametrize("statement", SQLITE_ESCAPES)
async def test_no_query_of_sqlite_changes_or_reaches_anything(kept_sqlite: Kept, statement: str) -> None:
    path = kept_sqlite.path
    before, beside = content(path), sorted(path.parent.iterdir())
    with pytest.raises(ToolCallError) as caught:
        await call(kept_sqlite.source, "sql_query", statement=statement)
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
    assert content(path) == before
    assert sorted(path.parent.iterdir()) == beside


@pytest.mark.parametrize("statement", DUCKDB_ESCAPES)
@pytest.mark.parametrize("kind", ["kept_duckdb", "kept_data"], ids=["file", "folder"])
async def test_no_query_of_duckdb_changes_or_reaches_anything(
    statement: str, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: Kept = request.getfixturevalue(kind)
    file = kept.path if kept.path.is_file() else kept.path / "sales.csv"
    monkeypatch.chdir(kept.path.parent)
    before, beside = content(file), sorted(kept.path.parent.rglob("*"))
    with pytest.raises(ToolCallError) as caught:
        await call(kept.source, "sql_query", statement=statement)
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
    assert content(file) == before
    assert sorted(kept.path.parent.rglob("*")) == beside


@pytest.mark.parametrize("statement", ["SELECT 1", "WITH x AS (SELECT 1) SELECT * FROM x", "VALUES (1)"])
async def test_a_reading_is_no_change(kept_database: Kept, statement: str) -> None:
    with pytest.raises(ToolCallError, match="right is INSERT") as caught:
        await call(kept_database.source, "sql_execute", statement=statement)
    assert caught.value.happened == "no"


async def test_what_a_change_gives_back_is_counted(path: Path) -> None:
    statement = "UPDATE sales SET city = 'Ulm' WHERE id <= 2 RETURNING id"
    changed = await call(sql(path, write=True), "sql_execute", statement=statement)
    assert changed["rows_changed"] in (2, -1)


async def test_a_pivot_that_names_its_columns_is_a_query(duckdb_path: Path) -> None:
    source = sql(duckdb_path)
    with pytest.raises(ToolCallError, match="name them"):
        await call(source, "sql_query", statement="PIVOT sales ON city USING count(*)")
    found = await call(source, "sql_query", statement="PIVOT sales ON city IN ('Ulm') USING count(*)")
    assert found["rows"]


async def test_a_change_is_one_transaction(path: Path) -> None:
    source = sql(path, write=True)
    (spec,) = [spec for spec in await source.tools() if spec.id == "sql_execute"]
    assert (spec.effect, spec.honours_key) == ("once", False)
    changed = await call(
        source, "sql_execute", statement="UPDATE sales SET city = ? WHERE id <= 3", values=["Köln"]
    )
    assert changed == {"rows_changed": 3}
    found = await call(source, "sql_query", statement="SELECT count(*) AS n FROM sales WHERE city = 'Köln'")
    assert found["rows"] == [{"n": 3}]
    await call(source, "sql_execute", statement="CREATE TABLE notes (x INTEGER UNIQUE)")
    with pytest.raises(ToolCallError, match=r"(?i)unique|duplicate") as caught:
        await call(source, "sql_execute", statement="INSERT INTO notes VALUES (1), (2), (1)")
    assert caught.value.happened == "no"
    assert (await call(source, "sql_query", statement="SELECT count(*) AS n FROM notes"))["rows"] == [
        {"n": 0}
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM sales; DELETE FROM sales",
        "COMMIT",
        "BEGIN",
        "ATTACH 'other.db' AS other",
        "PRAGMA user_version = 3",
        "SELEC 1",
        "INSERT INTO nowhere VALUES (1)",
        "DELETE FROM sales WHERE id = ?",
    ],
)
async def test_a_change_that_is_refused_has_not_happened(kept_database: Kept, statement: str) -> None:
    source = kept_database.source
    with pytest.raises(ToolCallError) as caught:
        await call(source, "sql_execute", statement=statement)
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
    assert (await call(source, "sql_query", statement="SELECT count(*) AS n FROM sales"))["rows"] == [
        {"n": 10}
    ]


async def test_calls_side_by_side_do_not_disturb_each_other(path: Path) -> None:
    source, other = sql(path, write=True), sql(path)
    calls = [call(source, "sql_execute", statement="UPDATE sales SET price = price + 1") for _ in range(3)]
    calls += [call(other, "sql_query", statement="SELECT count(*) AS n FROM sales") for _ in range(3)]
    found = await asyncio.gather(*calls)
    assert found[:3] == [{"rows_changed": 10}] * 3
    assert [answer["rows"] for answer in found[3:]] == [[{"n": 10}]] * 3
    rows = (await call(source, "sql_query", statement="SELECT price FROM sales WHERE id = 1"))["rows"]
    assert rows == [{"price": 4.5}]


async def test_a_database_with_a_write_ahead_log_is_read(sqlite_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(sqlite_path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("DELETE FROM sales WHERE id = 1")
        writer.commit()
        found = await call(sql(sqlite_path), "sql_query", statement="SELECT count(*) AS n FROM sales")
    assert found["rows"] == [{"n": 9}]


ENDLESS = {
    "sqlite": "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT count(*) FROM x",
    "duckdb": "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range * b.range % 7 = 3",
}


async def test_a_statement_that_never_ends_is_stopped(path: Path) -> None:
    kind = "duckdb" if path.suffix == ".duckdb" else "sqlite"
    source = sql(path, write=True, timeout_secs=0.3)
    with pytest.raises(ToolCallError, match="had not ended") as caught:
        await call(source, "sql_query", statement=ENDLESS[kind])
    assert caught.value.kind == "timeout"
    with pytest.raises(ToolCallError, match="had not ended") as caught:
        await call(source, "sql_execute", statement=f"INSERT INTO sales (id) {ENDLESS[kind]}")
    assert (caught.value.kind, caught.value.happened) == ("timeout", "no")
    assert (await call(source, "sql_query", statement="SELECT count(*) AS n FROM sales"))["rows"] == [
        {"n": 10}
    ]


STUBBORN = {
    "repeat": "SELECT length(repeat('x', 100000000) || n) AS n FROM range(50) t(n)",
    "rpad": "SELECT max(length(rpad('x', 300000000 + n::INTEGER, 'yz'))) AS n FROM range(50) t(n)",
    "replace": "SELECT length(replace(repeat('ab', 100000000), 'a', 'ccc')) AS n",
    "list": "SELECT length(list_aggregate(range(400000000), 'string_agg')) AS n",
}


@pytest.mark.parametrize("statement", STUBBORN.values(), ids=STUBBORN)
async def test_a_statement_that_hears_nothing_is_ended_with_its_process(
    duckdb_path: Path, statement: str
) -> None:
    """It is over within its time, or for its memory; what runs beside it does not wait for it."""
    source = sql(duckdb_path, timeout_secs=1.0)
    try:
        stubborn = asyncio.create_task(call(source, "sql_query", statement=statement))
        beside = "SELECT count(*) AS n FROM sales"
        found = [await call(source, "sql_query", statement=beside) for _ in range(3)]
        (ended,) = await asyncio.gather(stubborn, return_exceptions=True)
        if isinstance(ended, BaseException):
            assert isinstance(ended, ToolCallError)
            assert ended.happened == "no"
            assert ended.kind == "timeout" or "memory" in str(ended).lower()
        assert [each["rows"] for each in found] == [[{"n": 10}]] * 3
        assert (await call(source, "sql_query", statement=beside))["rows"] == [{"n": 10}]
    finally:
        await source.aclose()


async def test_a_statement_has_no_more_memory_than_its_limit(duckdb_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of POSIX")
    source = sql(duckdb_path, timeout_secs=20.0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with pytest.raises(ToolCallError, match=r"(?i)memory") as caught:
        await call(source, "sql_query", statement="SELECT length(repeat('x', 3000000000)) AS n")
    await source.aclose()
    assert caught.value.happened == "no"
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert after <= max(before, 1.5 * 2**20)  # of all children so far, in kB


async def test_a_cancelled_statement_is_ended_at_once(path: Path) -> None:
    kind = "duckdb" if path.suffix == ".duckdb" else "sqlite"
    source = sql(path, write=True)
    await call(source, "sql_tables")
    running = asyncio.create_task(
        call(source, "sql_execute", statement=f"INSERT INTO sales (id) {ENDLESS[kind]}")
    )
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    changed = await call(source, "sql_execute", statement="UPDATE sales SET city = 'x'")
    assert changed == {"rows_changed": 10}
    await source.aclose()


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """More than the 1,024 that select() can tell apart."""
    resource = pytest.importorskip("resource", reason="limits of open files are POSIX's")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_400:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_400), hard))
    with contextlib.ExitStack() as held:
        for _ in range(1_100):
            held.enter_context(open(os.devnull))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_open_files")
async def test_a_process_of_many_open_files_may_ask_a_database(path: Path) -> None:
    source = sql(path, write=True)
    await call(source, "sql_execute", statement="UPDATE sales SET city = 'Rom' WHERE id = 1")
    found = await call(source, "sql_query", statement="SELECT city FROM sales WHERE id = 1")
    assert found["rows"] == [{"city": "Rom"}]


@pytest.mark.usefixtures("many_open_files")
async def test_a_process_of_many_open_files_may_ask_a_folder_of_data(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,total\n1,150\n", encoding="utf-8")
    source = data(tmp_path)
    assert [spec.id for spec in await source.tools()]
    found = await call(source, "sql_query", statement="SELECT total FROM 'orders.csv'")
    assert found["rows"] == [{"total": 150}]


def children() -> set[int]:
    """The processes that serve statements."""
    found = set()
    for pid in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for child in map(int, pid.read_text().split()):
            with contextlib.suppress(OSError):
                if (
                    b"sql_worker" in Path(f"/proc/{child}/cmdline").read_bytes()
                ):  # of one that has ended it is empty
                    found.add(child)
    return found


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="needs /proc to see what a process has started"
)
async def test_a_process_that_is_gone_is_replaced(path: Path) -> None:
    source = sql(path)
    others = children()
    for _ in range(2):
        assert (await call(source, "sql_tables"))[0]["name"] == "sales"
        (worker,) = children() - others
        os.kill(worker, signal.SIGKILL)
        told_and_kept = os.WEXITED | os.WNOWAIT
        await asyncio.to_thread(os.waitid, os.P_PID, worker, told_and_kept)
    await source.aclose()
    assert (await call(source, "sql_tables"))[0]["name"] == "sales"
    assert len(children() - others) == 1
    await source.aclose()
    assert children() <= others


async def test_a_row_of_many_megabytes_is_refused(duckdb_path: Path) -> None:
    source = sql(duckdb_path)
    with pytest.raises(ToolCallError, match="a row has 100,000,000 bytes") as caught:
        await call(source, "sql_query", statement="SELECT repeat('x', 100000000) AS x")
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
    await source.aclose()


async def test_a_locked_database_is_unavailable_for_now(sqlite_path: Path) -> None:
    other = sqlite3.connect(sqlite_path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(ToolCallError, match="locked") as caught:
            await call(
                sql(sqlite_path, write=True, timeout_secs=0.2), "sql_execute", statement="DELETE FROM sales"
            )
    finally:
        other.close()
    assert (caught.value.kind, caught.value.happened) == ("unavailable", "no")


async def test_a_remembered_key_is_executed_once(sqlite_path: Path) -> None:
    source = sql(sqlite_path, write=True, remember_keys=True)
    (spec,) = [spec for spec in await source.tools() if spec.id == "sql_execute"]
    assert spec.honours_key
    for _ in range(3):
        changed = await call(source, "sql_execute", key="k1", statement="UPDATE sales SET price = price + 1")
        assert changed == {"rows_changed": 10}
    await call(source, "sql_execute", key="k2", statement="UPDATE sales SET price = price + 1")
    found = await call(source, "sql_query", statement="SELECT price FROM sales WHERE id = 1")
    assert found["rows"] == [{"price": 3.5}]
    with pytest.raises(ToolCallError):
        await call(source, "sql_execute", key="k3", statement="DELETE FROM _replan_calls")
    assert [table["name"] for table in await call(source, "sql_tables")] == ["sales"]


async def test_files_of_a_folder_are_tables(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sales.csv").write_text("city,price\nUlm,2\nBonn,3.5\n")
    (tmp_path / "sub" / "cities.jsonl").write_text('{"city": "Ulm", "people": 126000}\n')
    duckdb.sql(f"COPY (SELECT 42 AS answer) TO '{tmp_path}/it''s.parquet'")
    (tmp_path / "notes.txt").write_text("x")
    source = data(tmp_path)
    tables = {
        table["name"]: [column["name"] for column in table["columns"]]
        for table in await call(source, "sql_tables")
    }
    assert tables == {
        "it's.parquet": ["answer"],
        "sales.csv": ["city", "price"],
        "sub/cities.jsonl": ["city", "people"],
    }
    joined = "SELECT people * price AS x FROM 'sales.csv' JOIN 'sub/cities.jsonl' USING (city)"
    assert (await call(source, "sql_query", statement=joined))["rows"] == [{"x": 252000}]
    assert (await call(source, "sql_query", statement="SELECT max(price) AS m FROM sales"))["rows"] == [
        {"m": 3.5}
    ]
    found = await call(source, "sql_query", statement='SELECT answer FROM "it\'s.parquet"')
    assert found["rows"] == [{"answer": 42}]
    unquoted = await call(source, "sql_query", statement="SELECT count(*) AS n FROM sales.csv")
    assert unquoted["rows"] == [{"n": 2}]
    with pytest.raises(ToolCallError, match=r"by its name, without a function: FROM 'sales\.csv'"):
        await call(source, "sql_query", statement="SELECT 1 FROM read_csv('sales.csv')")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (("10.02.26", "11.03.26"), ("10.02.26", "11.03.26")),
        (("10.02.26 10:00:00", "11.03.26 11:00:00"), ("10.02.26 10:00:00", "11.03.26 11:00:00")),
        (("02/10/2026", "03/11/2026"), ("02/10/2026", "03/11/2026")),
        (("02-10-2026", ""), ("02-10-2026", None)),
        (("02/10/2026 10:00:00", "03/11/2026 11:00:00"), ("02/10/2026 10:00:00", "03/11/2026 11:00:00")),
        (("2026-02-10", "2026-03-11"), ("2026-02-10", "2026-03-11")),
        (("10.02.2026", "11.03.2026"), ("2026-02-10", "2026-03-11")),
        (("02/25/2026", "03/11/2026"), ("2026-02-25", "2026-03-11")),
        (("25/02/2026", "03/11/2026"), ("2026-02-25", "2026-11-03")),
        (("25.02.2026 10:00:00", "03.11.2026 11:00:00"), ("2026-02-25T10:00:00", "2026-11-03T11:00:00")),
    ],
)
async def test_a_date_that_may_be_read_in_two_ways_stays_as_it_is_written(
    tmp_path: Path, written: tuple[str, str], read: tuple[str | None, str | None]
) -> None:
    rows = "".join(f"{number},{day},5:30\n" for number, day in enumerate(written))
    (tmp_path / "days.csv").write_text(f"number,the 'day',at\n{rows}")
    statement = """SELECT "the 'day'" AS day FROM 'days.csv' ORDER BY number"""
    found = (await call(data(tmp_path), "sql_query", statement=statement))["rows"]
    assert [one["day"] for one in found] == list(read)


async def test_a_query_reads_what_was_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "days.tsv").write_text("day\tn\n10.02.26\t1\n11.03.26\t2\n")
    statement = "SELECT n FROM 'days.tsv' WHERE strptime(day, '%d.%m.%y') > DATE '2026-03-01'"
    assert (await call(data(tmp_path), "sql_query", statement=statement))["rows"] == [{"n": 2}]


@pytest.fixture(scope="module")
def folder_of_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    path = tmp_path_factory.mktemp("kept")
    with kept(path, data(path)) as one:
        yield one


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("o'brien.csv", "SELECT city FROM 'o''brien.csv'"),
        ("o'brien.csv", 'SELECT city FROM "o\'brien.csv"'),
        ("o'brien.csv", 'SELECT city FROM "o\'brien"'),
        ("a''b.csv", "SELECT city FROM 'a''''b.csv'"),
        ('say "x".csv', "SELECT city FROM 'say \"x\".csv'"),
    ],
)
async def test_names_of_files_are_written_as_sql_writes_them(
    folder_of_names: Kept, name: str, statement: str
) -> None:
    (folder_of_names.path / name).write_text(f'city,price\n"{name.replace(chr(34), chr(34) * 2)}",2\n')
    found = await call(folder_of_names.source, "sql_query", statement=statement)
    assert found["rows"] == [{"city": name}]


ENCODINGS = ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


def word(encoding: str) -> str:
    return encoding.replace("-", "_")


@pytest.fixture(scope="module")
def folder_of_encodings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    path = tmp_path_factory.mktemp("kept")
    rows = "".join(f"{number},Müller – „5 €“\n" for number in range(300))
    for encoding in ENCODINGS:
        (path / f"sales_{word(encoding)}.csv").write_bytes(f"id,name\n{rows}".encode(encoding))
        (path / f"names_{word(encoding)}.jsonl").write_bytes('{"name": "Café €"}\n'.encode(encoding))
    with kept(path, data(path)) as one:
        yield one


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_text_files_may_be_in_other_encodings(folder_of_encodings: Kept, encoding: str) -> None:
    source = folder_of_encodings.source
    statement = f"SELECT count(*) AS n, min(name) AS name FROM 'sales_{word(encoding)}.csv'"
    found = await call(source, "sql_query", statement=statement)
    assert found["rows"] == [{"n": 300, "name": "Müller – „5 €“"}]
    found = await call(source, "sql_query", statement=f"SELECT name FROM 'names_{word(encoding)}.jsonl'")
    assert found["rows"] == [{"name": "Café €"}]
    columns = {
        table["name"]: [column["name"] for column in table["columns"]]
        for table in await call(source, "sql_tables")
    }
    assert columns[f"names_{word(encoding)}.jsonl"] == ["name"]
    assert columns[f"sales_{word(encoding)}.csv"] == ["id", "name"]


async def test_links_out_of_a_folder_of_data_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "secret.csv").write_text("x\n1\n")
    (tmp_path / "data" / "link.csv").symlink_to(tmp_path / "secret.csv")
    source = data(tmp_path / "data")
    assert await call(source, "sql_tables") == []
    for place in ("link.csv", f"{tmp_path}/data/link.csv", f"{tmp_path}/secret.csv", "../secret.csv"):
        with pytest.raises(ToolCallError):
            await call(source, "sql_query", statement=f"SELECT * FROM '{place}'")


def test_files_that_are_no_database_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n" * 10)
    with pytest.raises(InputError, match="neither an SQLite nor a DuckDB"):
        sql(tmp_path / "x.csv")
    with pytest.raises(InputError, match="does not exist"):
        sql(tmp_path / "y.db")
    with pytest.raises(InputError, match="is not a folder"):
        data(tmp_path / "x.csv")


async def test_names_of_tables_are_told_as_statements_write_them(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("""CREATE TABLE "who's who" (a INTEGER)""")
        db.commit()
    source = sql(path)
    (told,) = [spec.description for spec in await source.tools() if spec.id == "sql_query"]
    name = told.partition("Tables: ")[2].partition("(")[0]
    assert name == "'who''s who'"
    found = await source.call(
        ToolCall("sql_query", {"statement": f"SELECT count(*) AS n FROM {name}"}, "key")
    )
    assert found["rows"] == [{"n": 0}]
    await source.aclose()


@pytest.mark.parametrize(
    ("count", "told"), [(2, "t0(a INTEGER); t1(a INTEGER)"), (200, "t0; t1"), (5_000, "")]
)
async def test_who_writes_a_statement_is_told_the_tables(tmp_path: Path, count: int, told: str) -> None:
    path = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("BEGIN")
        for number in range(count):
            db.execute(f"CREATE TABLE t{number} (a INTEGER)")
        db.commit()
    source = sql(path)
    specs = {spec.id: spec.description for spec in await source.tools()}
    assert told in specs["sql_query"]
    assert len(specs["sql_query"]) < 2_000
    assert "Tables:" not in specs["sql_tables"]
    assert ("Tables:" in specs["sql_query"]) == bool(told)
    await source.aclose()


async def test_a_commit_that_the_disk_fails_leaves_a_change_in_doubt(duckdb_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of POSIX")
    source = sql(duckdb_path, write=True)
    statement = "INSERT INTO sales SELECT n, md5(n::VARCHAR), 1 FROM range(50_000) t(n)"
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(content(duckdb_path)), most))
    try:
        with pytest.raises(ToolCallError, match="Failed to commit: Could not write") as caught:
            await call(source, "sql_execute", statement=statement)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    assert caught.value.happened == "unknown"


def test_a_folder_of_many_files_is_walked_once_for_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        (tmp_path / f"part{n}.csv").write_text("id,city\n1,Ulm\n")
    walks: list[Any] = []
    listdir = os.listdir

    def counted(at: Any) -> list[str]:
        walks.append(at)
        return listdir(at)

    monkeypatch.setattr(os, "listdir", counted)
    found = FolderOfData(Root(tmp_path), timeout_secs=20, most_bytes=1_000_000).tables()
    assert [table["name"] for table in found] == [f"part{n}.csv" for n in range(5)]
    assert len(walks) == 1


@pytest.fixture(scope="module")
def two_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    path = tmp_path_factory.mktemp("kept")
    for name in ("sales data.csv", "other.csv"):
        (path / name).write_text("a,b\n1,2\n")
    with kept(path, data(path)) as one:
        yield one


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("SELECT * FROM 'sales_data.csv'", "sales_data.csv"),
        ("SELECT * FROM salesdata", "salesdata"),
        ("SELECT * FROM read_csv('sales_data.csv')", "sales_data.csv"),
    ],
)
async def test_a_data_file_that_is_not_there_is_told_with_those_that_are(
    two_files: Kept, statement: str, named: str
) -> None:
    with pytest.raises(ToolCallError) as caught:
        await call(two_files.source, "sql_query", statement=statement)
    assert f"there is no data file {named!r} in the folder; there are: 'sales data.csv'" in str(caught.value)
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")


def made(path: Path, *statements: str) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path


async def told_by(source: Any) -> str:
    (told,) = [spec.description for spec in await source.tools() if spec.id == "sql_query"]
    await source.aclose()
    return str(told)


async def test_two_files_are_told_apart_by_name_dialect_and_rows(tmp_path: Path) -> None:
    table = "CREATE TABLE orders (id INTEGER, who TEXT)"
    shop = made(tmp_path / "shop.db", table, "INSERT INTO orders VALUES (1, 'Ann'), (2, NULL), (3, 'Cy')")
    fair = made(tmp_path / "fair.db", table)
    first, second = await told_by(sql(shop)), await told_by(sql(fair))
    assert "Database shop.db, in the SQL of SQLite." in first
    assert "orders(id INTEGER, who TEXT) with rows like (1, Ann) (2, NULL)." in first
    assert "Database fair.db" in second
    assert "with rows like" not in second
    assert str(tmp_path) not in first


async def test_rows_are_told_in_short_and_without_bytes(tmp_path: Path) -> None:
    wide = ", ".join(f"c{n} TEXT" for n in range(40))
    path = made(
        tmp_path / "x.db",
        "CREATE TABLE pics (name TEXT, pic BLOB)",
        "INSERT INTO pics VALUES ('a\nb', x'ff00'), ('c', x'01')",
        f"CREATE TABLE wide ({wide})",
        f"INSERT INTO wide VALUES ({', '.join(repr('x' * 500) for _ in range(40))})",
    )
    told = await told_by(sql(path))
    assert "pics(name TEXT, pic BLOB) with rows like (a b) (c)" in told
    assert len(told) < 3_000


async def test_rows_of_duckdb_and_of_data_files_are_told_too(duckdb_path: Path, tmp_path: Path) -> None:
    assert "in the SQL of DuckDB." in await told_by(sql(duckdb_path))
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "sales.csv").write_text("a,b\n1,x\n2,y\n3,z\n")
    told = await told_by(data(folder))
    assert "Files in the folder reports" in told
    assert "'sales.csv'(a BIGINT, b VARCHAR) with rows like (1, x) (2, y)." in told


async def test_no_rows_are_told_where_they_are_switched_off(tmp_path: Path) -> None:
    secret = made(
        tmp_path / "s.db", "CREATE TABLE people (name TEXT)", "INSERT INTO people VALUES ('Ann Smith')"
    )
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "people.csv").write_text("name\nAnn Smith\n")
    for source in (
        sql(secret, rows=False),
        data(folder, rows=False),
        load(f"kit:sql={secret},rows=no"),
        load(f"kit:sql={secret},write=yes,rows=no"),
        load(f"kit:data={folder},rows=no"),
    ):
        told = await told_by(source)
        assert "people" in told
        assert "Ann" not in told
    assert "Ann" in await told_by(load(f"kit:sql={secret},rows=yes"))
