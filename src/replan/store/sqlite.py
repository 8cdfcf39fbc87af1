"""The event log in one SQLite file: WAL, one writing thread with group commit, readers beside it.

With `synchronous="normal"` a commit survives a killed process, with `"full"` also a power cut.
Other processes' signals and events are noticed by a look at `PRAGMA data_version` every tenth of a second, and where that says
that something was written, at where the logs of followed tasks end.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sqlite3
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from replan.core import events as e
from replan.core.data.strict_json import storable
from replan.core.limits.needs import Work
from replan.core.plain_calls import PlainStart, Recorded
from replan.core.state.task import ENDED
from replan.core.tools.stats import ToolKey, ToolStats
from replan.errors import (
    InputError,
    NotHeard,
    ReplanError,
    StaleWriter,
    StoreError,
    StoreUnusable,
    TaskEnded,
    TaskExists,
    TaskGivenAway,
    TaskHeld,
    TaskNotFound,
    TaskShared,
    TaskUnfinished,
)
from replan.ports import (
    Admission,
    Appended,
    Claim,
    Content,
    Counted,
    KeptTask,
    Member,
    NewArtifact,
    Redaction,
    Shared,
    StoredRow,
    StoredTask,
    Taken,
    TaskSummary,
)
from replan.store import contents, forks, moving, schema, tidying, tool_memory
from replan.store.holders import Holders
from replan.store.keeping import keep, remove
from replan.store.outbox import SqliteOutbox
from replan.store.reader import Reader
from replan.store.redact import redact
from replan.store.rows import EventRow, laid
from replan.store.tenants import listing, picking, turns
from replan.store.tenants.keys import SqliteKeys
from replan.store.watch import Listener, Watchers
from replan.store.writer import Writer, translate

_FOLLOW_PAGE = 500
PROMPT_EVENTS, PROMPT_BYTES = 200, 65_536
"""What may be written in the event loop at most, under a millisecond."""


class SqliteStore:
    """`ports.Store` on a SQLite file, which is made if it is not there."""

    def __init__(
        self, path: Path, *, synchronous: str = "normal", busy_secs: float = schema.BUSY_SECS
    ) -> None:
        if str(path) == ":memory:":
            raise StoreUnusable("a database in memory cannot be resumed: give --db a file")
        path = path.absolute()  # the process may come to stand in another folder
        self.path = path
        self.shown = str(path)
        self._seal_key: bytes | None = None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(f"the folder {path.parent} cannot be made: {error.strerror}") from None
        schema.keep_private(path)
        opened: list[sqlite3.Connection] = []
        try:
            opened.append(schema.connect(path, synchronous=synchronous, busy_secs=busy_secs))
            opened.append(schema.connect(path, synchronous=synchronous, busy_secs=busy_secs))
            schema.prepare(opened[0], path, busy_secs=busy_secs)
            opened.append(schema.connect_prompt(path))
            self._reader = Reader(opened[1], path)
            # One file has one folder of holders, by whatever link it was reached.
            self._holders = Holders(path.resolve())
        except (sqlite3.Error, OSError, StoreError) as error:
            for connection in opened:
                connection.close()
            if isinstance(error, OSError):
                why = f"{error.strerror or error}; its folder has to be writable"
                raise StoreUnusable(f"the database {path} cannot be used: {why}") from None
            raise translate(error, path) from None
        self._connection = opened[0]
        self._connection.execute(
            f"PRAGMA busy_timeout = {int(1000 * min(busy_secs, 0.5))}"
        )  # the writer waits itself
        self._prompt = opened[2]
        self._writer = Writer(opened[0], opened[2], path, synced=synchronous != "normal", busy_secs=busy_secs)
        self._driven: dict[str, int] = {}
        """Tasks that this process drives: their fences."""
        self._watchers = Watchers(
            self._reader.look, lambda read: self._reader.moved(read, self._driven), self._reader.begun
        )
        self._created: dict[str, tuple[float, str]] = {}
        """The requests that were stored here lately and not read yet: when, and what."""
        self._closed = False
        self._identity = _identity(path)
        self._delivering: Reader | None = None
        self._outbox: SqliteOutbox | None = None

    def _is_there(self) -> bool:
        """Whether the file that is written to is still the one of that name."""
        return _identity(self.path) == self._identity

    async def aclose(self) -> None:
        """Finish what is queued, end followers, and let go of every task."""
        if self._closed:
            return
        self._closed = True
        self._writer.stop()
        for reader in (self._reader, self._delivering):
            if reader is not None:
                reader.stop()
        await self._watchers.aclose()
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._writer.join()
        for reader in (self._reader, self._delivering):
            if reader is not None:
                reader.close()
        self._prompt.close()
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA optimize")
        self._connection.close()
        self._holders.close()

    # ── writing ──

    async def create(
        self, task_id: str, event: e.TaskSubmitted, ts: float, *, turn: Counted | None = None
    ) -> bool:
        request = event.request()
        data, mine = e.dump(event), self._holders.mine

        def work(db: sqlite3.Connection) -> bool:
            known = db.execute("SELECT request FROM task WHERE task_id = ?", (task_id,)).fetchone()
            if known is not None:
                if known[0] == request:
                    return False
                raise TaskExists(task_id)
            forks.refuse_gone(db, task_id)
            turns.take(db, turn, mine)
            row = db.execute(
                "INSERT INTO task (task_id, request, status, description, created, epoch, tenant, session) "
                "VALUES (?, ?, 'queued', ?, ?, ?, ?, ?)",
                (
                    task_id, request, storable(event.description), ts, secrets.randbits(moving.EPOCH_BITS),
                    event.tenant, event.session,
                ),
            ).lastrowid  # fmt: skip
            db.execute("INSERT INTO event VALUES (?, 1, ?, 0, ?, ?)", (row, ts, event.type, data))
            return True

        made: bool = await self._writer.submit(work, large=len(data) > PROMPT_BYTES)
        if made and len(data) <= PROMPT_BYTES:
            self._created[task_id] = (ts, data)
            if len(self._created) > _MOST_CREATED:
                del self._created[next(iter(self._created))]
        return made

    async def claim(self, task_id: str, *, steal: bool = False) -> Claim:
        mine = self._holders.mine

        def work(db: sqlite3.Connection) -> Claim:
            row = db.execute(
                "SELECT id, epoch, holder, given_away FROM task WHERE task_id = ?", (task_id,)
            ).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            number, epoch, holder, given_away = row
            if given_away is not None:
                raise TaskGivenAway(task_id, given_away)
            here = holder == mine and self._driven.get(task_id) == epoch
            if not steal and (here or (holder != mine and self._holders.alive(holder))):
                who = "this process already" if here else "another process"
                watch = f"replan tasks watch {task_id}"
                raise TaskHeld(f"task {task_id!r} is being driven by {who} (watch it: `{watch}`)")
            db.execute("UPDATE task SET epoch = ?, holder = ? WHERE id = ?", (epoch + 1, mine, number))
            self._driven[task_id] = epoch + 1  # here, so that the next claim of the same commit sees it
            return Claim(task_id, epoch + 1)

        # Not for the disk: nobody who could heed it outlives the machine.
        future = self._writer.submit(work, durable=False)
        try:
            claim: Claim = await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(self._give_back)
            raise
        self._watchers.changed(task_id)  # what the driver before has written last was not looked at yet
        return claim

    async def delete(self, task_id: str, *, unfinished: bool = False) -> None:
        def work(db: sqlite3.Connection) -> list[int]:
            row = db.execute(
                "SELECT id, status, holder, epoch FROM task WHERE task_id = ?", (task_id,)
            ).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            number, status, holder, epoch = row
            here = holder == self._holders.mine
            if (here and self._driven.get(task_id) == epoch) or (not here and self._holders.alive(holder)):
                raise TaskHeld(f"task {task_id!r} is being driven and cannot be deleted; cancel it first")
            if status not in ENDED and not unfinished:
                raise TaskUnfinished(task_id, status)
            if shared := forks.forks_of(db, task_id):
                raise TaskShared(task_id, [one.task_id for one in shared])
            return moving.remove(db, number)

        used = await self._writer.submit(work, large=True)
        self._watchers.changed(task_id)
        await self._unused(used)

    async def _unused(self, used: Sequence[int]) -> None:
        if used:
            await asyncio.shield(remove(self._writer, used, time.time() - contents.KEPT_SECS))

    def _give_back(self, claimed: asyncio.Future[Claim]) -> None:
        """Release a claim that nobody waits for any more."""
        if not claimed.cancelled() and claimed.exception() is None:
            self._let_go(claimed.result()).add_done_callback(lambda done: done.exception())

    async def confirm(self, claim: Claim) -> None:
        def work(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT epoch FROM task WHERE task_id = ?", (claim.task_id,)).fetchone()
            if row is None:
                raise TaskNotFound(claim.task_id)
            if row[0] != claim.fence:
                raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver")

        await self._writer.submit(work, durable=False)

    async def release(self, claim: Claim) -> None:
        await asyncio.shield(self._let_go(claim))

    def _let_go(self, claim: Claim) -> asyncio.Future[None]:
        """The fence goes up, so that nothing can be appended with the claim that was given back."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE task SET holder = NULL, epoch = epoch + 1 WHERE task_id = ? AND epoch = ?",
                tuple(claim),
            )

        def gone(_: asyncio.Future[None]) -> None:
            # Even if it could not be written: nobody here drives it, so that it can be claimed here again.
            self._writer.mend(claim)
            if self._driven.get(claim.task_id) == claim.fence:
                del self._driven[claim.task_id]

        future = self._writer.submit(work, durable=False)
        future.add_done_callback(gone)
        return future

    def append(
        self,
        claim: Claim,
        events: Sequence[Recorded],
        *,
        ts: float,
        round: int,
        artifacts: Sequence[NewArtifact] = (),
        heard: int | None = None,
    ) -> asyncio.Future[Appended]:
        rows, status, ends = laid(events)
        task_id, fence = claim.task_id, claim.fence
        if (ends or any(map(_begins_effect, events))) and not self._is_there():
            lost: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
            lost.set_exception(
                StoreUnusable(
                    f"the database {self.path} was deleted or replaced while task {task_id!r} ran: what has been done "
                    "is in no log any more, and nothing vouches for the task's end, or for what it would do next; let the file be where it is"
                )
            )
            return lost
        if len(rows) == 1 and status is None and not artifacts and heard is None:
            large = len(rows[0].data) > PROMPT_BYTES
            future = self._writer.submit(
                partial(_append_one, claim, rows[0], ts, round), chain=claim, large=large, single=True
            )
            self._tell_when(future, task_id)
            return future

        def work(db: sqlite3.Connection) -> Appended:
            if ends and any(isinstance(event, e.TERMINAL) for event in events[:-1]):
                raise TaskEnded(f"nothing can come after the end of task {task_id!r}")
            found = db.execute(_ENTER, (task_id, fence)).fetchone()
            if found is None:
                raise _refusal(db, claim)
            number, before = found
            if heard is not None and db.execute(_SAID, (number, heard)).fetchone() is not None:
                raise NotHeard(task_id)
            if status is not None:
                db.execute("UPDATE task SET status = ? WHERE id = ?", (status, number))
            for artifact in artifacts:
                contents.use(db, number, artifact, ts)
            last = before
            for row in rows:
                last += row.holds
                db.execute(
                    "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)",
                    (number, last, ts, round, row.type, row.data),
                )
            return Appended(before + 1, last)

        count = sum([row.holds for row in rows])
        size = sum([len(row.data) for row in rows])
        large = bool(artifacts) or count > PROMPT_EVENTS or size > PROMPT_BYTES
        future = self._writer.submit(work, chain=claim, large=large)
        self._tell_when(future, task_id)
        return future

    def _tell_when(self, written: asyncio.Future[Appended], task_id: str) -> None:
        """Tell who reads along once it is written, also who begins to while it still waits for its turn."""
        if not written.done() or self._watchers.waiting(task_id):
            written.add_done_callback(lambda _: self._watchers.changed(task_id))

    def redact(self, claim: Claim, redaction: Redaction) -> asyncio.Future[None]:
        def work(db: sqlite3.Connection) -> None:
            found = db.execute(_ENTER, (claim.task_id, claim.fence)).fetchone()
            if found is None:
                raise _refusal(db, claim)
            for piece in forks.pieces(
                db, claim.task_id, found[0]
            ):  # what a fork shares shows the same secrets
                redact(db, piece.number, redaction)

        return self._writer.submit(work, chain=claim, large=True, scrub=True)

    async def signal(
        self, task_id: str, event: e.AnyEvent, ts: float, *, heard: int | None = None
    ) -> e.Record:
        if not event.signal:
            raise InputError(f"{event.type} can be written only by whoever drives the task")
        data = e.dump(event)

        def work(db: sqlite3.Connection) -> e.Record:
            row = db.execute(
                "SELECT id, status, seq, round, given_away FROM task JOIN event ON task = id WHERE task_id = ? "
                "ORDER BY seq DESC LIMIT 1",
                (task_id,),
            ).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            number, status, last, round_, given_away = row
            if given_away is not None:
                raise TaskGivenAway(task_id, given_away)
            if status in ENDED:
                raise TaskEnded(f"task {task_id!r} has ended ({status}); an ended task never changes")
            if heard is not None and db.execute(_SAID, (number, heard)).fetchone() is not None:
                raise NotHeard(task_id)
            record = e.Record(last + 1, task_id, ts, round_, event)
            db.execute(
                "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)",
                (number, record.seq, ts, round_, event.type, data),
            )
            db.execute("INSERT INTO signal (task, seq) VALUES (?, ?)", (number, record.seq))
            return record

        record: e.Record = await self._writer.submit(work)
        self._watchers.changed(task_id, signal=True)
        return record

    # ── forks ──

    async def fork(
        self,
        task_id: str,
        event: e.TaskForked,
        told: e.ForkMade,
        ts: float,
        *,
        work: Work | None = None,
        turn: Counted | None = None,
    ) -> bool:
        epoch, mine = secrets.randbits(moving.EPOCH_BITS), self._holders.mine

        def stored(db: sqlite3.Connection) -> str | None:
            return forks.fork(db, task_id, event, told, ts, epoch, lambda: turns.take(db, turn, mine))

        rests_on: str | None = await self._writer.submit(stored, large=True)
        if rests_on is None:
            return False
        self._watchers.changed(rests_on, signal=True)
        return True

    async def family(self, task_id: str) -> list[Member]:
        return await self._reader.family(task_id)

    async def rests_on(self, task_id: str) -> list[Shared]:
        return await self._reader.rests_on(task_id)

    async def forks(self, task_id: str) -> list[Shared]:
        return await self._reader.forks(task_id)

    async def take(self, claim: Claim, key: str, *, over: Taken | None = None) -> Taken:
        taken: Taken = await self._writer.submit(lambda db: forks.take(db, claim, key, over))
        return taken

    async def reserve(self, task_id: str, keys: Sequence[str]) -> None:
        await self._writer.submit(lambda db: forks.reserve(db, task_id, keys), large=True)

    # ── reading ──

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[e.Record]:
        from_the_first = after == 0 and (limit is None or limit > 0) and not signals_only
        if from_the_first and (first := self._only_created(task_id)) is not None:
            return [first]
        return (await self._reader.page(task_id, after, limit, signals_only)).records

    async def picked(self, after: Mapping[str, int], kinds: Collection[str]) -> dict[str, list[e.Record]]:
        return await self._reader.run(partial(picking.picked, after=after, kinds=kinds))

    def _only_created(self, task_id: str) -> e.Record | None:
        """The request that a task's log consists of, where it was stored here just now: who drives it need not wait for it."""
        if (made := self._created.pop(task_id, None)) is None or self._closed:
            return None
        # Another process may have deleted that task, and taken its id for another one.
        if self._writer.at_once(lambda db: db.execute(_ONLY, (task_id, *made)).fetchall()) != [(1,)]:
            return None
        return e.Record(1, task_id, made[0], 0, e.load("task_submitted", made[1]))

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[e.Record]:
        with self._watchers.watch(task_id) as watch:
            while not self._closed:
                watch.clear()
                records, last = await self._reader.page(task_id, after, _FOLLOW_PAGE)
                for record in records:
                    yield record
                    if isinstance(record.event, e.TERMINAL):
                        return
                    after = record.seq
                if last:
                    return
                if len(records) < _FOLLOW_PAGE:
                    watch.seen = after
                    await watch.wait()

    def listen(self, task_id: str, tell: Callable[[], None]) -> Listener:
        return self._watchers.listen(task_id, tell)

    async def list_tasks(
        self,
        *,
        status: Sequence[str] = (),
        limit: int = 100,
        before: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
    ) -> list[TaskSummary]:
        found = await self._reader.run(
            partial(listing.rows, status=status, limit=limit, before=before, tenant=tenant, session=session)
        )
        return list(map(self._summary, found))

    async def let_in(self, tenant: str) -> int:
        return await self._reader.run(partial(turns.let_in, tenant=tenant))

    async def count_tasks(self, tenant: str | None = None, *, unfinished: bool = False) -> int:
        return await self._reader.run(partial(listing.count, tenant=tenant, unfinished=unfinished))

    async def summary(self, task_id: str) -> TaskSummary:
        looked = partial(listing.row, task_id=task_id)
        # One row is read sooner than the reading thread is woken up.
        row = None if self._closed else self._writer.at_once(looked)
        await asyncio.sleep(0)  # whoever asks in a loop still lets the task get on that is asked about
        return self._summary(row if row is not None else await self._reader.run(looked))

    def others(self) -> bool:
        return self._holders.others()

    def _summary(self, row: listing.Row) -> TaskSummary:
        if row.holder == self._holders.mine:
            held = row.task_id in self._driven
        else:
            held = self._holders.alive(row.holder)
        summary = TaskSummary(*row[:6], held=held, given_away=row.given_away or "")
        left = row.holder is not None and not held
        return summary._replace(tenant=row.tenant, session=row.session, rewritten=row.rewritten, left=left)

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        return await self._reader.artifact(task_id, artifact_id)

    def pieces(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        return self._reader.pieces(task_id, artifact_id)

    async def part(self, task_id: str, artifact_id: str, start: int, size: int) -> bytes:
        return await self._reader.part(task_id, artifact_id, start, size)

    async def keep(self, pieces: AsyncIterable[bytes]) -> Content:
        return await keep(self._writer, pieces)

    # ── from and to other stores ──

    async def stored(self, task_id: str) -> StoredTask:
        return await self._reader.run(partial(moving.stored, task_id=task_id))

    async def rows(self, task_id: str, after: int = 0, limit: int = 500) -> list[StoredRow]:
        return await self._reader.run(partial(moving.rows, task_id=task_id, after=after, limit=limit))

    async def admit(self, admissions: Sequence[Admission], digest: str, *, not_gone_on: bool = False) -> None:
        await self._writer.submit(
            lambda db: moving.admit(db, admissions, digest, time.time(), not_gone_on=not_gone_on),
            on_disk=True,
        )

    async def undelivered(self, task_ids: Collection[str]) -> list[tuple[str, str]]:
        return await self._reader.run(partial(moving.undelivered, task_ids=task_ids))

    async def give_away(self, claims: Mapping[Claim, int], digest: str) -> None:
        await self._writer.submit(lambda db: moving.give_away(db, claims, digest), on_disk=True)
        for claim in claims:
            self._writer.mend(claim)
            if self._driven.get(claim.task_id) == claim.fence:
                del self._driven[claim.task_id]

    async def remove_given(self, task_ids: Sequence[str], digest: str) -> None:
        used = await self._writer.submit(lambda db: moving.remove_given(db, task_ids, digest), large=True)
        for task_id in task_ids:
            self._watchers.changed(task_id)
        await self._unused(used)

    async def take_back(self, task_ids: Sequence[str], digest: str | None = None) -> list[str]:
        found: list[str] = await self._writer.submit(
            lambda db: moving.take_back(db, task_ids, digest), large=True
        )
        return found

    # ── tidying ──

    async def sizes(
        self,
        *,
        status: Collection[str],
        before: float | None = None,
        below: int | None = None,
        limit: int = 100,
    ) -> list[KeptTask]:
        return await self._reader.run(
            partial(tidying.sizes, status=status, before=before, below=below, limit=limit)
        )

    async def sweep(self) -> int:
        before, gone = time.time() - contents.KEPT_SECS, 0
        while numbers := await self._reader.run(partial(contents.sweepable, before=before)):
            removed = await remove(self._writer, numbers, before)
            gone += removed
            if not removed:
                break
        return gone

    async def give_back(self) -> None:
        submit = partial(self._writer.submit, large=True, durable=False, patient=False)
        if await self._reader.run(tidying.shrinks):
            while await submit(tidying.give_back):
                pass
            await submit(lambda db: None, scrub=True)  # the file is cut when its own log is brought into it
        elif not self._holders.others():
            await submit(tidying.rebuild, single=True)

    async def now(self) -> float | None:
        return None

    async def lived_since(self, before: float) -> float | None:
        return await self._reader.run(partial(tidying.lived_since, before=before))

    async def tidy_due(self, secs: float) -> bool:
        return bool(
            await self._writer.submit(
                lambda db: tidying.due(db, secs, time.time()), large=True, durable=False, patient=False
            )
        )

    async def not_tidied(self) -> None:
        await self._writer.submit(tidying.forget, large=True, durable=False, patient=False)

    async def seal_key(self) -> bytes:
        if self._seal_key is None:
            made = secrets.token_bytes(32)

            def work(db: sqlite3.Connection) -> bytes:
                db.execute("INSERT OR IGNORE INTO seal_key VALUES (1, ?)", (made,))
                return bytes(db.execute("SELECT key FROM seal_key").fetchone()[0])

            self._seal_key = await self._writer.submit(work, large=True, durable=True)
        return self._seal_key

    def outbox(self) -> SqliteOutbox:
        """Where the log is delivered from: by a reader of its own, since a look may take long."""
        if self._outbox is None:
            if self._closed:
                raise StoreError(f"the store {self.path} is closed")
            try:
                self._delivering = Reader(schema.connect(self.path), self.path)
            except sqlite3.Error as error:
                raise translate(error, self.path) from None
            self._outbox = SqliteOutbox(self._writer, self._delivering, self._holders)
        return self._outbox

    def keys(self) -> SqliteKeys:
        """The API keys of a service, and what its tenants may use."""
        return SqliteKeys(self._writer, self._reader)

    # ── tools ──

    async def add_tool_stats(self, more: Mapping[ToolKey, ToolStats]) -> None:
        await self._writer.submit(
            lambda db: tool_memory.add(db, more, time.time()), large=True, durable=False, patient=False
        )

    async def tool_stats(self) -> dict[ToolKey, ToolStats]:
        return await self._reader.tool_stats()

    async def remember_tools(self, names: Mapping[str, Collection[str]]) -> None:
        kept = {source: tuple(listed) for source, listed in names.items()}
        await self._writer.submit(
            lambda db: tool_memory.remember(db, kept, time.time()), large=True, durable=False, patient=False
        )

    async def remembered_tools(self) -> dict[str, tuple[str, ...]]:
        return await self._reader.remembered_tools()


_MOST_CREATED = 16
_ONLY = (
    "SELECT 1 FROM task JOIN event ON id = task WHERE task_id = ? AND seq = 1 AND ts = ? AND data = ? "
    "AND NOT EXISTS (SELECT 1 FROM event WHERE task = id AND seq > 1)"
)
"""Whether that request is all that the log has."""
_LAST = "(SELECT max(seq) FROM event WHERE task = id)"
_ENTERED = "FROM task WHERE task_id = ? AND epoch = ? AND status NOT IN ({})".format(
    ", ".join(f"'{status}'" for status in sorted(ENDED))
)
"""The task, if the claim still holds and it has not ended."""
_ENTER = f"SELECT id, {_LAST} {_ENTERED}"
_SAID = "SELECT 1 FROM signal WHERE task = ? AND seq > ?"
_APPEND = f"INSERT INTO event SELECT id, {_LAST} + ?, ?, ?, ?, ? {_ENTERED} RETURNING seq"


def _append_one(claim: Claim, row: EventRow, ts: float, round: int, db: sqlite3.Connection) -> Appended:
    """One statement: the fence, the number and the row."""
    count, kind, data = row
    found = db.execute(_APPEND, (count, ts, round, kind, data, *claim)).fetchall()
    if not found:
        raise _refusal(db, claim)
    last: int = found[0][0]
    return Appended(last - count + 1, last)


def _refusal(db: sqlite3.Connection, claim: Claim) -> ReplanError:
    """Why the task does not take the append."""
    row = db.execute("SELECT epoch, status FROM task WHERE task_id = ?", (claim.task_id,)).fetchone()
    if row is None:
        return TaskNotFound(claim.task_id)
    if row[0] != claim.fence:
        return StaleWriter(f"task {claim.task_id!r} has been taken over by another driver, or was given back")
    return TaskEnded(f"task {claim.task_id!r} has ended ({row[1]}); an ended task never changes")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _begins_effect(event: Recorded) -> bool:
    """Whether something is to be done that must be found in the log afterwards."""
    return getattr(event, "effect", "reads") != "reads" and type(event) in _BEGINS


_BEGINS = frozenset([e.CallStarted, PlainStart])
