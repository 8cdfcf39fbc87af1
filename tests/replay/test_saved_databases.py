"""Databases of earlier releases open, fold, and go on where they were cut off.

`part3.sql` was written out of a database of the release before events lay together in rows: a task that is done, and one
whose process was killed while its last call, which may be repeated, was made.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, tool
from replan.core.events import CallCompleted, TaskCompleted
from replan.store import schema
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(Path(__file__).with_name("part3.sql").read_text("utf-8"))
    return path


async def test_a_saved_task_is_resumed_to_the_same_outcome_and_repeats_no_effect(database: Path) -> None:
    called: list[Any] = []

    @tool(effect="once")
    async def book(seat: int) -> dict[str, Any]:
        """Book a seat."""
        called.append(seat)
        return {"seat": seat, "ticket": f"T{seat}"}

    @tool(effect="repeatable")
    async def send(ticket: str) -> str:
        """Send a ticket."""
        called.append(ticket)
        return f"sent {ticket}"

    async with Replan(tools=[book, send], db=database, evaluation="steps") as replan:
        done = await replan.wait("done")
        cut = await replan.resume("cut")

    assert (cut.status, cut.final_output) == (done.status, done.final_output) == ("succeeded", "sent T2")
    assert [(one.step_id, one.status, one.output) for one in cut.steps] == [
        (one.step_id, one.status, one.output) for one in done.steps
    ]
    assert called == ["T2"]


async def test_a_saved_log_reads_as_it_was_and_goes_on_without_a_gap(database: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as db:
        before = db.execute("SELECT seq, type FROM event WHERE task = 1 ORDER BY seq").fetchall()
    async with contextlib.aclosing(SqliteStore(database)) as store:
        done, cut = await store.read("done"), await store.read("cut")
        assert [(one.seq, one.type) for one in done] == before
        summary = await store.summary("done")
        assert (summary.status, summary.last_seq, summary.updated) == ("succeeded", len(done), done[-1].ts)
        claim = await store.claim("cut")
        more = (CallCompleted(call_key="k.1", step_id="d", tool_id="send", output=1), TaskCompleted())
        assert await store.append(claim, more, ts=9.0, round=1) == (len(cut) + 1, len(cut) + 2)
        assert [one.seq for one in await store.read("cut")] == list(range(1, len(cut) + 3))
        assert (await store.summary("cut")).status == "succeeded"


def test_an_old_database_and_a_new_one_have_the_same_tables(database: Path, tmp_path: Path) -> None:
    def tables(path: Path) -> list[Any]:
        with contextlib.closing(schema.connect(path)) as db:
            schema.prepare(db, path)
            kinds = db.execute(
                "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
            ).fetchall()
            columns = [
                (name, [row[1:4] for row in db.execute(f"PRAGMA table_info({name})")]) for _, name in kinds
            ]
            return sorted([*kinds, *columns])

    assert tables(database) == tables(tmp_path / "new.db")
