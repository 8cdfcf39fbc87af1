"""What `replan doctor` finds in databases that something is wrong with."""

from __future__ import annotations

import asyncio
import json
import os
import socketserver
import sqlite3
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from cli_process import BY_STEPS, folder, one_step, replan
from psycopg import AsyncConnection

from postgres_server import PostgresServer
from replan.cli.doctor import asked
from replan.cli.doctor.database import database
from replan.cli.doctor.findings import Finding, guarded
from replan.config import Settings
from replan.core.events import CancelRequested, PlanGenerated, StepReady, TaskSubmitted, TaskWaiting
from replan.core.types import Plan
from replan.engine.procrastinate.queue import Queue
from replan.errors import StoreUnusable
from replan.store import schema
from replan.store.inspection.sqlite import look_at_sqlite
from replan.store.postgres import schema as postgres_schemas
from replan.store.postgres.address import Address
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


def examined(db: str | Path, *, workers: bool = False) -> dict[str, list[Finding]]:
    """The findings on a database, by their names."""
    engine = {"kind": "procrastinate" if workers else "local"}
    settings = Settings.model_validate({"engine": engine})
    found: dict[str, list[Finding]] = {}
    for finding in guarded("store", lambda: database(settings, str(db))):
        found.setdefault(finding.name, []).append(finding)
    return found


def the(findings: dict[str, list[Finding]], name: str) -> Finding:
    (found,) = findings[name]
    return found


async def begun(store: SqliteStore | PostgresStore, task_id: str, *, waits: bool = False) -> None:
    """A task whose driver has claimed it, and says nothing more."""
    await store.create(task_id, TaskSubmitted(description=task_id), 1.0)
    claim = await store.claim(task_id)
    await store.append(claim, [TaskWaiting(reason="?") if waits else StepReady(step_id="a")], ts=2.0, round=1)
    if waits:
        await store.release(claim)


# ── a SQLite file ──


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    asyncio.run(SqliteStore(path).aclose())
    return path


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def test_a_file_that_is_well(file: Path) -> None:
    found = examined(file)

    assert {name: [one.state for one in some] for name, some in found.items()} == {
        "store": ["ok"], "schema": ["ok"], "disk": ["ok"]
    }  # fmt: skip
    assert the(found, "store").facts["tasks"] == 0


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    found = examined(tmp_path / "new" / "log.db")

    assert the(found, "store").state == "ok"
    assert "is not there yet" in the(found, "store").found
    assert list(tmp_path.iterdir()) == []


def test_a_look_changes_nothing_in_an_older_database(file: Path) -> None:
    sql(file, "PRAGMA user_version = 4", "DROP TABLE outbox_consumer")
    before = {each.name: each.read_bytes() for each in file.parent.iterdir() if each.is_file()}

    form = the(examined(file), "schema")

    assert (form.state, "to come" in form.found) == ("note", True)
    assert form.facts["at"] == 4
    after = {each.name: each.read_bytes() for each in file.parent.iterdir() if each.is_file()}
    assert {name: data for name, data in after.items() if not name.endswith(("-wal", "-shm"))} == before


@pytest.mark.parametrize("at", range(1, len(schema.migrations())))
def test_no_older_schema_is_a_problem(tmp_path: Path, at: int) -> None:
    with closing(schema.connect(tmp_path / "log.db")) as db:
        schema.prepare(db, tmp_path / "log.db", steps=schema.migrations()[:at])

    found = examined(tmp_path / "log.db")

    assert {one.state for some in found.values() for one in some} == {"ok", "note"}
    assert the(found, "schema").facts["at"] == at


