"""Whole tasks in PostgreSQL: by the library, by the command, by two processes; and what is said where it cannot be."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from postgres_server import PostgresServer
from replan import Replan, run_sync, tool
from replan.errors import InputError, StoreError, StoreUnusable, TaskHeld, TaskShared

pytestmark = pytest.mark.anyio
SECS = 60.0
PLAN = {
    "steps": [
        {"step_id": "a", "tool": "note", "parameters": {"text": "first"}},
        {"step_id": "b", "tool": "note", "parameters": {"text": "${a.output}, second"}},
    ]
}
TOOLS = '''
from replan import tool

@tool(effect="once")
def note(text: str) -> str:
    """Note a text."""
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")
    return text
'''


def noting(made: list[str]) -> Any:
    @tool(effect="once")
    def note(text: str) -> str:
        """Note a text."""
        made.append(text)
        return text

    return note


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from replan.cli import main; main()", *arguments],
        check=False, capture_output=True, text=True, cwd=folder, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip


async def test_a_task_is_run_and_read_by_another(postgres_database: str) -> None:
    made: list[str] = []
    async with Replan(tools=[noting(made)], db=postgres_database, evaluation="steps") as replan:
        result = await replan.run("note it", plan=PLAN, task_id="t")
    assert result.succeeded
    assert made == ["first", "first, second"]
    async with Replan(tools=[noting(made)], db=postgres_database, evaluation="steps") as other:
        assert [task.status for task in await other.tasks()] == ["succeeded"]
        again = await other.run("note it", plan=PLAN, task_id="t")
    assert again.output == result.output
    assert made == ["first", "first, second"]


async def test_a_task_that_another_drives_is_held_watched_and_cancelled_from_here(
    postgres_database: str,
) -> None:
    begun, asked_to_stop = asyncio.Event(), asyncio.Event()

    @tool(effect="reads")
    async def long() -> str:
        """Take long."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            asked_to_stop.set()
            raise
        return ""

    plan = {"steps": [{"step_id": "a", "tool": "long"}]}
    async with (
        Replan(tools=[long], db=postgres_database, evaluation="steps") as first,
        Replan(tools=[long], db=postgres_database, evaluation="steps") as second,
        asyncio.timeout(SECS),
    ):
        await first.submit("take long", plan=plan, task_id="t")
        await begun.wait()
        with pytest.raises(TaskHeld):
            await second.resume("t")

        async def kinds() -> list[str]:
            return [record.type async for record in second.watch("t")]

        watching = asyncio.ensure_future(kinds())
        await second.cancel("t", reason="enough")
        assert (await first.wait("t")).status == "cancelled"
        await asked_to_stop.wait()
        assert (await watching)[-1] == "task_cancelled"


async def test_it_may_be_used_from_code_that_is_not_async(postgres_database: str) -> None:
    made: list[str] = []

    def in_a_loop_of_its_own(n: int) -> str:
        note = noting(made)
        return run_sync(
            "note it", [note], db=postgres_database, evaluation="steps", plan=PLAN, task_id=f"t{n}"
        ).status

    statuses = [await asyncio.to_thread(in_a_loop_of_its_own, n) for n in range(2)]
    assert statuses == ["succeeded"] * 2
    assert len(made) == 4


def test_the_command_takes_the_address_and_prints_no_password(tmp_path: Path, postgres_database: str) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    address = postgres_database.replace("replan@", "replan:pass-word-77@")
    db = ["--db", address]
    ran = command(
        tmp_path,
        "run",
        "--plan",
        "plan.json",
        "--tools",
        "tools.py",
        "--evaluation",
        "steps",
        "--task-id",
        "t1",
        "note it",
        *db,
    )
    assert ran.returncode == 0, ran.stderr
    listed = command(tmp_path, "tasks", "list", *db)
    assert "t1" in listed.stdout
    shown = command(tmp_path, "tasks", "show", "t1", *db)
    missing = command(tmp_path, "tasks", "show", "t2", *db)
    resumed = command(tmp_path, "tasks", "resume", "t1", *db)
    assert missing.returncode == resumed.returncode == 2
    for done in (ran, listed, shown, missing, resumed):
        assert "pass-word-77" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    assert (tmp_path / "notes.txt").read_text() == "first\nfirst, second\n"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://127.0.0.1:1/tasks", "does not answer"),
        ("postgresql://h/d?nonsense=1", "cannot be read"),
        ("mysql://h/d", "no database that Replan knows"),
    ],
)
async def test_an_address_that_cannot_be_used_is_told(address: str, said: str) -> None:
    with pytest.raises((StoreError, InputError), match=said):
        async with Replan(db=address):
            pass


