"""The event log in one SQLite file: WAL, one writing thread with group commit, readers beside it.

With `synchronous="normal"` a commit survives a killed process, with `"full"` also a power cut.
Other processes' signals and events are noticed by a look at `PRAGMA data_version` every tenth of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from replan.core import events as e
from replan.core.ids import canonical, digest
from replan.core.state import ENDED, status_of
from replan.errors import StaleWriter, StoreUnusable, TaskEnded, TaskExists, TaskHeld, TaskNotFound
from replan.ports import Appended, Claim, NewArtifact, TaskSummary
from replan.store import schema
from replan.store.holders import Holders
from replan.store.watch import News, Seen, Watchers
from replan.store.writer import Writer, translate

T = TypeVar("T")
_FOLLOW_PAGE = 500


class SqliteStore:
    """`ports.Store` on a SQLite file, which is made if it is not there."""

    def __init__(self, path: Path, *, synchronous: str = "normal", busy_secs: float = schema.BUSY_SECS) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(f"the folder {path.parent} cannot be made: {error.strerror}") from None
        self._reader: sqlite3.Connection | None = None
        connection: sqlite3.Connection | None = None
        try:
            connection = schema.connect(path, synchronous=synchronous, busy_secs=busy_secs)
            schema.prepare(connection, path)
            self._reader = schema.connect(path, synchronous=synchronous, busy_secs=busy_secs)
            self._holders = Holders(path)
        except (sqlite3.Error, OSError, StoreUnusable) as error:
            for open_one in (connection, self._reader):
                if open_one is not None:
                    open_one.close()
            if isinstance(error, OSError):
                raise StoreUnusable(f"the database {path} cannot be used: {error.strerror or error}") from None
            raise translate(error, path) from None
        self._connection = connection
        self._writer = Writer(connection, path)
        self._reads = ThreadPoolExecutor(1, "replan-log-reader")
        self._watchers = Watchers(self._look)
        self._driven: set[str] = set()
        self._rows: dict[str, int] = {}
        self._closed = False

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._watchers.aclose()
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._writer.close()
        self._reads.shutdown()
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA optimize")
        self._connection.close()
        if self._reader is not None:
            self._reader.close()
        self._holders.close()

    # ── writing ──

    async def create(self, task_id: str, event: e.TaskSubmitted, ts: float) -> bool:
        request = digest(canonical(event.model_dump(mode="json", exclude={"settings", "tools"})))
        data = e.dump(event)

        def work(db: sqlite3.Connection) -> bool:
            known = db.execute("SELECT request FROM task WHERE task_id = ?", (task_id,)).fetchone()
            if known is not None:
                if known[0] == request:
                    return False
                raise TaskExists(task_id)
            row = db.execute(
                "INSERT INTO task (task_id, request, status, description, created, updated, last_seq) "
                "VALUES (?, ?, 'queued', ?, ?, ?, 1)",
                (task_id, request, _storable(event.description), ts, ts),
            ).lastrowid
            db.execute("INSERT INTO event VALUES (?, 1, ?, 0, ?, ?)", (row, ts, event.type, data))
            return True

        made: bool = await self._writer.submit(work)
        return made

    async def claim(self, task_id: str, *, steal: bool = False) -> Claim:
        mine = self._holders.mine

        def work(db: sqlite3.Connection) -> Claim:
            row = db.execute("SELECT id, epoch, holder FROM task WHERE task_id = ?", (task_id,)).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            number, epoch, holder = row
            here = holder == mine and task_id in self._driven
            if not steal and (here or (holder != mine and self._holders.alive(holder))):
                raise TaskHeld(f"task {task_id!r} is being driven by another process (watch it: `replan tasks watch`)")
            db.execute("UPDATE task SET epoch = ?, holder = ? WHERE id = ?", (epoch + 1, mine, number))
            self._driven.add(task_id)
            self._rows[task_id] = number
            return Claim(task_id, epoch + 1)

        claim: Claim = await self._writer.submit(work)
        return claim

    async def release(self, claim: Claim) -> None:
        def work(db: sqlite3.Connection) -> None:
            done = db.execute(
                "UPDATE task SET holder = NULL WHERE task_id = ? AND epoch = ?", (claim.task_id, claim.fence)
            ).rowcount
            if done:
                self._driven.discard(claim.task_id)

        await self._writer.submit(work)
        self._rows.pop(claim.task_id, None)

    def append(
        self,
        claim: Claim,
        events: Sequence[e.AnyEvent],
        *,
        ts: float,
        round: int,
        artifacts: Sequence[NewArtifact] = (),
    ) -> asyncio.Future[Appended]:
        rows = [(event.type, e.dump(event)) for event in events]
        status = next((s for event in reversed(events) if (s := status_of(event)) is not None), None)
        number = self._rows.get(claim.task_id)
        task_id, fence, count = claim.task_id, claim.fence, len(rows)

        def work(db: sqlite3.Connection) -> Appended:
            last = None
            if number is not None:
                last = db.execute(
                    "UPDATE task SET last_seq = last_seq + ?, updated = ?, status = coalesce(?, status) "
                    "WHERE id = ? AND epoch = ? RETURNING last_seq",
                    (count, ts, status, number, fence),
                ).fetchone()
            if last is None:
                raise StaleWriter(f"task {task_id!r} has been taken over by another driver")
            first = last[0] - count + 1
            for artifact in artifacts:
                db.execute(
                    "INSERT OR IGNORE INTO artifact VALUES (?, ?, ?)", (number, artifact.artifact_id, artifact.data)
                )
            db.executemany(
                "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)",
                [(number, first + n, ts, round, kind, data) for n, (kind, data) in enumerate(rows)],
            )
            return Appended(first, last[0])

        future = self._writer.submit(work)
        if self._watchers.waiting(task_id):
            future.add_done_callback(lambda _: self._watchers.changed(task_id))
        return future

    async def signal(self, task_id: str, event: e.AnyEvent, ts: float) -> e.Record:
        data = e.dump(event)

        def work(db: sqlite3.Connection) -> e.Record:
            row = db.execute("SELECT id, status, last_seq FROM task WHERE task_id = ?", (task_id,)).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            number, status, last = row
            if status in ENDED:
                raise TaskEnded(f"task {task_id!r} has ended ({status}); an ended task never changes")
            db.execute("UPDATE task SET last_seq = ?, updated = ? WHERE id = ?", (last + 1, ts, number))
            db.execute("INSERT INTO event VALUES (?, ?, ?, 0, ?, ?)", (number, last + 1, ts, event.type, data))
            db.execute("INSERT INTO signal (task, seq) VALUES (?, ?)", (number, last + 1))
            return e.Record(last + 1, task_id, ts, 0, event)

        record: e.Record = await self._writer.submit(work)
        self._watchers.changed(task_id, signal=True)
        return record

    # ── reading ──

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            try:
                assert self._reader is not None
                return work(self._reader)
            except sqlite3.Error as error:
                raise translate(error, self.path) from None

        return await asyncio.get_running_loop().run_in_executor(self._reads, run)

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[e.Record]:
        only = _SIGNALS_ONLY if signals_only else ""

        def work(db: sqlite3.Connection) -> list[e.Record]:
            row = db.execute("SELECT id FROM task WHERE task_id = ?", (task_id,)).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            rows = db.execute(
                f"SELECT seq, ts, round, type, data FROM event WHERE task = ? AND seq > ? {only} ORDER BY seq LIMIT ?",
                (row[0], after, -1 if limit is None else limit),
            )
            return [e.Record(seq, task_id, ts, round, e.load(kind, data)) for seq, ts, round, kind, data in rows]

        return await self._read(work)

    async def follow(
        self, task_id: str, after: int = 0, *, signals_only: bool = False
    ) -> AsyncIterator[e.Record]:
        with self._watchers.watch(task_id, signals_only) as watch:
            while not self._closed:
                watch.clear()
                records = await self.read(task_id, after, _FOLLOW_PAGE, signals_only=signals_only)
                for record in records:
                    yield record
                    if isinstance(record.event, e.TERMINAL):
                        return
                    after = record.seq
                if len(records) < _FOLLOW_PAGE:
                    await watch.wait()

    async def list_tasks(
        self, *, status: Sequence[str] = (), limit: int = 100, before: str | None = None
    ) -> list[TaskSummary]:
        def work(db: sqlite3.Connection) -> list[TaskSummary]:
            where, values = ["1"], list[Any]()
            if status:
                where.append(f"status IN ({', '.join('?' * len(status))})")
                values.extend(status)
            if before is not None:
                where.append("id < (SELECT id FROM task WHERE task_id = ?)")
                values.append(before)
            query = f"{_SUMMARY} WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?"
            return [self._summary(row) for row in db.execute(query, (*values, limit))]

        return await self._read(work)

    async def summary(self, task_id: str) -> TaskSummary:
        def work(db: sqlite3.Connection) -> TaskSummary:
            row = db.execute(f"{_SUMMARY} WHERE task_id = ?", (task_id,)).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            return self._summary(row)

        return await self._read(work)

    def _summary(self, row: tuple[Any, ...]) -> TaskSummary:
        task_id, status, description, created, updated, last_seq, holder = row
        if holder == self._holders.mine:
            held = task_id in self._driven
        else:
            held = holder is not None and self._holders.alive(holder)
        return TaskSummary(task_id, status, description, created, updated, last_seq, held)

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        def work(db: sqlite3.Connection) -> bytes:
            row = db.execute(
                "SELECT data FROM artifact WHERE artifact_id = ? AND task = (SELECT id FROM task WHERE task_id = ?)",
                (artifact_id, task_id),
            ).fetchone()
            if row is None:
                raise TaskNotFound(f"{task_id}/{artifact_id}")
            data: bytes = row[0]
            return data

        return await self._read(work)

    async def _look(self, seen: Seen) -> News:
        """What other connections have written since `seen`."""

        def work(db: sqlite3.Connection) -> News:
            version = int(db.execute("PRAGMA data_version").fetchone()[0])
            if version == seen.version:
                return News(seen, False, ())
            last = int(db.execute("SELECT coalesce(max(id), 0) FROM signal").fetchone()[0])
            rows = db.execute(
                "SELECT DISTINCT task_id FROM signal JOIN task ON task.id = signal.task WHERE signal.id > ?",
                (max(seen.signal, 0),),
            )
            tasks = [row[0] for row in rows] if 0 <= seen.signal < last else []
            return News(Seen(version, last), True, tasks)

        return await self._read(work)


_SIGNALS_ONLY = "AND type IN ({})".format(
    ", ".join(f"'{name}'" for name, kind in sorted(e.KINDS.items()) if kind.signal)
)
_SUMMARY = "SELECT task_id, status, description, created, updated, last_seq, holder FROM task"


def _storable(text: str) -> str:
    """Text that SQLite can keep: lone surrogates are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
