"""`tasks export --move` may be stopped at any moment: no task is driven in two stores, and none is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan as command

from replan import Replan, tool
from replan.config import Settings
from replan.core.events import CancelRequested, ForkMade, TaskForked
from replan.core.state.task import ENDED
from replan.errors import (
    InputError,
    StaleWriter,
    StoreError,
    TaskGivenAway,
    TaskGoneFrom,
    TaskNotFound,
    TaskShared,
)
from replan.wiring import open_store

pytestmark = pytest.mark.anyio

SENT: list[str] = []


@tool(effect="once", requires_approval=True)
def send(text: str) -> str:
    SENT.append(text)
    return f"sent {text}"


def opened(db: Any) -> Replan:
    return Replan(tools=[send], db=db, evaluation="steps", interactive=True)


async def waiting(db: Any, *task_ids: str) -> None:
    async with opened(db) as replan:
        for task_id in task_ids:
            plan = {"steps": [{"step_id": "a", "tool": "send", "parameters": {"text": task_id}}]}
            result = await replan.run("send it", plan=plan, task_id=task_id)
            assert result.status == "waiting"


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    if request.param == "sqlite":
        return tmp_path / "from.db", tmp_path / "to.db"
    new = request.getfixturevalue("new_postgres_schema")
    return new(), new()


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def given_away(db: Any, *task_ids: str) -> bytes:
    """What a process leaves behind that is killed once the file is whole: the file."""
    replan = opened(db)
    await replan.__aenter__()
    data = b""
    left = replan.export_tasks(task_ids, move=True)
    async for piece in await left.__aenter__():
        data += piece
    await replan.__aexit__(None, None, None)  # nothing more of it can be written
    KEPT.append(left)
    return data


KEPT: list[Any] = []
"""Contexts that nobody leaves."""


async def test_what_a_whole_file_has_is_driven_by_nobody_until_it_is_finished(
    databases: tuple[Any, Any],
) -> None:
    here, there = databases
    SENT.clear()
    await waiting(here, "one", "two")
    data = await given_away(here, "one", "two")
    async with opened(here) as replan:
        assert all(row.given_away and row.status == "waiting" for row in await replan.tasks())
        request = (await replan.result("one")).waiting_for[0].id
        for deed in (
            lambda: replan.resume("one"),
            lambda: replan.approve("one", request),
            lambda: replan.cancel("one"),
            lambda: replan.pause("one"),
            lambda: replan.fork("one", hint="again"),
        ):
            with pytest.raises(TaskGivenAway, match="--take-back"):
                await deed()
        with pytest.raises(InputError, match="cut off"):
            await replan.finish_export(["one", "two"], pieces(data[:-700]))
        assert len(await replan.tasks()) == 2
    async with opened(there) as replan:
        await replan.import_tasks(pieces(data))
        for task_id in ("one", "two"):
            await replan.approve(task_id, (await replan.result(task_id)).waiting_for[0].id)
            assert (await replan.resume(task_id)).status == "succeeded"
    async with opened(here) as replan:
        assert await replan.finish_export(["one", "two"], pieces(data)) == ["one", "two"]
        assert await replan.finish_export(["one", "two"], pieces(data)) == ["one", "two"]
        assert await replan.tasks() == []
        with pytest.raises(TaskNotFound):
            await replan.finish_export(["three"], pieces(data))
    assert SENT == ["one", "two"]


@pytest.mark.parametrize("said", ["yes", "no"])
async def test_what_a_person_has_said_before_it_goes_is_heard_where_it_comes_to(
    databases: tuple[Any, Any], said: str
) -> None:
    SENT.clear()
    await waiting(databases[0], "t")
    async with opened(databases[0]) as replan:
        (asked,) = (await replan.result("t")).waiting_for
        await (replan.approve if said == "yes" else replan.reject)("t", asked.id)
        async with replan.export_tasks(["t"], move=True) as given:
            data = b"".join([piece async for piece in given])
        with pytest.raises(TaskNotFound):
            await replan.summary("t")
    async with opened(databases[1]) as replan:
        (made,) = await replan.import_tasks(pieces(data))
        assert made.status == (await replan.summary("t")).status == "waiting"  # and answered, as it was
        result = await replan.resume("t")
        assert result.status in ENDED
    assert (["t"] if said == "yes" else []) == SENT


async def test_an_id_that_was_given_away_is_not_begun_anew_here(databases: tuple[Any, Any]) -> None:
    plan = {"steps": [{"step_id": "a", "tool": "send", "parameters": {"text": "t"}}]}
    await waiting(databases[0], "t")
    async with opened(databases[0]) as replan:
        async with replan.export_tasks(["t"], move=True) as given:
            data = b"".join([piece async for piece in given])
        for description in ("send it", "another"):
            with pytest.raises(TaskGoneFrom, match="where that was imported"):
                await replan.run(description, plan=plan, task_id="t")
        both = await asyncio.gather(
            *(replan.import_tasks(pieces(data), not_gone_on=True) for _ in range(2))
        )  # it comes back, whoever is faster
        assert [one.task_id for made in both for one in made] == ["t", "t"]
        assert (await replan.run("send it", plan=plan, task_id="t")).status == "waiting"  # the very one
        left = replan.export_tasks(["t"], move=True)
        assert b"".join([piece async for piece in await left.__aenter__()])
        gone = StoreError("the file could not be kept")
        assert not await left.__aexit__(StoreError, gone, None)  # whoever takes the pieces has not got them
        assert (await replan.run("send it", plan=plan, task_id="t")).status == "waiting"
        await replan.cancel("t")
        await replan.delete("t")
        assert (await replan.run("another", plan=plan, task_id="t")).status == "waiting"


async def test_what_stays_of_a_family_makes_no_fork_beside_the_one_that_was_given_away(
    databases: tuple[Any, Any],
) -> None:
    await waiting(databases[0], "t")
    async with opened(databases[0]) as replan:
        (asked,) = (await replan.result("t")).waiting_for
        at = (await replan.history("t"))[-1].seq
        await replan.approve("t", asked.id)
        assert (await replan.resume("t")).status == "succeeded"
        assert await replan.fork("t", at=at, fork_id="f") == "f"
    async with opened(databases[0]) as replan:  # nobody drives it any more
        async with replan.export_tasks(["f"], move=True) as given:
            data = b"".join([piece async for piece in given])
        with pytest.raises(InputError, match=r"'f', which shares its history, was given away"):
            await replan.fork("t", at=at, fork_id="g")
        with pytest.raises(TaskGoneFrom):
            await replan.fork("t", at=at, fork_id="f")
        await replan.import_tasks(pieces(data), not_gone_on=True)
        assert await replan.fork("t", at=at, fork_id="g") == "g"


async def test_what_could_be_imported_nowhere_is_given_to_no_file(tmp_path: Path) -> None:
    db = tmp_path / "from.db"
    await waiting(db, "t")
    with sqlite3.connect(db) as raw:
        raw.execute("UPDATE event SET data = replace(data, 'plan', 'plom') WHERE seq > 1")
    raw.close()
    made = command("tasks", "export", "t", "--move", "-o", "f.tar", "--db", "from.db", cwd=tmp_path)
    assert made.returncode != 0
    assert "the tasks are still here: no database would take in" in " ".join(made.stderr.split())
    assert not (tmp_path / "f.tar").exists()
    store = open_store(db, Settings())
    assert not (await store.summary("t")).given_away
    await store.release(await store.claim("t"))
    await store.aclose()


async def test_what_was_given_away_to_a_file_that_is_lost_comes_back(databases: tuple[Any, Any]) -> None:
    here, _ = databases
    SENT.clear()
    await waiting(here, "one", "two")
    data = await given_away(here, "one", "two")
    async with opened(here) as replan:
        assert sorted(await replan.take_back(["two", "one"])) == ["one", "two"]
        assert await replan.take_back(["two"]) == []
        await replan.approve("one", (await replan.result("one")).waiting_for[0].id)
        assert (await replan.resume("one")).status == "succeeded"
        with pytest.raises(InputError, match="was not given away to it"):
            await replan.finish_export(["two"], pieces(data))
        assert len(await replan.tasks()) == 2
    assert SENT == ["one"]


async def test_an_import_of_the_file_where_its_tasks_were_sets_none_of_them_free(
    databases: tuple[Any, Any],
) -> None:
    here, there = databases
    SENT.clear()
    await waiting(here, "one", "two")
    data = await given_away(here, "one", "two")
    async with opened(there) as replan:
        await replan.import_tasks(pieces(data))
        await replan.approve("one", (await replan.result("one")).waiting_for[0].id)
        assert (await replan.resume("one")).status == "succeeded"
        async with replan.export_tasks(["one", "two"], move=True) as given:
            later = b"".join([piece async for piece in given])
    async with opened(here) as replan:
        for _ in range(2):
            with pytest.raises(TaskGivenAway, match="--take-back"):
                await replan.import_tasks(pieces(data))
        with pytest.raises(InputError, match="another history"):
            await replan.import_tasks(pieces(later))
        assert all(row.given_away and row.status == "waiting" for row in await replan.tasks())
        with pytest.raises(TaskGivenAway):
            await replan.resume("one")
        assert await replan.finish_export(["one", "two"], pieces(data)) == ["one", "two"]
        assert [one.new for one in await replan.import_tasks(pieces(later))] == [True, True], "home again"
    assert SENT == ["one"]


async def test_a_move_is_finished_of_all_of_its_tasks_whichever_are_named(databases: tuple[Any, Any]) -> None:
    here, _ = databases
    await waiting(here, "tax", "tag", "stays")
    data = await given_away(here, "tax", "tag")
    async with opened(here) as replan:
        for other in ("t", "ta"):  # beginnings are for people
            with pytest.raises(TaskNotFound):
                await replan.finish_export([other], pieces(data))
        with pytest.raises(InputError, match="was not given away to it"):
            await replan.finish_export(["tax", "stays"], pieces(data))
        assert len(await replan.tasks()) == 3
        assert await replan.finish_export(["tag"], pieces(data)) == ["tax", "tag"]
        assert [row.task_id for row in await replan.tasks()] == ["stays"]


@pytest.mark.parametrize(
    "deed",
    [
        "UPDATE task SET epoch = epoch + 1, holder = 'older' WHERE task_id = 'one'",
        "INSERT INTO event SELECT id, 99, 9.0, 1, 'pause_requested', '{}' FROM task WHERE task_id = 'one'",
        "INSERT INTO task (task_id, request, status, description, created, parent) SELECT 'fork', 'r', 'queued', '', 9.0, id FROM task WHERE task_id = 'one'",
    ],
    ids=["claims it", "writes to it", "forks it"],
)
async def test_an_earlier_release_that_has_the_file_open_goes_on_with_nothing_that_was_given_away(
    tmp_path: Path, deed: str
) -> None:
    db = tmp_path / "log.db"
    await waiting(db, "one", "other")
    older = sqlite3.connect(db, isolation_level=None)  # knows no mark
    await given_away(db, "one")
    with pytest.raises(sqlite3.IntegrityError, match="given away"):
        older.execute(deed)
    older.execute(deed.replace("'one'", "'other'"))
    async with opened(db) as replan:
        await replan.take_back(["one"])
    older.execute(deed.replace("'fork'", "'fork2'"))
    older.close()


async def test_a_command_that_finishes_a_move_names_its_tasks_as_people_do(tmp_path: Path) -> None:
    db, file = tmp_path / "log.db", tmp_path / "tasks.tar"
    await waiting(db, "task_one1", "task_one2", "task_two")
    file.write_bytes(await given_away(db, "task_one1", "task_one2"))
    for name, why in (
        ("one1", ""),
        ("on", "too short"),
        ("three", "'three'"),
        ("two", "is there already"),
    ):
        done = await asyncio.to_thread(export, db, file, name)
        if why:
            assert done.returncode == 2
            assert why in done.stderr, done.stderr
        else:
            assert "2 tasks" in done.stderr, done.stderr
    assert [line.split()[0] for line in tasks(db, "list").stdout.splitlines()] == ["task_two"]
    again = await asyncio.to_thread(export, db, file, "one2", "task_one1")
    assert (again.returncode, "2 tasks" in again.stderr) == (0, True), again.stderr
    assert "several" in (await asyncio.to_thread(export, db, file, "task_one")).stderr


@pytest.mark.parametrize("then", ["delivered", "forgotten"])
async def test_what_a_consumer_of_the_log_has_not_got_is_not_given_away_before(
    databases: tuple[Any, Any], then: str
) -> None:
    here, _ = databases
    await waiting(here, "early")
    async with opened(here) as replan:
        outbox = replan.service.parts.store.outbox()
        await outbox.register("late", from_now=True)
        await outbox.register("audit")
        reading = await outbox.take("audit")
        assert reading is not None

        async def deliver() -> int:
            count = 0
            while (batch := await outbox.next(reading)).records:
                count += len(batch.records)
                await outbox.delivered(reading, batch)
            return count

        async def move(*task_ids: str) -> None:
            async with replan.export_tasks(task_ids, move=True) as given:
                async for _ in given:
                    pass

        with pytest.raises(InputError, match="'audit' of the log has not got all of task 'early'"):
            await move("early")
        assert await deliver()
        await move("early")
        plan = {"steps": [{"step_id": "a", "tool": "send", "parameters": {"text": "x"}}]}
        await replan.run("send it", plan=plan, task_id="later")
        with pytest.raises(InputError, match="has not got all of task 'later'"):
            await move("later")
        assert [(row.task_id, row.held, row.given_away) for row in await replan.tasks()] == [
            ("later", False, "")
        ]
        if then == "delivered":
            assert await deliver()
        else:
            await outbox.forget("audit")
        await outbox.forget("late")
        await move("later")
        assert await replan.tasks() == []


async def test_another_name_of_the_file_that_a_killed_command_left_is_removed(tmp_path: Path) -> None:
    db, file = tmp_path / "log.db", tmp_path / "tasks.tar"
    await waiting(db, "one")
    file.write_bytes(await given_away(db, "one"))
    left, other = tmp_path / ".replan-0123456789abcdef.part", tmp_path / ".replan-fedcba9876543210.part"
    os.link(file, left)
    other.write_bytes(b"of another command")
    assert (await asyncio.to_thread(export, db, file, "one")).returncode == 0
    assert (file.exists(), left.exists(), other.exists()) == (True, False, True)


async def test_what_a_fork_rests_on_and_stays_is_not_said_to_be_gone(tmp_path: Path) -> None:
    db = tmp_path / "log.db"
    await waiting(db, "one")
    async with opened(db) as replan:
        await replan.cancel("one")
        await replan.fork("one", at=3, fork_id="two")
        assert (await replan.wait("two")).status == "waiting"
    data = await given_away(db, "two")
    async with opened(db) as replan:
        for _ in range(2):
            assert await replan.finish_export(["two"], pieces(data)) == ["two"]
        assert [row.task_id for row in await replan.tasks()] == ["one"]


async def test_of_a_file_with_a_task_that_was_given_away_here_no_other_is_taken_in(
    databases: tuple[Any, Any],
) -> None:
    here, there = databases
    await waiting(here, "one")
    await waiting(there, "new")
    data = await given_away(here, "one")
    async with opened(there) as replan:
        await replan.import_tasks(pieces(data))
        async with replan.export_tasks(["new", "one"], move=True) as given:
            both = b"".join([piece async for piece in given])
    async with opened(here) as replan:
        with pytest.raises(TaskGivenAway, match="'one'"):
            await replan.import_tasks(pieces(both))
        assert [row.task_id for row in await replan.tasks()] == ["one"]


async def test_who_does_not_take_all_of_the_file_gives_nothing_away(databases: tuple[Any, Any]) -> None:
    here, _ = databases
    await waiting(here, "one")
    async with opened(here) as replan:

        async def taken(*, all_of_it: bool) -> None:
            async with replan.export_tasks(["one"], move=True) as given:
                async for piece in given:
                    if b"end.json" in piece and not all_of_it:
                        return
                raise OSError("the disk is full")

        with pytest.raises(InputError, match="still here"):
            await taken(all_of_it=False)
        with pytest.raises(OSError, match="full"):
            await taken(all_of_it=True)
        assert not (await replan.tasks())[0].given_away
        await replan.cancel("one")  # it goes on here


async def test_the_marks_are_set_and_taken_by_all_or_none(databases: tuple[Any, Any]) -> None:
    here, _ = databases
    await waiting(here, "one", "two", "three")
    store = open_store(here, Settings())
    one, two = await store.claim("one"), await store.claim("two")
    last = {name: (await store.summary(name)).last_seq for name in ("one", "two", "three")}
    await store.signal("two", CancelRequested(reason="no"), 5.0)
    with pytest.raises(StaleWriter):
        await store.give_away({one: last["one"], two: last["two"]}, "d" * 64)
    assert not [row for row in await store.list_tasks() if row.given_away]
    three = await store.claim("three")
    await store.fork(
        "fork", TaskForked(origin="three", at=2, root="three", hint="x"), ForkMade(fork="fork", at=2), 6.0
    )
    with pytest.raises((TaskShared, StaleWriter)):
        await store.give_away({one: last["one"], three: last["three"] + 1}, "d" * 64)
    await store.give_away({one: last["one"]}, "d" * 64)
    with pytest.raises(StaleWriter, match="taken back"):
        await store.remove_given(["one", "two"], "d" * 64)
    assert len(await store.list_tasks()) == 4
    for claim in (two, three):
        await store.release(claim)
    await store.aclose()


def tasks(db: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command("tasks", *words, "--db", str(db), cwd=db.parent)


def export(db: Path, file: Path, *task_ids: str) -> subprocess.CompletedProcess[str]:
    return tasks(db, "export", *task_ids, "--move", "-o", str(file))


def stopped_at(at: int, how: str, db: Path, file: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """Give away, and be stopped by this signal at that call or return of what writes."""
    given = ["tasks", "export", *names, "--move", "-o", str(file), "--db", str(db)]
    command = [sys.executable, "-c", STOPPED, str(at), how, *given]
    return subprocess.run(command, capture_output=True, text=True, check=False)


STOPPED = """
import os, signal, sys, threading

