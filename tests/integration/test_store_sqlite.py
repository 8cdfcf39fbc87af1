"""What can go wrong with a database file: locked, full, foreign, newer, read-only, shared."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from replan import Replan, tool
from replan.cli.commands.tool_stats import rows_of, table
from replan.config import Settings
from replan.core.events import (
    CancelRequested,
    StepReady,
    TaskCompleted,
    TaskStarted,
    TaskSubmitted,
)
from replan.core.tools.stats import ToolKey, ToolStats
from replan.errors import StaleWriter, StoreBusy, StoreError, StoreUnusable, TaskHeld
from replan.store import schema
from replan.store.holders import Holders
from replan.store.sqlite import SqliteStore
from replan.store.writer import Writer
from replan.wiring import open_store

pytestmark = pytest.mark.anyio

SECS = 20.0
EVENT = TaskSubmitted(description="do it")
PROCESS = Path(__file__).with_name("store_process.py")


@contextlib.contextmanager
def process(*args: object) -> Iterator[subprocess.Popen[str]]:
    """Another process with the store; it says what it did in lines of JSON and ends with its input."""
    child = subprocess.Popen(
        [sys.executable, str(PROCESS), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def said(child: subprocess.Popen[str]) -> object:
    assert child.stdout is not None
    return json.loads(child.stdout.readline())


# ── locked ──


async def test_what_is_only_good_to_know_is_not_waited_for_long(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db", busy_secs=600.0)
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy):
            await store.remember_tools({"kit": ["a"]})
        with pytest.raises(StoreBusy):
            await store.add_tool_stats({ToolKey("kit", "a"): ToolStats()})
        waiting = asyncio.ensure_future(store.create("t", EVENT, 1.0))
        late = asyncio.ensure_future(store.remember_tools({"kit": ["a"]}))
        done, _ = await asyncio.wait({waiting, late}, timeout=0.1)
        assert not done
    assert await waiting
    await late
    await store.aclose()


async def test_what_is_to_be_written_waits_for_another_process_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    await store.create("t", EVENT, 1.0)
    claim = await store.claim("t")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    waiting = store.append(claim, [TaskStarted()], ts=2.0, round=1)
    while not caplog.messages:
        assert not waiting.done()
        await asyncio.wait({waiting}, timeout=0.05)
    assert caplog.messages == [f"the database {path} is locked by another process; waiting for it"]
    other.execute("ROLLBACK")
    other.close()
    assert await waiting == (2, 2)
    await store.aclose()


@pytest.mark.parametrize("then", ["deleted", "replaced", "moved"])
async def test_no_task_ends_in_a_database_that_is_not_there_any_more(tmp_path: Path, then: str) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    await store.create("t", EVENT, 1.0)
    claim = await store.claim("t")
    await store.append(claim, [TaskStarted()], ts=2.0, round=1)
    if then == "moved":
        path.rename(tmp_path / "other.db")
    else:
        path.unlink()
        if then == "replaced":
            path.touch()
    with pytest.raises(StoreUnusable, match="deleted or replaced"):
        await store.append(claim, [TaskCompleted()], ts=3.0, round=1)
    await store.aclose()


async def test_no_effect_is_begun_where_the_database_is_not_there_any_more(tmp_path: Path) -> None:
    path, paid = tmp_path / "log.db", list[str]()

    @tool(effect="reads")
    def look(at: str) -> str:
        if at == "gone":
            path.unlink()
        return at

    @tool(effect="once")
    def pay(text: str) -> str:
        paid.append(text)
        return text

    def step(step_id: str, name: str, *needs: str, **given: str) -> dict[str, object]:
        return {"step_id": step_id, "tool": name, "parameters": given, "dependencies": list(needs)}

    steps = [
        step("a", "look", at="here"),
        step("b", "pay", "a", text="first"),
        step("c", "look", "b", at="gone"),
        step("d", "pay", "c", text="second"),
    ]
    async with Replan(tools=[look, pay], db=path, evaluation="steps") as replan:
        with pytest.raises(StoreUnusable, match="deleted or replaced"):
            await replan.run("pay", plan={"steps": steps})
    assert paid == ["first"]


async def test_a_locked_database_is_busy_after_the_wait_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path, busy_secs=0.05)
    await store.create("t", EVENT, 1.0)
    claim = await store.claim("t")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    appends = [store.append(claim, [StepReady(step_id=f"s{n}")], ts=2.0, round=1) for n in range(3)]
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    with pytest.raises(StoreBusy, match="locked by another process"):
        await store.signal("t", CancelRequested(), 2.0)
    assert len(await store.read("t")) == 1  # reading goes on
    other.execute("ROLLBACK")
    other.close()

    assert [type(outcome) for outcome in outcomes] == [StoreBusy] * 3
    await store.release(claim)
    again = await store.claim("t")
    assert await store.append(again, [TaskStarted()], ts=3.0, round=1) == (2, 2)
    await store.aclose()


async def test_a_database_that_is_free_within_the_wait_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    await store.create("t", EVENT, 1.0)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    freeing = threading.Timer(0.1, other.execute, ["ROLLBACK"])
    freeing.start()

    record = await store.signal("t", CancelRequested(), 2.0)

    assert record.seq == 2
    freeing.join()
    other.close()
    await store.aclose()


async def test_a_task_whose_release_could_not_be_written_can_be_claimed_here_again(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path, busy_secs=0.05)
    await store.create("t", EVENT, 1.0)
    claim = await store.claim("t")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        await store.release(claim)
    other.execute("ROLLBACK")
    other.close()

    again = await store.claim("t")

    assert again.fence > claim.fence
    await store.aclose()


# ── full ──


async def test_a_full_disk_stops_the_writing_keeps_what_was_written_and_lets_it_go_on_later(
    tmp_path: Path,
) -> None:
    with process("full", tmp_path / "log.db") as child:
        told = said(child)
        assert child.wait(SECS) == 0

    assert told == {
        "error": "StoreFull",
        "says": True,
        "after": "StoreFull",
        "read": True,
        "gap_free": True,
        "again": True,
    }
    store = SqliteStore(tmp_path / "log.db")
    records = await store.read("t")
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert isinstance(records[-1].event, TaskCompleted)
    await store.aclose()


# ── no database, or not ours ──


def foreign(path: Path, version: int) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE customers (name TEXT)")
        db.execute(f"PRAGMA user_version = {version}")


def newer(path: Path) -> None:
    with contextlib.closing(schema.connect(path)) as db:
        schema.prepare(db, path)
        db.execute("PRAGMA user_version = 9999")
        db.execute("PRAGMA journal_mode = DELETE")


def damaged(path: Path) -> None:
    with contextlib.closing(schema.connect(path)) as db:
        schema.prepare(db, path)
        db.execute("PRAGMA journal_mode = DELETE")
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 5000)


MAKE = {
    "text": lambda path: path.write_text("not a database at all, but long enough to be looked at " * 20),
    "foreign": lambda path: foreign(path, 0),
    "foreign with a version": lambda path: foreign(path, 1),
    "foreign with a high version": lambda path: foreign(path, 77),
    "newer": newer,
    "damaged": damaged,
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param("text", "no usable SQLite database", id="a text file"),
        pytest.param("foreign", "a database of something else", id="another program's database"),
        pytest.param(
            "foreign with a version", "a database of something else", id="another's with our version"
        ),
        pytest.param(
            "foreign with a high version", "a database of something else", id="another's, versioned"
        ),
        pytest.param("newer", "newer Replan .schema 9999, this one knows", id="a newer release's"),
        pytest.param("damaged", "is damaged .*restore it from a backup", id="a damaged one"),
        pytest.param("folder", "check that it is a file", id="a folder"),
    ],
)
def test_what_is_no_database_of_ours_is_refused_in_words_and_left_as_it_is(
    tmp_path: Path, kind: str, text: str
) -> None:
    path = tmp_path / "log.db"
    MAKE[kind](path)
    before = None if path.is_dir() else path.read_bytes()

    with pytest.raises(StoreUnusable, match=text) as caught:
        SqliteStore(path)

    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 2
    assert before is None or path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["log.db"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreUnusable, match=r"folder .*file/sub cannot be made"):
        SqliteStore(tmp_path / "file" / "sub" / "log.db")


@pytest.mark.parametrize("named", [":memory:", "sqlite:///:memory:", "sqlite://:memory:"])
def test_a_database_in_memory_is_refused(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreUnusable, match="cannot be resumed"):
        open_store(named, Settings())
    assert not list(tmp_path.iterdir()), "nor is it a file of that name"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
@pytest.mark.parametrize(
    ("what", "mode", "text"),
    [
        pytest.param("log.db", 0o444, "read-only", id="a read-only file"),
        pytest.param(
            ".",
            0o555,
            "has to be writable|cannot be opened|in a folder that is read-only",
            id="a read-only folder",
        ),
    ],
)
@pytest.mark.parametrize("exists", [True, False], ids=["existing", "new"])
def test_a_database_that_cannot_be_written_is_refused(what: str, mode: int, text: str, exists: bool) -> None:
    if not exists and what != ".":
        pytest.skip("there is no file yet")
    with tempfile.TemporaryDirectory() as name:  # not tmp_path: nobody but its owner may enter that
        folder = Path(name)
        folder.chmod(0o777)
        if exists:
            with contextlib.closing(schema.connect(folder / "log.db")) as db:
                schema.prepare(db, folder / "log.db")
        if exists:
            (folder / "log.db").chmod(0o666)
        (folder / what).chmod(mode)
        with process("open-unprivileged", folder / "log.db") as child:
            told = said(child)

    assert isinstance(told, dict)
    assert told["error"] == "StoreUnusable"
    assert any(part in told["text"] for part in text.split("|"))
    assert "log.db" in told["text"]


# ── migrations ──


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with contextlib.closing(schema.connect(path)) as db:
        schema.prepare(db, path)
        before = db.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall()
        later = [*schema.migrations(), (7777, "CREATE TABLE more (x);\nINSERT INTO nowhere VALUES (1);\n")]

        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            schema.prepare(db, path, steps=later)

        assert db.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall() == before
        assert db.execute("PRAGMA user_version").fetchone() == (schema.migrations()[-1][0],)
        schema.prepare(db, path)  # and it still opens


def test_migrations_are_applied_in_order_each_once(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    steps = [
        *schema.migrations(),
        (7001, "CREATE TABLE more (x);\n"),
        (7002, "ALTER TABLE more ADD COLUMN y;\n"),
    ]
    with contextlib.closing(schema.connect(path)) as db:
        schema.prepare(db, path)
        for _ in range(2):
            schema.prepare(db, path, steps=steps)

        assert [row[1] for row in db.execute("PRAGMA table_info(more)")] == ["x", "y"]
        assert db.execute("PRAGMA user_version").fetchone() == (7002,)


def test_many_open_a_fresh_database_at_the_same_moment(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(process("open", path)) for _ in range(4)]
        assert [said(child) for child in children] == ["ready"] * 4
        for child in children:  # all are up: now they open it together
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        assert [said(child) for child in children] == ["open"] * 4
        assert len(list((tmp_path / "log.db.holders").iterdir())) == 4


def test_many_threads_open_a_fresh_database_at_the_same_moment(tmp_path: Path) -> None:
    for turn in range(5):
        path = tmp_path / f"{turn}.db"
        start = threading.Barrier(8)
        outcomes: list[object] = []

        def work(
            path: Path = path, start: threading.Barrier = start, outcomes: list[object] = outcomes
        ) -> None:
            async def main() -> None:
                store = SqliteStore(path)
                await store.aclose()

            start.wait()
            try:
                asyncio.run(main())
                outcomes.append(None)
            except Exception as error:  # noqa: BLE001
                outcomes.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes == [None] * 8


# ── holders ──


def test_the_last_one_out_and_the_first_one_in_do_not_meet_badly(tmp_path: Path) -> None:
    """The folder of locks goes and comes while others enter."""

    def work(_: int) -> list[str]:
        wrong: list[str] = []
        for _ in range(100):
            try:
                Holders(tmp_path / "log.db").close()
            except OSError as error:
                wrong.append(repr(error))
        return wrong

    with ThreadPoolExecutor(16) as pool:
        assert [error for wrong in pool.map(work, range(16)) for error in wrong] == []
    assert not (tmp_path / "log.db.holders").exists()


async def test_a_living_process_holds_its_task_and_a_killed_one_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    await store.create("t", EVENT, 1.0)
    with process("claim", path, "t") as child:
        assert said(child) == "claimed"
        assert (await store.summary("t")).held
        with pytest.raises(TaskHeld, match="another process"):
            await store.claim("t")
        assert len(list((tmp_path / "log.db.holders").iterdir())) == 2

        child.send_signal(signal.SIGKILL)
        child.wait()

    assert not (await store.summary("t")).held
    claim = await store.claim("t")
    assert await store.append(claim, [TaskStarted()], ts=2.0, round=1) == (2, 2)
    await store.aclose()


async def test_opening_sweeps_the_dead_and_spares_the_living(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    await store.create("a", EVENT, 1.0)
    await store.create("b", EVENT, 1.0)
    with process("claim", path, "a") as living, process("claim", path, "b") as dying:
        assert [said(living), said(dying)] == ["claimed", "claimed"]
        dying.kill()
        dying.wait()
        await store.aclose()

        store = SqliteStore(path)

        assert len(list((tmp_path / "log.db.holders").iterdir())) == 2  # the living one's and our own
        assert [task.held for task in await store.list_tasks()] == [False, True]
    await store.aclose()


async def test_the_last_one_out_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store, other = SqliteStore(path), SqliteStore(path)
    await store.create("t", EVENT, 1.0)
    await store.claim("t")
    await store.aclose()
    assert isinstance(await other.claim("t"), tuple)
    await other.aclose()

    assert os.listdir(tmp_path) == ["log.db"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
async def test_a_link_to_the_database_leads_to_the_same_holders(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    (tmp_path / "link.db").symlink_to("log.db")
    other = SqliteStore(tmp_path / "link.db")
    await store.create("t", EVENT, 1.0)
    await store.claim("t")

    with pytest.raises(TaskHeld):
        await other.claim("t")
    await other.aclose()
    await store.aclose()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
async def test_a_forked_child_does_not_keep_its_parents_tasks(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    await store.create("t", EVENT, 1.0)
    with process("fork", path, "t") as child:
        assert said(child) == "claimed"
        child.kill()
        child.wait()
        # Its own child lives on, and holds nothing.
        assert isinstance(await store.claim("t"), tuple)
    await store.aclose()


async def test_looking_at_a_dead_holder_does_not_make_it_look_alive(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    await store.create("t", EVENT, 1.0)
    with process("claim", path, "t") as child:
        assert said(child) == "claimed"
        child.kill()
        child.wait()
    others = [SqliteStore(path) for _ in range(3)]
    stop = False

    async def look(other: SqliteStore) -> None:
        while not stop:
            assert not (await other.summary("t")).held

    looking = [asyncio.ensure_future(look(other)) for other in others]
    for _ in range(50):
        await others[0].summary("t")
    claim = await store.claim("t")
    stop = True
    await asyncio.gather(*looking, return_exceptions=True)

    assert claim.task_id == "t"
    for one in (*others, store):
        await one.aclose()


async def test_of_two_processes_that_claim_at_once_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    tasks = [f"t{n}" for n in range(20)]
    store = SqliteStore(path)
    for task_id in tasks:
        await store.create(task_id, EVENT, 1.0)
    with process("race", path, *tasks) as one, process("race", path, *tasks) as other:
        assert [said(one), said(other)] == ["ready", "ready"]
        for child in (one, other):
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        won = [said(one), said(other)]

        assert isinstance(won[0], list)
        assert isinstance(won[1], list)
        assert sorted([*won[0], *won[1]]) == sorted(tasks)
        assert all(task.held for task in await store.list_tasks())
    assert not any(task.held for task in await store.list_tasks())
    await store.aclose()


# ── two store objects on one file ──


@pytest.mark.parametrize("after", [0, 3, 40])
async def test_a_follower_sees_what_another_process_writes(tmp_path: Path, after: int) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    await store.create("t", EVENT, 1.0)
    with process("write", path, "t", 100) as child:
        async with asyncio.timeout(SECS):
            seen = [record.seq async for record in store.follow("t", after)]
        assert said(child) == "written"

    assert seen == list(range(after + 1, 103))
    await store.aclose()


async def test_a_driver_sees_a_signal_from_another_store(tmp_path: Path) -> None:
    store, other = SqliteStore(tmp_path / "log.db"), SqliteStore(tmp_path / "log.db")
    for task_id in ("t", "u"):
        await store.create(task_id, EVENT, 1.0)
    claim = await store.claim("t")
    told = asyncio.Event()
    listening = store.listen("t", told.set)
    await store.append(claim, [TaskStarted()], ts=2.0, round=1)
    await other.signal("u", CancelRequested(by="somebody else's"), 2.0)

    record = await other.signal("t", CancelRequested(by="me"), 3.0)

    async with asyncio.timeout(SECS):
        await told.wait()
    assert await store.read("t", 1, signals_only=True) == [record]
    listening.close()
    await other.aclose()
    await store.aclose()


@pytest.mark.parametrize("ts", [1.0, 2.0], ids=["at the same moment", "later"])
@pytest.mark.parametrize(
    "text", ["do that", "do it", "x" * 80_000], ids=["another", "the same", "a large one"]
)
async def test_what_is_read_is_the_task_that_has_the_id_now(tmp_path: Path, text: str, ts: float) -> None:
    store, other = SqliteStore(tmp_path / "log.db"), SqliteStore(tmp_path / "log.db")
    await store.create("t", EVENT, 1.0)
    await other.delete("t", unfinished=True)
    await other.create("t", TaskSubmitted(description=text, metadata={"a": 1}), ts)

    for _ in range(2):
        (record,) = await store.read("t")
        assert isinstance(record.event, TaskSubmitted)
        assert (record.event.description, record.event.metadata, record.ts) == (text, {"a": 1}, ts)

    await other.aclose()
    await store.aclose()


async def test_what_was_stored_here_and_has_grown_elsewhere_is_read_whole(tmp_path: Path) -> None:
    store, other = SqliteStore(tmp_path / "log.db"), SqliteStore(tmp_path / "log.db")
    await store.create("t", EVENT, 1.0)
    claim = await other.claim("t")
    await other.append(claim, [TaskStarted(), StepReady(step_id="a")], ts=2.0, round=1)

    assert len(await store.read("t")) == 3

    await other.aclose()
    await store.aclose()


async def test_two_stores_steal_from_each_other_and_one_writes_at_a_time(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / "log.db"), SqliteStore(tmp_path / "log.db")]
    await stores[0].create("t", EVENT, 1.0)
    stale = 0

    async def drive(store: SqliteStore, who: str) -> list[str]:
        nonlocal stale
        mine: list[str] = []
        for turn in range(15):
            claim = await store.claim("t", steal=True)
            futures = []
            for n in range(5):
                name = f"{who}-{turn}-{n}"
                futures.append((name, store.append(claim, [StepReady(step_id=name)], ts=2.0, round=1)))
                await asyncio.sleep(0)
            for name, future in futures:
                try:
                    await future
                    mine.append(name)
                except StaleWriter:
                    stale += 1
        return mine

    one, other = await asyncio.gather(drive(stores[0], "a"), drive(stores[1], "b"))

    records = await stores[0].read("t")
    written = [record.event.step_id for record in records if isinstance(record.event, StepReady)]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert [name for name in written if name[0] == "a"] == one
    assert [name for name in written if name[0] == "b"] == other
    assert len(written) + stale == 150
    for store in stores:
        await store.aclose()


# ── life ──


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    await store.create("t", EVENT, 1.0)
    claim = await store.claim("t")
    await store.aclose()

    with pytest.raises(StoreError, match="closed"):
        await store.read("t")
    with pytest.raises(StoreError, match="closed"):
        await store.append(claim, [TaskStarted()], ts=2.0, round=1)
    assert [record async for record in store.follow("t")] == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts in /proc")
async def test_opening_and_closing_leaves_no_thread_and_no_file_open(tmp_path: Path) -> None:
    async def once() -> None:
        store = SqliteStore(tmp_path / "log.db")
        await store.create("t", EVENT, 1.0)
        following = asyncio.ensure_future(anext(store.follow("t", 1)))
        await asyncio.sleep(0)
        await store.read("t")
        await store.aclose()
        with pytest.raises(StopAsyncIteration):
            await following
        with contextlib.suppress(StoreUnusable):
            SqliteStore(tmp_path)

    await once()  # the loop's own pool has its thread now
    others = set(threading.enumerate())  # what other tests' deaf tools still hold is not the store's

    def files_open() -> int:
        links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd.isdigit()
                 and os.path.lexists(f"/proc/self/fd/{fd}")]  # fmt: skip
        return sum(str(tmp_path) in link for link in links)

    for _ in range(5):
        await once()

    left = [thread.name for thread in set(threading.enumerate()) - others]
    assert [name for name in left if not name.startswith("asyncio_")] == [], "the loop has a pool of its own"
    assert files_open() == 0


# ── what it remembers of tools ──


@pytest.mark.parametrize(
    "spoilt",
    [
        "no JSON",
        "[]",
        "{}",
        '{"calls": Infinity, "failures": 0, "durations": {}, "errors": {}, "recent": ""}',
        '{"calls": 1, "failures": 0, "durations": {"99999": 1}, "errors": {}, "recent": "+"}',
        '{"calls": 1, "failures": 7, "durations": {}, "errors": {}, "recent": "+"}',
        "[" * 100_000,
        b"\xff\x00",
    ],
    ids=lambda spoilt: str(spoilt)[:30],
)
async def test_a_spoilt_row_of_a_tool_counts_as_none_and_hinders_nothing(
    spoilt: str | bytes, tmp_path: Path
) -> None:
    path, key = tmp_path / "log.db", ToolKey("functions", "add")
    stats = ToolStats()
    stats.add(1.0)
    async with contextlib.aclosing(SqliteStore(path)) as store:
        await store.add_tool_stats({key: stats})
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE tool_stats SET data = ?", (spoilt,))
            db.execute("INSERT INTO tool_names VALUES ('functions', ?, 0)", (spoilt,))
        assert table(rows_of(await store.tool_stats(), None)) == table([])
        await store.remembered_tools()
        await store.add_tool_stats({key: stats})
        assert (await store.tool_stats())[key].calls == 1


async def test_of_many_who_listen_only_those_are_told_to_whom_people_wrote(tmp_path: Path) -> None:
    store, other = SqliteStore(tmp_path / "log.db"), SqliteStore(tmp_path / "log.db")
    told: list[str] = []
    heard = asyncio.Event()

    def tell(task_id: str) -> None:
        told.append(task_id)
        heard.set()

    for n in range(20):
        await store.create(f"t{n}", EVENT, 1.0)
        store.listen(f"t{n}", partial(tell, f"t{n}"))
    await other.signal("t7", CancelRequested(by="me"), 3.0)
    async with asyncio.timeout(SECS):
        await heard.wait()
    assert told == ["t7"]
    await other.aclose()
    await store.aclose()


async def test_a_store_knows_whether_another_process_may_use_it(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "log.db")
    assert not first.others()
    second = SqliteStore(tmp_path / "log.db")
    assert (first.others(), second.others()) == (True, True)
    await first.aclose()
    assert not second.others()
    (tmp_path / "log.db.holders" / "1-dead").touch()
    assert not second.others()
    await second.aclose()


async def test_what_has_to_be_on_disk_is_written_so_alone_and_together_with_others(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    connections = [schema.connect(path), schema.connect(path)]
    schema.prepare(connections[0], path)

    def syncs(db: sqlite3.Connection) -> int:
        return int(db.execute("PRAGMA synchronous").fetchone()[0])

    writer = Writer(connections[0], connections[1], path, synced=False, busy_secs=1.0)
    try:
        assert await writer.submit(syncs, on_disk=True) == 2
        together = [
            writer.submit(syncs, large=True),
            writer.submit(syncs, on_disk=True),
            writer.submit(syncs, large=True),
        ]
        assert (await asyncio.gather(*together))[1] == 2
        assert await writer.submit(syncs, large=True) == 1
    finally:
        writer.stop()
        await asyncio.to_thread(writer.join)