@pytest.mark.parametrize(
    ("statements", "name", "state", "words"),
    [
        pytest.param(
            ["PRAGMA user_version = 999"], "schema", "problem", "made by a newer Replan", id="newer"
        ),
        pytest.param(
            ["DROP TABLE seal_key"], "schema", "problem", "seal_key is missing", id="a table is gone"
        ),
        pytest.param(
            ["PRAGMA user_version = 0"], "store", "problem", "a database of something else", id="another's"
        ),
    ],
)
def test_a_file_in_a_wrong_form(file: Path, statements: list[str], name: str, state: str, words: str) -> None:
    sql(file, *statements)

    found = the(examined(file), name)

    assert (found.state, words in found.found) == (state, True), found


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"no database at all" * 1_000)

    found = the(examined(tmp_path / "log.db"), "store")
    folder_found = the(examined(tmp_path), "store")

    assert (found.state, "no usable SQLite database" in found.found) == ("problem", True)
    assert (folder_found.state, "is a folder" in folder_found.found) == ("problem", True)


def test_damage_in_the_middle_is_found(file: Path) -> None:
    sql(
        file,
        *(f"INSERT INTO tool_names VALUES ('{n}', '{'x' * 3000}', 1)" for n in range(100)),
    )
    sql(file, "PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("r+b") as raw:
        raw.seek(os.path.getsize(file) - 40_000)
        raw.write(os.urandom(20_000))

    found = examined(file)["integrity"]

    assert {one.state for one in found} == {"problem"}
    assert "restore it from a backup" in found[0].todo


def test_a_large_file_is_looked_through_for_a_while_only(file: Path) -> None:
    sql(file, *(f"INSERT INTO tool_names VALUES ('{n}', '{'x' * 3000}', 1)" for n in range(3_000)))

    health = look_at_sqlite(file, check_secs=0.0)

    assert health.broken == []
    assert health.unchecked is not None


def test_a_file_that_another_process_holds(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = the(examined(file), "store")

    assert (found.state, "locked by another process" in found.found) == ("problem", True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_in_a_folder_that_is_read_only(file: Path) -> None:
    file.parent.chmod(0o500)
    try:
        found = the(examined(file), "store")
    finally:
        file.parent.chmod(0o700)
    assert (found.state, "read-only" in found.found) == ("problem", True)


async def test_tasks_that_nobody_drives_are_told_and_others_are_not(file: Path) -> None:
    dead = SqliteStore(file)
    await begun(dead, "cut-off")
    await begun(dead, "answered", waits=True)
    await dead.signal("answered", CancelRequested(reason="so"), 3.0)
    await begun(dead, "waits", waits=True)
    await dead.create("never-begun", TaskSubmitted(description="x"), 1.0)
    await dead.create("just-now", TaskSubmitted(description="x"), time.time())
    await dead.aclose()

    alone = await asyncio.to_thread(examined, file)
    living = SqliteStore(file)
    await begun(living, "driven")
    found = await asyncio.to_thread(examined, file)
    await living.aclose()

    kinds = {one.facts["kind"]: one.facts["tasks"] for one in alone["tasks"]}
    assert kinds == {"interrupted": ["cut-off", "never-begun"], "answered": ["answered"]}
    kinds = {one.facts["kind"]: one.facts["tasks"] for one in found["tasks"]}
    assert kinds == {"interrupted": ["cut-off"], "answered": ["answered"]}, (
        "another one may wait for its turn"
    )
    assert [one.todo for one in found["tasks"]] == [
        "replan tasks resume cut-off",
        "replan tasks resume answered",
    ]


async def test_consumers_that_fail_or_that_nobody_delivers_to_are_told(file: Path) -> None:
    store = SqliteStore(file)
    for name in ("failing", "left"):
        await store.outbox().register(name)
    reading = await store.outbox().take("failing")
    assert reading is not None
    await begun(store, "t", waits=True)
    await store.outbox().beat(reading, failures=3, error="it is away")

    found = await asyncio.to_thread(examined, file)

    await store.aclose()
    failing, left = found["outbox"]
    assert (failing.state, "refused 3 times in a row: it is away" in failing.found) == ("problem", True)
    assert (left.state, "nobody delivers to it" in left.found) == ("problem", True)
    assert "replan outbox forget left" in left.todo


async def test_tasks_that_cannot_go_on_here_are_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text('def dig(n: int) -> int:\n    """Dig."""\n    return n\n')
    store = SqliteStore(tmp_path / "log.db")
    await store.create("late", TaskSubmitted(description="x"), 1.0)
    claim = await store.claim("late")
    await store.append(claim, [TaskWaiting(reason="a while", until=5.0)], ts=2.0, round=1)
    await store.create("digs", TaskSubmitted(description="x"), 1.0)
    claim = await store.claim("digs")
    plan = {
        "plan_id": "p",
        "task_description": "x",
        "steps": [{"step_id": "s", "name": "s", "tool": "fly", "parameters": {}}],
    }
    await store.append(claim, [PlanGenerated(plan=Plan.model_validate(plan))], ts=2.0, round=1)
    await store.create("waits", TaskSubmitted(description="x"), 1.0)
    claim = await store.claim("waits")
    pause = {"step_id": "s", "name": "s", "tool": "wait_for_time", "parameters": {"seconds": 60}}
    waits = Plan.model_validate({**plan, "steps": [pause]})
    await store.append(claim, [PlanGenerated(plan=waits)], ts=2.0, round=1)
    await store.append(claim, [TaskWaiting(reason="a while", until=time.time() + 60)], ts=2.0, round=1)
    await store.aclose()

    def told(*specs: str) -> dict[str, str]:
        found = asked.tools(Settings(), specs, tmp_path / "log.db")
        return {one.facts["tasks"][0]: one.found for one in found if one.name == "tasks"}

    with_none = await asyncio.to_thread(told)
    with_some = await asyncio.to_thread(told, str(tmp_path / "tools.py"))

    assert set(with_none) == {"late"}, "tools come from where the log says"
    assert set(with_some) == {"late", "digs"}
    assert "nobody has taken it up since" in with_some["late"]
    assert "'fly', not to be found" in with_some["digs"]


def test_workers_need_a_server(file: Path) -> None:
    assert "postgresql://" in the(examined(file, workers=True), "workers").todo


def test_a_machine_that_needs_no_model_is_well_without_one(tmp_path: Path) -> None:
    cwd = folder(tmp_path)

    with_it = replan("doctor", "--db", "log.db", "--json", cwd=cwd)
    well = replan("doctor", "--db", "log.db", "--without", "model", "--without", "extras", "--json", cwd=cwd)
    wrong = replan("doctor", "--without", "luck", cwd=cwd)

    assert with_it.returncode == 1
    assert "model" in {one["name"] for one in json.loads(with_it.stdout)["checks"]}
    assert (well.returncode, json.loads(well.stdout)["ok"]) == (0, True)
    names = {one["name"] for one in json.loads(well.stdout)["checks"]}
    assert "store" in names
    assert not {name for name in names if name.startswith(("model", "extra"))}
    assert (
        wrong.returncode,
        "there are extras, registry, audit, model, database, tools" in wrong.stderr,
    ) == (
        2,
        True,
    )


def test_the_command_tells_all_of_it_and_its_exit_code_says_whether_something_is_wrong(
    tmp_path: Path,
) -> None:
    cwd = folder(tmp_path)
    (cwd / "plan.json").write_text(json.dumps(one_step("add", a=3, b=4)))
    assert replan(*BY_STEPS, "--db", "log.db", cwd=cwd).returncode == 0
    sql(cwd / "log.db", "DROP TABLE seal_key")

    told = replan("doctor", "--db", "log.db", cwd=cwd)
    checks = json.loads(replan("doctor", "--db", "log.db", "--json", cwd=cwd).stdout)["checks"]

    assert told.returncode == 1
    assert "seal_key is missing\n" in told.stdout
    assert "→ restore it from a backup" in told.stdout
    assert [one["facts"]["missing"] for one in checks if one["name"] == "schema"] == [["seal_key"]]


# ── a server ──


@pytest.fixture
def made(postgres_database: str) -> str:
    store = PostgresStore(postgres_database)
    asyncio.run(Queue(store.shared()).prepare())
    asyncio.run(store.aclose())
    return postgres_database


@pytest.fixture
async def server_store(made: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(made)
    yield store
    await store.aclose()


class Sql:
    def __init__(self, server: PostgresServer, address: str) -> None:
        self._server = server
        self._name = address.rpartition("/")[2]

    def __call__(self, *statements: str) -> None:
        self._server.sql("SET search_path = replan", *statements, database=self._name)


@pytest.fixture
def run_sql(postgres_server: PostgresServer, made: str) -> Sql:
    return Sql(postgres_server, made)


def test_a_database_that_is_well(made: str) -> None:
    found = examined(made)

    assert {name: [one.state for one in some] for name, some in found.items()} == {
        "store": ["ok"], "schema": ["ok"], "clock": ["ok"]
    }, found  # fmt: skip


def test_a_new_database_is_not_made(postgres_new_database: str, postgres_server: PostgresServer) -> None:
    found = examined(postgres_new_database)

    assert "nothing of Replan's" in the(found, "store").found
    name = postgres_new_database.rpartition("/")[2]
    tables = postgres_server.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'replan'", database=name)
    assert tables.strip() == "0"


def test_a_server_that_is_down_and_a_database_that_is_not_there(postgres_server: PostgresServer) -> None:
    down = the(examined("postgresql://replan:hunter2@127.0.0.1:9/tasks"), "store")
    none = the(examined(postgres_server.url("nowhere")), "store")

    assert (down.state, "does not answer" in down.found, "hunter2" in down.found) == ("problem", True, False)
    assert (none.state, '"nowhere" does not exist' in none.found) == ("problem", True)


def test_a_database_that_takes_no_writes(made: str, run_sql: Sql) -> None:
    run_sql(f"ALTER DATABASE {made.rpartition('/')[2]} SET default_transaction_read_only = on")

    found = the(examined(made), "store")

    assert (found.state, "takes reads only" in found.found) == ("problem", True)
    assert "address of the primary" in found.todo


@pytest.mark.parametrize(
    ("granted", "words", "to_do"),
    [
        pytest.param("", "may make no schema in", "GRANT CREATE ON DATABASE", id="nothing, and no schema is there"),
        pytest.param("CREATE SCHEMA replan", "may not use the schema replan", "grant that right", id="nothing"),
        pytest.param(
            "CREATE SCHEMA replan; GRANT USAGE ON SCHEMA replan TO {user}", "may make no tables in the schema replan",
            "GRANT CREATE ON SCHEMA replan", id="an empty schema",
        ),
    ],
)  # fmt: skip
def test_a_user_without_rights_where_nothing_is_yet(
    postgres_new_database: str, postgres_server: PostgresServer, granted: str, words: str, to_do: str
) -> None:
    address = postgres_new_database
    with a_role(postgres_server, address) as (user, theirs):
        run = Sql(postgres_server, address)
        for statement in filter(None, granted.format(user=user).split("; ")):
            run(statement)
        found = examined(theirs)

    assert set(found) == {"store", "clock"}
    store = the(found, "store")
    assert (store.state, f"the user {user} {words}" in store.found) == ("problem", True), store
    assert to_do in store.found


@pytest.mark.parametrize(
    ("rights", "words", "to_do"),
    [
        pytest.param("", "may not read the tables", "", id="none"),
        pytest.param("SELECT", "may only read its tables", "to look is enough for `tasks list`", id="only to read"),
    ],
)  # fmt: skip
def test_a_user_who_may_not_write(
    made: str, postgres_server: PostgresServer, run_sql: Sql, rights: str, words: str, to_do: str
) -> None:
    with a_role(postgres_server, made) as (user, theirs):
        run_sql(f"GRANT USAGE ON SCHEMA replan TO {user}")
        if rights:
            run_sql(f"GRANT {rights} ON ALL TABLES IN SCHEMA replan TO {user}")
        found = the(examined(theirs), "store")

    assert (found.state, words in found.found, to_do in found.todo) == ("problem", True, True), found
    assert "primary" not in found.todo


def test_a_schema_of_ones_own_that_is_not_there(made: str) -> None:
    own = f"{made}?options=-c%20search_path%3Dnowhere"

    found = the(examined(own), "store")
    with pytest.raises(StoreUnusable, match="make the schema that search_path names"):
        asyncio.run(PostgresStore(own).list_tasks())

    assert (found.state, "no schema of search_path (nowhere) is in" in found.found) == ("problem", True)
    assert "CREATE SCHEMA" in found.found


@pytest.mark.parametrize(
    ("code", "says", "to_do"),
    [
        ("28P01", 'password authentication failed for user "ada"', "PGPASSWORD"),
        ("28000", 'role "ada" does not exist', "createuser"),
        ("3D000", 'database "tasks" does not exist', "createdb"),
        ("28000", 'no pg_hba.conf entry for host "10.0.0.1"', "pg_hba.conf"),
        ("42501", 'permission denied for database "tasks"', "have its owner grant that right"),
    ],
)
def test_a_server_that_lets_nobody_in_says_why_and_what_helps(code: str, says: str, to_do: str) -> None:
    with refusing(code, says) as port:
        found = the(examined(f"postgresql://ada:hush@127.0.0.1:{port}/tasks"), "store")

    assert (found.state, says in found.found, f"; {to_do}" in found.found or to_do in found.found) == (
        "problem", True, True
    )  # fmt: skip
    assert "refuses" in found.found
    assert "does not answer" not in found.found
    assert "hush" not in found.found


def test_a_server_that_is_starting_is_one_that_does_not_answer_yet() -> None:
    with refusing("57P03", "the database system is starting up") as port:
        found = the(examined(f"postgresql://ada@127.0.0.1:{port}/tasks"), "store")

    assert "does not answer (" in found.found


@contextmanager
def refusing(code: str, says: str) -> Iterator[int]:
    """A server that answers whoever wants to begin a session with this error; its port."""

    class Refuse(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while len(head := self.rfile.read(8)) == 8:
                length, kind = struct.unpack("!ii", head)
                self.rfile.read(length - 8)
                if kind >> 16 == 3:  # a start of the protocol's version 3; all else asks for encryption
                    break
                self.wfile.write(b"N")
            fields = b"".join(
                key + text.encode() + b"\0" for key, text in ((b"S", "FATAL"), (b"C", code), (b"M", says))
            )
            self.wfile.write(b"E" + struct.pack("!i", len(fields) + 5) + fields + b"\0")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refuse) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def a_role(server: PostgresServer, address: str) -> Iterator[tuple[str, str]]:
    """A user of the server with no rights, and the address with that name."""
    database = address.rpartition("/")[2]
    user = f"weak_{database}"
    server.sql(f"CREATE ROLE {user} LOGIN", database=database)
    try:
        yield user, address.replace("replan@", f"{user}@")
    finally:
        server.sql(f"DROP OWNED BY {user}", f"DROP ROLE {user}", database=database)


def test_schemas_of_other_releases_and_half_of_one(made: str, run_sql: Sql) -> None:
    newest = postgres_schemas.migrations()[-1][0]
    run_sql("UPDATE replan_schema SET newest = newest + 1")
    beside = the(examined(made), "schema")
    run_sql(f"UPDATE replan_schema SET version = {newest + 1}")
    newer = the(examined(made), "schema")
    run_sql("UPDATE replan_schema SET version = 2, newest = 2", "DROP TABLE outbox_position, outbox_consumer")
    older = the(examined(made), "schema")
    run_sql("DROP TABLE seal_key")
    half = the(examined(made), "schema")

    assert (beside.state, "can work beside" in beside.found) == ("note", True)
    assert (newer.state, newer.todo) == ("problem", "upgrade Replan")
    assert (older.state, "to come" in older.found) == ("note", True)
    assert (half.state, "seal_key is missing" in half.found) == ("problem", True)


@pytest.mark.parametrize("at", range(1, len(postgres_schemas.migrations())))
def test_nor_is_one_on_a_server(postgres_new_database: str, at: int) -> None:
    async def make() -> None:
        address = Address(postgres_new_database)
        connection = await AsyncConnection.connect(**address.given, autocommit=True)
        await postgres_schemas.prepare(connection, address, steps=postgres_schemas.migrations()[:at])
        await connection.close()

    asyncio.run(make())

    found = examined(postgres_new_database)

    assert {one.state for some in found.values() for one in some} == {"ok", "note"}
    assert the(found, "schema").facts["at"] == at


def test_a_table_that_somebody_has_locked_leaves_the_rest_of_the_look(
    made: str, postgres_server: PostgresServer
) -> None:
    import psycopg

    with psycopg.connect(made) as other:
        other.execute("LOCK TABLE replan.task IN ACCESS EXCLUSIVE MODE")
        found = examined(made)

    assert the(found, "schema").state == "ok"
    assert any("lock timeout" in one.found for one in found["store"] if one.state == "problem")


def test_workers_that_are_dead_and_clocks_that_differ(made: str, run_sql: Sql) -> None:
    into = (
        "INSERT INTO worker (number, id, name, queues, offers, concurrency, stale_secs, seen, ahead) VALUES"
    )
    run_sql(
        f"""{into} (1, 1, 'old', '{{}}', '{{"tools": [], "models": {{}}}}', 4, 0.001, now() - interval '1 hour', NULL)""",
        f"""{into} (2, 2, 'fast', '{{}}', '{{"tools": [], "models": {{}}}}', 4, 3600, now(), 42.0)""",
        f"""{into} (3, 3, 'right', '{{}}', '{{"tools": [], "models": {{}}}}', 4, 3600, now(), 0.1)""",
    )

    found = examined(made, workers=True)

    well, dead = found["workers"]
    assert "told no more" in dead.todo
    assert (well.state, well.found) == ("ok", "2 workers, 0 of 8 places taken")
    assert (dead.state, "old was last seen 1 h 00 min ago" in dead.found) == ("note", True)
    fast, here = found["clock"]
    assert (fast.state, "fast's is 42 s ahead of the database's" in fast.found) == ("problem", True)
    assert here.state == "ok"


def test_workers_that_were_started_again_are_one_line_and_the_others_of_a_machine_another(
    made: str, run_sql: Sql
) -> None:
    into = """INSERT INTO worker (number, id, name, queues, offers, concurrency, stale_secs, started, seen)
        SELECT {n}, {n}, '{name}', '{{}}', '{{"tools": [], "models": {{}}}}', 1, {stale}, now() - interval '{began}', now() - interval '{seen}'"""
    rows = [
        ("process 1 on a", "9 h", "3 h", 1), ("process 2 on a", "3 h", "2 h", 1), ("process 3 on a", "1 h", "0 h", 99999),
        ("process 4 on b", "9 h", "5 h", 1), ("process 5 on b", "5 h", "4 h", 1),
        ("process 6 on c", "9 h", "1 h", 1), ("process 7 on c", "2 h", "0 h", 99999),
    ]  # fmt: skip
    run_sql(
        *(
            into.format(n=n, name=name, stale=stale, began=began, seen=seen)
            for n, (name, began, seen, stale) in enumerate(rows, 1)
        )
    )

    well, *lost = examined(made, workers=True)["workers"]

    assert well.found == "2 workers, 0 of 2 places taken"
    assert {one.state: one.facts["names"] for one in lost if one.state == "ok"} == {
        "ok": ["process 1 on a", "process 2 on a"]
    }
    notes = [one for one in lost if one.state == "note"]
    assert [one.facts["names"] for one in notes] == [["process 4 on b", "process 5 on b"], ["process 6 on c"]]
    assert "process 5 on b and 1 other there before it were last seen 4 h 00 min ago" in notes[0].found


async def test_tasks_of_a_queue_that_wait_for_the_same_are_one_line(
    server_store: PostgresStore, made: str, run_sql: Sql
) -> None:
    for n in range(3):
        await begun(server_store, f"t{n}")
    run_sql(
        "INSERT INTO worker (number, id, name, queues, offers, concurrency, stale_secs, most) VALUES (1, 1, 'w', '{}', "
        '\'{"tools": ["dig", "fly"], "models": {}, "endpoint": null}\', 4, 3600, NULL)',
        *(
            f'INSERT INTO need VALUES (\'default:{n}\', \'{{"tools": ["{tool}"], "models": {{}}, "endpoint": null}}\')'
            for n, tool in enumerate(("dig", "fly", "swim"))
        ),
        *(f"SELECT wake('t{n}', 'default:{n}', 0)" for n in range(3)),
    )

    lines = {one.state: one.found for one in (await asyncio.to_thread(examined, made))["queue"]}

    assert lines == {
        "ok": "2 tasks of the queue 'default': waiting for a free worker",
        "problem": "1 task of the queue 'default': it waits for a worker that has the tool 'swim': the worker that is running does not",
    }
    run_sql("UPDATE task SET holder = 1", "UPDATE worker SET most = 3")
    (free,) = [one for one in (await asyncio.to_thread(examined, made))["queue"] if one.state == "ok"]
    assert "max_running_tasks = 3" in free.found
    run_sql("UPDATE worker SET most = NULL, concurrency = 3")
    (free,) = [one for one in (await asyncio.to_thread(examined, made))["queue"] if one.state == "ok"]
    assert "all 3 places of the worker that could take it are taken" in free.found


async def test_tasks_of_workers_that_stand_still(
    server_store: PostgresStore, made: str, run_sql: Sql
) -> None:
    other = PostgresStore(made)
    for task_id in ("lost", "refused", "queued", "ours"):
        await begun(other, task_id)
    await other.aclose()
    await begun(server_store, "driven")
    await begun(server_store, "asks", waits=True)
    run_sql(
        "UPDATE task SET queue = 'default:x', updated = extract(epoch FROM now()) - 3600 WHERE task_id IN ('lost', 'queued')",
        "UPDATE task SET queue = 'default:x', refused = 'worker 7 gave it back: no key' WHERE task_id = 'refused'",
        "SELECT wake('queued', 'default:x', 0)",
        'INSERT INTO need VALUES (\'default:x\', \'{"tools": ["dig"], "models": {}, "endpoint": null}\')',
        "UPDATE procrastinate_events SET at = at - interval '1 hour'",
    )

    found = await asyncio.to_thread(examined, made, workers=True)

    kinds = {one.facts["kind"]: (one.state, one.facts["tasks"]) for one in found["tasks"]}
    assert kinds == {
        "lost": ("problem", ["lost"]), "given back": ("problem", ["refused"]), "interrupted": ("note", ["ours"])
    }  # fmt: skip
    assert "no key" in next(one.found for one in found["tasks"] if one.facts["kind"] == "given back")
    assert the(found, "queue").facts["tasks"] == 1
    assert the(found, "wake-ups").facts["oldest_secs"] >= 3_600
    assert the(found, "workers").found == "no worker is running"


def test_a_row_that_somebody_has_spoilt_leaves_the_rest_of_the_look(made: str, run_sql: Sql) -> None:
    run_sql(
        "INSERT INTO worker (number, id, name, queues, offers, concurrency, stale_secs) VALUES (1, 1, 'w', '{}', 'spoilt', 4, 9)"
    )

    found = examined(made)

    assert the(found, "schema").state == "ok"
    assert any("could not be looked at" in one.found for one in found["store"])
