"""Backups as docs/how-to/keep.md has them, taken while somebody works: what was restored can be read, and goes on."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from postgres_server import PostgresServer
from replan import File, Replan, tool

pytestmark = pytest.mark.anyio


@tool(effect="reads")
async def read(n: int) -> File:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            await asyncio.sleep(0)
            yield bytes([n % 256]) * 100_000

    return File(pieces())


@tool(effect="reads")
def size(file: File) -> int:
    return sum(map(len, file))


def plan(n: int) -> dict[str, Any]:
    return {
        "steps": [
            {"step_id": "a", "tool": "read", "parameters": {"n": n}},
            {"step_id": "b", "tool": "size", "parameters": {"file": "${a}"}, "dependencies": ["a"]},
        ]
    }


def opened(db: Any) -> Replan:
    return Replan(tools=[read, size], db=db, evaluation="steps")


async def worked(replan: Replan, first: int, count: int) -> None:
    for n in range(first, first + count):
        await replan.run(f"task {n}", plan=plan(n), task_id=f"t{n}")


async def checked(db: Any) -> int:
    """How many tasks of it ended; each is read whole, and goes on if it has not."""
    async with opened(db) as replan:
        ended = 0
        for row in await replan.tasks():
            if row.status != "succeeded":
                assert (await replan.resume(row.task_id)).status == "succeeded"
                continue
            ended += 1
            assert (await replan.result(row.task_id)).final_output == 400_000
            assert sum([len(piece) async for piece in replan.output_pieces(row.task_id, "a")]) == 400_000
        return ended


async def test_a_sqlite_file_is_backed_up_while_tasks_run(tmp_path: Path) -> None:
    def back_up() -> None:
        with (
            closing(sqlite3.connect(tmp_path / "log.db")) as db,
            closing(sqlite3.connect(tmp_path / "backup.db")) as to,
        ):
            db.backup(to)

    async with opened(tmp_path / "log.db") as replan:
        await worked(replan, 0, 3)
        working = asyncio.create_task(worked(replan, 3, 3))
        await asyncio.to_thread(back_up)
        await working
    assert await checked(tmp_path / "backup.db") >= 3
    assert await checked(tmp_path / "log.db") == 6


async def test_a_postgresql_database_is_dumped_while_tasks_run_and_restored(
    postgres_database: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    def dumped(*command: str) -> None:
        name, *given = command
        subprocess.run([str(postgres_server.program(name)), *given], check=True, capture_output=True)

    dump = str(tmp_path / "backup.dump")
    async with opened(postgres_database) as replan:
        await worked(replan, 0, 3)
        working = asyncio.create_task(worked(replan, 3, 3))
        await asyncio.to_thread(dumped, "pg_dump", "--format=custom", f"--file={dump}", postgres_database)
        await working
        assert len(await replan.tasks()) == 6
    restore = ("--clean", "--if-exists", "--no-owner", f"--dbname={postgres_database}", dump)
    await asyncio.to_thread(dumped, "pg_restore", *restore)
    assert await checked(postgres_database) >= 3
