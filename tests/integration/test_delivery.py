"""Delivery of a log to consumers that fail, hang and lose their database, and the files of JSON lines that ship with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from cli_process import BY_STEPS, folder, going_on, one_step, replan

from postgres_server import PostgresServer
from replan import Replan
from replan.core.events import Record, StepReady, TaskCompleted, TaskSubmitted
from replan.errors import InputError
from replan.ports import Consumer
from replan.projections.delivery import Delivery, Pace
from replan.projections.json_lines import JsonLines
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio
SECS = 30.0
QUICK = Pace(look_secs=0.01, beat_secs=0.05, take_secs=0.02, first_pause_secs=0.01, longest_pause_secs=0.05)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "log.db")
    yield opened
    await opened.aclose()


async def some(store: SqliteStore | PostgresStore, *names: str) -> None:
    for name in names:
        await store.create(name, TaskSubmitted(description=name), 1.0)
        claim = await store.claim(name)
        await store.append(claim, [StepReady(step_id="a"), TaskCompleted()], ts=2.0, round=1)
        await store.release(claim)


class Kept:
    """A consumer that keeps what it gets; `wrong` is raised so many times first."""

    def __init__(self, name: str = "kept", *, wrong: int = 0) -> None:
        self.name = name
        self.got: list[tuple[str, int]] = []
        self.wrong = wrong
        self.enough = asyncio.Event()
        self.want = 3

    async def deliver(self, records: Sequence[Record]) -> None:
        if self.wrong:
            self.wrong -= 1
            raise ConnectionError("it is away, password=hunter2")
        self.got += [(record.task_id, record.seq) for record in records]
        if len(self.got) >= self.want:
            self.enough.set()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECS):
        while not await condition():  # noqa: ASYNC110 - what another process would see is only to be asked for
            await asyncio.sleep(0.01)


async def is_read(store: SqliteStore) -> bool:
    return any(state.read for state in await store.outbox().consumers())


@contextlib.asynccontextmanager
async def delivering(
    store: SqliteStore | PostgresStore, consumer: Consumer
) -> AsyncIterator[asyncio.Task[None]]:
    hide = lambda text: text.replace("hunter2", "***")  # noqa: E731
    task = asyncio.create_task(Delivery(store.outbox(), consumer, pace=QUICK, hide=hide).run())
    async with asyncio.timeout(SECS):
        yield task
    task.cancel()
    await asyncio.wait({task})


async def test_a_consumer_that_fails_gets_the_batch_again_and_holds_up_no_other(store: SqliteStore) -> None:
    await some(store, "t")
    failing, well = Kept("failing", wrong=10**9), Kept("well")

    async def has_failures(count: int) -> bool:
        return (await store.outbox().consumers())[0].failures >= count

    async def has_all() -> bool:
        return (await store.outbox().consumers())[0].events_behind == 0

    async with delivering(store, failing), delivering(store, well):
        await well.enough.wait()
        await until(lambda: has_failures(4))
        state = (await store.outbox().consumers())[0]
        assert (state.name, state.error) == ("failing", "ConnectionError: it is away, password=***")
        assert (state.events_behind, state.read) == (3, True)
        failing.wrong = 0
        await failing.enough.wait()
        await until(has_all)
        assert (await store.outbox().consumers())[0].failures == 0
    assert failing.got == well.got == [("t", 1), ("t", 2), ("t", 3)]


async def test_a_consumer_whose_own_work_was_cancelled_has_failed(store: SqliteStore) -> None:
    await some(store, "t")

    class Torn(Kept):
        async def deliver(self, records: Sequence[Record]) -> None:
            if self.wrong:
                self.wrong -= 1
                raise asyncio.CancelledError
            await super().deliver(records)

    torn = Torn(wrong=2)
    async with delivering(store, torn):
        await torn.enough.wait()
    assert torn.got == [("t", 1), ("t", 2), ("t", 3)]


async def test_a_batch_that_takes_long_is_not_taken_away(store: SqliteStore) -> None:
    await some(store, "t")
    go_on, other = asyncio.Event(), SqliteStore(store.path)

    class Slow(Kept):
        async def deliver(self, records: Sequence[Record]) -> None:
            await go_on.wait()
            await super().deliver(records)

    slow = Slow()
    async with delivering(store, slow):
        await until(lambda: is_read(other))
        assert await other.outbox().take("kept") is None
        go_on.set()
        await slow.enough.wait()
    await other.aclose()


async def test_a_consumer_that_is_forgotten_meanwhile_ends_its_delivery(store: SqliteStore) -> None:
    consumer = Kept()
    async with delivering(store, consumer) as task:
        await until(lambda: is_read(store))
        await store.outbox().forget("kept")
        with pytest.raises(InputError, match="no consumer 'kept'"):
            await task


async def test_delivery_goes_on_when_its_connections_are_lost(
    postgres_database: str, postgres_server: PostgresServer
) -> None:
    store = PostgresStore(postgres_database)
    consumer = Kept()
    async with delivering(store, consumer) as task:
        for turn in range(1, 4):
            consumer.want = 3 * turn
            consumer.enough.clear()
            await some(store, f"t{turn}")
            await consumer.enough.wait()
            postgres_server.sql(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                f" WHERE datname = '{postgres_database.rpartition('/')[2]}'"
            )
        assert not task.done()
    await store.aclose()
    assert set(consumer.got) == {(f"t{turn}", seq) for turn in (1, 2, 3) for seq in (1, 2, 3)}


async def test_closing_a_replan_ends_its_deliveries(tmp_path: Path) -> None:
    consumer = Kept()
    async with Replan(db=tmp_path / "log.db") as opened:
        task = asyncio.create_task(opened.deliver(consumer))

        async def read() -> bool:
            return any(state.read for state in await opened.consumers())

        await until(read)
    await task
    async with Replan(db=tmp_path / "log.db") as opened:
        assert [state.read for state in await opened.consumers()] == [False]
        assert await opened.forget_consumer("kept") is True


# ── files of JSON lines ──


def record(n: int, text: str = "x") -> Record:
    return Record(n, "t", 1.0, 0, StepReady(step_id=text))


def seqs(path: Path) -> list[int]:
    return [json.loads(line)["seq"] for line in path.read_text().splitlines()]


def files_in(folder: Path) -> list[Path]:
    """The oldest first."""
    return sorted(
        folder.iterdir(), key=lambda each: -int(each.suffix[1:] if each.suffix[1:].isdigit() else 0)
    )


async def test_events_become_lines_and_files_are_rotated_before_they_are_too_large(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.jsonl"
    lines = JsonLines(path, max_bytes=600)
    for n in range(1, 11):
        await lines.deliver([record(n)])

    files = files_in(path.parent)
    assert [n for file in files for n in seqs(file)] == list(range(1, 11))
    assert all(file.stat().st_size <= 600 for file in files)
    assert len(files) > 1
    assert json.loads(path.read_text().splitlines()[0]).keys() == {
        "seq",
        "task_id",
        "ts",
        "round",
        "type",
        "data",
    }


@pytest.mark.parametrize(
    ("keep", "left"), [(0, {"log.jsonl"}), (2, {"log.jsonl", "log.jsonl.1", "log.jsonl.2"})]
)
async def test_only_so_many_older_files_are_kept(tmp_path: Path, keep: int, left: set[str]) -> None:
    (tmp_path / "log.jsonl.old").write_text("somebody else's")
    lines = JsonLines(tmp_path / "log.jsonl", max_bytes=1, keep=keep)
    await lines.deliver([record(n) for n in range(1, 8)])

    assert {each.name for each in files_in(tmp_path)} == {*left, "log.jsonl.old"}
    assert seqs(tmp_path / "log.jsonl") == [7]


@pytest.mark.parametrize("cut", ["half a li", "x" * 200_000])
async def test_a_line_that_was_cut_off_is_taken_away(tmp_path: Path, cut: str) -> None:
    lines = JsonLines(tmp_path / "log.jsonl")
    await lines.deliver([record(1)])
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write(cut)
    await lines.deliver([record(2)])

    assert seqs(tmp_path / "log.jsonl") == [1, 2]


async def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    import resource

    lines = JsonLines(tmp_path / "log.jsonl")
    await lines.deliver([record(1)])
    before = (tmp_path / "log.jsonl").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    told = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            await lines.deliver([record(2, "y" * 1_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, told)
    assert (tmp_path / "log.jsonl").read_bytes() == before
    await lines.deliver([record(2)])
    assert seqs(tmp_path / "log.jsonl") == [1, 2]


@pytest.mark.parametrize(
    ("options", "words"), [({"max_bytes": 0}, "at least 1 byte"), ({"keep": -1}, "at least 0 files")]
)
def test_bounds_that_cannot_be_are_refused(tmp_path: Path, options: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        JsonLines(tmp_path / "x", **options)  # type: ignore[arg-type]


def test_the_command_writes_what_is_there_and_what_comes_until_it_is_told_to_end(tmp_path: Path) -> None:
    cwd = folder(tmp_path)
    (cwd / "plan.json").write_text(json.dumps(one_step("add", a=3, b=4)))
    assert replan(*BY_STEPS, "--task-id", "one", "--db", "log.db", cwd=cwd).returncode == 0

    writing = ("outbox", "write", "out/log.jsonl", "--db", "log.db", "--name", "files")
    with going_on(*writing, cwd=cwd) as process:
        assert replan(*BY_STEPS, "--task-id", "two", "--db", "log.db", cwd=cwd).returncode == 0
        written = cwd / "out" / "log.jsonl"
        while not (written.exists() and written.read_text().count('"task_completed"') == 2):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert told.splitlines()[0].startswith("files is delivered from now on, until SIGTERM or Ctrl-C")
    assert told.splitlines()[1:] == ["stopped"]

    lines = [json.loads(line) for line in (cwd / "out" / "log.jsonl").read_text().splitlines()]
    for task_id in ("one", "two"):
        mine = [line for line in lines if line["task_id"] == task_id]
        assert [line["seq"] for line in mine] == list(range(1, len(mine) + 1))
        assert mine[-1]["type"] == "task_completed"
    listed = replan("outbox", "list", "--db", "log.db", cwd=cwd).stdout
    assert listed == "files  has got everything; nobody delivers to it\n"
    assert replan("outbox", "forget", "files", "--db", "log.db", cwd=cwd).returncode == 0
    gone = replan("outbox", "forget", "files", "--db", "log.db", cwd=cwd)
    assert (gone.returncode, "there is no consumer 'files'" in gone.stderr) == (2, True)
    bad = replan("outbox", "write", "x", "--name", "Nein", "--db", "log.db", cwd=cwd)
    assert (bad.returncode, "cannot be a consumer's name" in bad.stderr) == (2, True)
    assert not os.path.exists(cwd / "x")