at, how = int(sys.argv.pop(1)), getattr(signal, sys.argv.pop(1))
seen = 0
WRITES = ("store/moving.py", "store/writer.py", "store/new_file.py", "transfer/outgoing.py")
DOES = ("_claimed", "_commit", "mark", "give_away", "safe", "place", "whole", "remove", "remove_given", "_json")  # all else is reading


def look(frame, event, argument):
    global seen
    code = frame.f_code.co_filename.replace(os.sep, "/")
    if event in ("call", "return") and code.endswith(WRITES) and frame.f_code.co_name in DOES:
        seen += 1
        if seen == at:
            os.kill(os.getpid(), how)


threading.setprofile(look)
sys.setprofile(look)
from replan.cli import main

main()
"""
CALLS = 40
"""Somewhat more than there are."""


async def come_through(tmp_path: Path, at: int, how: str = "SIGKILL") -> subprocess.CompletedProcess[str]:
    """What became of it, after which all is well."""
    db, file, names = tmp_path / "from.db", tmp_path / "tasks.tar", ["task1", "task2", "task3"]
    await waiting(db, *names)
    ended = await asyncio.to_thread(stopped_at, at, how, db, file, *names)
    async with opened(db) as replan:
        left = {row.task_id: bool(row.given_away) for row in await replan.tasks()}
    assert len(left) in (0, 3), "all of them are removed at once"
    assert len(set(left.values())) <= 1, "all of them are marked at once"
    if file.exists():
        assert all(left.values()), "what is in a file that may be imported is driven by nobody here"
    else:
        assert len(left) == 3
    done = await asyncio.to_thread(export, db, file, *names)
    assert done.returncode == 0, done.stderr
    assert "gone from here" in done.stderr + done.stdout
    async with opened(db) as replan:
        assert await replan.tasks() == []
    async with opened(tmp_path / "to.db") as replan:
        found = await replan.import_tasks(pieces(file.read_bytes()))
        assert [one.status for one in found] == ["waiting"] * 3
    return ended


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
@pytest.mark.parametrize("at", [16])
async def test_killed_at_any_moment_the_same_command_finishes_the_job(tmp_path: Path, at: int) -> None:
    assert (await come_through(tmp_path, at)).returncode == -signal.SIGKILL


@pytest.mark.prove
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT", "SIGTERM"])
@pytest.mark.parametrize("at", range(1, CALLS))
async def test_stopped_at_every_write_the_same_command_finishes_the_job(
    tmp_path: Path, at: int, how: str
) -> None:
    ended = await come_through(tmp_path, at, how)
    assert "Traceback" not in ended.stderr
    assert ended.returncode or at > 30, "there are so many"


def test_no_file_is_written_over_and_nothing_is_given_to_what_is_none(tmp_path: Path) -> None:
    db, file = tmp_path / "from.db", tmp_path / "tasks.tar"
    asyncio.run(waiting(db, "one", "two"))
    assert export(db, file, "one").returncode == 0
    before = file.read_bytes()
    for name, *more in (
        ("two", "--move"),
        ("two", "--move", "--force"),
        ("one",),
    ):
        done = tasks(db, "export", name, *more, "-o", str(file))
        assert done.returncode == 2, done.stderr
        assert file.read_bytes() == before
    fifo, link = tmp_path / "fifo", tmp_path / "link.tar"
    os.mkfifo(fifo)
    link.symlink_to(file)
    for place, why in (
        (fifo, "keeps nothing"),
        (Path(os.devnull), "keeps nothing"),
        (link, "is there already"),
    ):
        done = tasks(db, "export", "two", "--move", "-o", str(place))
        assert done.returncode == 2
        assert why in done.stderr
    assert Path(os.devnull).is_char_device()
    done = tasks(db, "show", "two")
    assert done.returncode == 0
    assert "given away" not in done.stdout
    assert tasks(db, "cancel", "two").returncode == 0
    assert tasks(db, "export", "two", "-o", str(file), "--force").returncode == 0
    assert file.read_bytes() != before


async def test_what_was_given_away_is_shown_so(tmp_path: Path) -> None:
    db = tmp_path / "log.db"
    await waiting(db, "one")
    data = await given_away(db, "one")
    (tmp_path / "tasks.tar").write_bytes(data)

    def said(*words: str) -> str:
        done = tasks(db, *words)
        return done.stdout + done.stderr

    assert "(given away to a file)" in said("list")
    assert "--take-back" in said("show", "one")
    assert '"given_away": "' in said("show", "one", "--json")
    assert "--take-back" in said("resume", "one")
    doctor = command("doctor", "--db", str(db), cwd=tmp_path)
    assert "given away to a file that was exported" in doctor.stdout + doctor.stderr
    (tmp_path / "other.tar").write_bytes(data[:-1024])
    assert "cut off" in said("export", "one", "--move", "-o", str(tmp_path / "other.tar"))
    assert "one is here again" in said("export", "one", "--take-back")
    assert "was not given away" in said("export", "one", "--take-back")
    assert "is there already" in said("export", "one", "--move", "-o", str(tmp_path / "tasks.tar"))


async def test_what_stands_behind_the_end_of_a_file_is_not_passed_over(tmp_path: Path) -> None:
    await waiting(tmp_path / "from.db", "one", "two")
    async with opened(tmp_path / "from.db") as replan:
        files = []
        for task_id in ("one", "two"):
            async with replan.export_tasks([task_id], move=True) as given:
                files.append(b"".join([piece async for piece in given]))
    async with opened(tmp_path / "to.db") as replan:
        for rest in (files[1], b"x", b"\0" * 700 + b"x"):
            with pytest.raises(InputError, match="behind its end"):
                await replan.import_tasks(pieces(files[0] + rest))
        assert await replan.tasks() == []
        with pytest.raises(InputError, match="cut off"):
            await replan.import_tasks(pieces(files[0][:-1]))
        assert len(await replan.import_tasks(pieces(files[0] + b"\0" * 9216))) == 1  # padding of a tape


@pytest.mark.parametrize(("name", "at"), [("SIGINT", 7), ("SIGINT", 23), ("SIGTERM", 14)])
async def test_a_command_that_is_told_to_stop_says_what_has_become_of_the_tasks(
    tmp_path: Path, name: str, at: int
) -> None:
    db, file = tmp_path / "from.db", tmp_path / "tasks.tar"
    await waiting(db, "one", "two")

    told = stopped_at(at, name, db, file, "one", "two")

    assert "Traceback" not in told.stderr
    assert "Warning" not in told.stderr
    listed = tasks(db, "list").stdout
    left, marked = len(listed.splitlines()), listed.count("given away")
    if told.returncode == 0:
        assert (left, file.exists(), "gone from here" in told.stderr) == (0, True, True)
        return
    assert told.returncode == 130, told.stderr
    if file.exists():
        assert "is whole; the same command once more" in told.stderr
        assert marked == left
    else:
        assert "the tasks are still here" in told.stderr
        assert (left, marked) == (2, 0)
    assert export(db, file, "one", "two").returncode == 0
    assert tasks(db, "list").stdout == ""