async def test_a_database_that_is_not_there_and_one_of_another_encoding_are_told(
    postgres_server: PostgresServer,
) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        async with Replan(db=postgres_server.url("nowhere")):
            pass
    postgres_server.sql(
        "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    with pytest.raises(StoreError, match="LATIN1"):
        async with Replan(db=postgres_server.url("latin")):
            pass


async def test_a_database_of_a_newer_release_is_left_alone(
    postgres_server: PostgresServer, postgres_database: str
) -> None:
    async with Replan(db=postgres_database):
        pass
    name = postgres_database.rpartition("/")[2]
    postgres_server.sql("UPDATE replan.replan_schema SET version = 99", database=name)
    with pytest.raises(StoreError, match="newer Replan"):
        async with Replan(db=postgres_database):
            pass


async def test_a_database_that_a_newer_release_has_only_added_to_is_used_and_stays_as_it_is(
    postgres_server: PostgresServer, postgres_database: str
) -> None:
    async with Replan(db=postgres_database):
        pass
    name = postgres_database.rpartition("/")[2]
    postgres_server.sql(
        "ALTER TABLE replan.task ADD COLUMN mood text DEFAULT 'merry'",
        "CREATE TABLE replan.moods (mood text)",
        "UPDATE replan.replan_schema SET newest = 99",
        database=name,
    )

    async with Replan(tools=[noting(made := [])], db=postgres_database) as replan:
        result = await replan.run("note", plan=PLAN, evaluation="steps")

    assert result.is_success
    assert made == ["first", "first, second"]
    assert postgres_server.sql("SELECT newest FROM replan.replan_schema", database=name).strip() == "99"


async def test_a_migration_of_a_newer_release_that_only_adds_leaves_the_database_to_this_one(
    postgres_server: PostgresServer, postgres_database: str
) -> None:
    from replan.store.postgres import schema
    from replan.store.postgres.address import Address

    address, here = Address(postgres_database), schema.migrations()
    newest = here[-1][0]
    adds = (newest + 1, "ALTER TABLE task ADD COLUMN mood text")
    breaks = (
        newest + 2,
        "-- breaks older releases: nobody says what it does\nALTER TABLE task RENAME COLUMN mood TO air",
    )
    async with await psycopg.AsyncConnection.connect(**address.given, autocommit=True) as connection:
        await schema.prepare(connection, address)
        await schema.prepare(connection, address, steps=[*here, adds])
        await schema.prepare(connection, address)  # this one, started again beside it
        await schema.prepare(connection, address, steps=[*here, adds])

        await schema.prepare(connection, address, steps=[*here, adds, breaks])
        with pytest.raises(StoreUnusable, match=f"schema {newest + 2}, this one knows {newest}"):
            await schema.prepare(connection, address)


def test_no_two_migrations_have_one_number() -> None:
    from replan.store import schema as sqlite
    from replan.store.postgres import schema as postgres

    for steps in (sqlite.migrations(), postgres.migrations()):
        assert [number for number, _ in steps] == list(range(1, len(steps) + 1))


async def test_the_view_of_events_says_whose_they_are_and_how_the_task_stands(postgres_database: str) -> None:
    async with Replan(tools=[noting([])], db=postgres_database, evaluation="steps") as replan:
        await replan.run("note it", plan=PLAN, task_id="t")
        fork = await replan.fork("t", plan={"steps": [PLAN["steps"][0]]})
        await replan.wait(fork)
        records = {"t": await replan.history("t"), fork: await replan.history(fork)}

    rows: dict[str, list[tuple[Any, ...]]] = {}
    with psycopg.connect(postgres_database) as database:
        seen = database.execute(
            "SELECT task_id, status, seq, type, data::jsonb FROM replan.events ORDER BY seq"
        )
        for task_id, *rest in seen:
            rows.setdefault(task_id, []).append(tuple(rest))

    assert [(seq, kind) for _, seq, kind, _ in rows["t"]] == [(one.seq, one.type) for one in records["t"]]
    assert {status for status, *_ in rows["t"]} == {"succeeded"}
    own = [(one.seq, one.type) for one in records[fork] if one.seq >= rows[fork][0][1]]
    assert [(seq, kind) for _, seq, kind, _ in rows[fork]] == own


def until_found(ask: Callable[[str], Any], statement: str) -> None:
    limit = time.monotonic() + SECS
    while not ask(statement).fetchall():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_a_task_that_is_being_forked_is_given_away_only_if_no_fork_comes_of_it(
    postgres_database: str, postgres_admin: Callable[[str], Any], ends: str
) -> None:
    database = postgres_database.rsplit("/", 1)[1]
    async with Replan(tools=[noting([])], db=postgres_database, evaluation="steps") as replan:
        await replan.run("note it", plan=PLAN, task_id="t")
        store: Any = replan.service.parts.store
        claim = await store.claim("t")
        last = (await store.summary("t")).last_seq
        with psycopg.connect(postgres_database) as forking:  # as a fork of what has ended does it
            forking.execute("SET search_path = replan")
            forking.execute("SELECT id FROM task WHERE task_id = 't' FOR UPDATE")
            forking.execute(
                "INSERT INTO task (task_id, request, description, status, created, updated, last_seq, epoch, due, parent, shared, family) "
                "SELECT 'f', 'ab', description, 'queued', 1, 1, 3, 1, false, id, 2, id FROM task WHERE task_id = 't'"
            )
            giving = asyncio.create_task(store.give_away({claim: last}, "d" * 64))
            waits = (
                f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'"
            )
            await asyncio.to_thread(until_found, postgres_admin, waits)
            getattr(forking, ends)()
        if ends == "commit":
            with pytest.raises(TaskShared):
                await giving
        else:
            await giving
        assert bool((await store.summary("t")).given_away) == (ends == "rollback")
