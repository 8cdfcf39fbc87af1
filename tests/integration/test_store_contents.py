"""Large outputs when something goes wrong: a process killed in the middle, a byte that was changed, a disk that is full."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from postgres_server import sql_at
from replan.core.events import StepReady, TaskSubmitted
from replan.errors import StoreDamaged
from replan.ports import NewArtifact
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

KILLED = """
import asyncio, sys
from pathlib import Path
from replan.wiring import open_store
from replan.config import Settings

async def endless():
    n = 0
    while True:
        yield b"x" * (1 << 20)
        n += 1
        if n == 4:
            print("on", flush=True)
            await asyncio.Event().wait()

async def main():
    await open_store(sys.argv[1], Settings()).keep(endless())

asyncio.run(main())
"""
FULL = """
import asyncio, resource, signal, sys
from pathlib import Path
from replan.store.sqlite import SqliteStore
from replan.errors import StoreFull
from replan.core.events import TaskSubmitted

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (6_000_000, 6_000_000))

async def much():
    for _ in range(20):
        yield b"x" * (1 << 20)

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    try:
        await store.keep(much())
    except StoreFull as error:
        print(error)
    await store.aclose()

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgres"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[str, Callable[[], Any], Callable[[str], list[Any]]]:
    """Where the store is, how it is opened, and how to get at its tables."""
    if request.param == "sqlite":
        path = tmp_path / "log.db"

        def ask(sql: str) -> list[Any]:
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                return [row[0] for row in db.execute(sql.replace("OLD", "1.0")).fetchall()]

        return str(path), lambda: SqliteStore(path), ask
    address: str = request.getfixturevalue("postgres_schema")

    def ask_server(sql: str) -> list[Any]:
        old = sql.replace("OLD", "now() - interval '2 hours'")
        return [int(line) for line in sql_at(address, old).split()]

    return address, lambda: PostgresStore(address), ask_server


def killed_in_the_middle(address: str) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, address], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"on\n"
        child.kill()


async def test_what_a_killed_process_has_left_is_swept_once_nobody_can_want_it(place: Any) -> None:
    address, opened, ask = place
    killed_in_the_middle(address)
    store = opened()
    before = ask("SELECT count(*) FROM artifact_piece")[0]
    assert before >= 3
    assert await store.sweep() == 0, "it may still be written"

    ask("UPDATE artifact SET touched = OLD")
    assert await store.sweep() == 1
    assert ask("SELECT count(*) FROM artifact_piece") == [0]
    await store.aclose()


async def test_a_byte_that_was_changed_is_told_in_whatever_way_it_is_read(place: Any) -> None:
    _, opened, ask = place
    store = opened()
    await store.create("t", TaskSubmitted(description="t"), 1.0)
    claim = await store.claim("t")
    artifacts = [NewArtifact("a", b"x" * 3_000_000), NewArtifact("b", b"y")]
    await store.append(claim, [StepReady(step_id="s")], ts=2.0, round=1, artifacts=artifacts)
    changed = "CAST('z' AS BLOB)" if isinstance(store, SqliteStore) else "'z'::bytea"
    ask(f"UPDATE artifact_piece SET data = {changed} WHERE n = 1")

    with pytest.raises(StoreDamaged, match="artifact a is not what was stored"):
        await store.artifact("t", "a")
    with pytest.raises(StoreDamaged, match="artifact a is not what was stored"):
        async for _ in store.pieces("t", "a"):
            pass
    assert await store.artifact("t", "b") == b"y"
    await store.aclose()


def test_a_full_disk_is_told_as_one_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False
    )
    assert "cannot grow" in done.stdout, done.stderr
    assert "free some space" in done.stdout
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM artifact_use").fetchone() == (0,)
