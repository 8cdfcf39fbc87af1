"""What an import refuses beside what is damaged: times that are none, secrets in clear, pieces that are no bytes."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan as command

from replan import Replan, tool
from replan.errors import InputError, StoreUnusable, TaskNotFound
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


@tool(effect="reads")
def look() -> str:
    return "seen"


def opened(db: Path) -> Replan:
    return Replan(tools=[look], db=db, evaluation="steps")


async def exported(db: Path) -> bytes:
    async with opened(db) as replan:
        plan = {"steps": [{"step_id": "a", "tool": "look", "parameters": {}}]}
        await replan.run("look", plan=plan, task_id="t")
        async with replan.export_tasks(["t"]) as given:
            return b"".join([piece async for piece in given])


def changed(data: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """The export in which one file is another one, and the end says so."""
    made, files = io.BytesIO(), []
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            read = tar.extractfile(member)
            assert read is not None
            files.append((member.name, read.read()))
    for at, (each, content) in enumerate(files):
        if each == name:
            content = change(content)
        if each == "end.json":
            content = json.dumps(
                {"files": at, "sha256": hashlib.sha256(made.getvalue()).hexdigest()}
            ).encode()
        info = tarfile.TarInfo(each)
        info.size = len(content)
        made.write(info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512))
    return made.getvalue() + bytes(1024)


async def pieces(data: Any) -> AsyncIterator[Any]:
    yield data


def of_manifest(**more: Any) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        manifest = json.loads(data)
        manifest["tasks"][0] |= more
        return json.dumps(manifest).encode()

    return change


def of_row(at: int, change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        rows = [json.loads(line) for line in data.splitlines()]
        change(rows[at])
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    return changed


def has_secrets(row: dict[str, Any]) -> None:
    row["data"]["metadata"] = {"api_key": "sk-live-0123456789abcdef0123456789"}


LOG = "tasks/1/log-1.jsonl"


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        pytest.param(
            "manifest.json", of_manifest(created=1e308), "created", id="created beyond every calendar"
        ),
        pytest.param("manifest.json", of_manifest(created=1e15), "created", id="created in a far year"),
        pytest.param("manifest.json", of_manifest(created=-1e15), "created", id="created long before"),
        pytest.param(
            LOG, of_row(1, lambda row: row.update(ts=1e15)), "a time or a round", id="an event in a far year"
        ),
        pytest.param(LOG, of_row(0, has_secrets), "secrets in clear", id="secrets in clear"),
        pytest.param(
            LOG,
            of_row(1, lambda row: row.update(type="+", data=[["+", [["round_started", {"round": 1}]]]])),
            "cannot be read|makes no sense|no kind of event|gap",
            id="a row in a row",
        ),
    ],
)
async def test_what_is_odd_is_refused_in_short(tmp_path: Path, name: str, change: Any, why: str) -> None:
    data = changed(await exported(tmp_path / "from.db"), name, change)
    async with opened(tmp_path / "to.db") as replan:
        with pytest.raises(InputError, match=why) as raised:
            await replan.import_tasks(pieces(data))
        assert "pydantic" not in str(raised.value)
        assert "http" not in str(raised.value)
        assert await replan.tasks() == []


async def test_pieces_that_are_no_bytes_are_refused(tmp_path: Path) -> None:
    data = await exported(tmp_path / "from.db")
    async with opened(tmp_path / "to.db") as replan:
        for given in (iter([data]), [data], data, None):
            with pytest.raises(InputError, match="expected an async iterator of bytes"):
                await replan.import_tasks(given)  # type: ignore[arg-type]
        for piece in (data.decode("latin-1"), 7, None):
            with pytest.raises(InputError, match="not as bytes"):
                await replan.import_tasks(pieces(piece))
        assert len(await replan.import_tasks(pieces(memoryview(data)))) == 1


async def test_a_task_that_was_removed_just_now_is_not_found(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db") as replan:
        for _ in range(3):
            await exported(tmp_path / "log.db")
            await replan.delete("t")
            for asked in (
                replan.output("t", "a"),
                replan.history("t"),
                replan.result("t"),
                replan.summary("t"),
            ):
                with pytest.raises(TaskNotFound):
                    await asked


def damage(db: Path) -> None:
    """Spoil the page that the first table's or index's rows begin on, in a file that still opens."""
    with closing(sqlite3.connect(db)) as base:
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = base.execute("PRAGMA page_size").fetchone()[0]
        roots = dict(base.execute("SELECT name, rootpage FROM sqlite_schema").fetchall())
    with db.open("r+b") as file:
        for name in ("signal", "task", "event"):
            file.seek((roots[name] - 1) * size)
            file.write(b"\xff" * size)


async def test_a_damaged_file_is_told_as_damaged_by_every_command(tmp_path: Path) -> None:
    db = tmp_path / "log.db"
    await exported(db)
    damage(db)
    with pytest.raises(StoreUnusable, match="restore it from a backup"):
        SqliteStore(db)
    for words in (["tasks", "list"], ["tasks", "show", "t"], ["outbox", "list"]):
        done = command(*words, "--db", str(db), cwd=tmp_path)
        assert done.returncode != 0
        assert "damaged" in done.stderr
        assert "fault of Replan" not in done.stderr
