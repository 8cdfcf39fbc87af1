"""What `replan doctor` finds in databases that something is wrong with."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
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


def test_a_user_who_may_not_write(made: str, run_sql: Sql) -> None:
    name = f"reader_{made.rpartition('/')[2]}"
    run_sql(
        f"CREATE ROLE {name} LOGIN", f"GRANT USAGE ON SCHEMA replan TO {name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA replan TO {name}",
    )  # fmt: skip
    try:
        found = the(examined(made.replace("replan@", f"{name}@")), "store")
    finally:
        run_sql(f"DROP OWNED BY {name}", f"DROP ROLE {name}")
    assert (found.state, "may not write to its tables" in found.found) == ("problem", True)


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
    assert (well.state, well.found) == ("ok", "2 workers, 0 of 8 places taken")
    assert (dead.state, "old was last seen 1 h 00 min ago" in dead.found) == ("note", True)
    fast, here = found["clock"]
    assert (fast.state, "fast's is 42 s ahead of the database's" in fast.found) == ("problem", True)
    assert here.state == "ok"


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
