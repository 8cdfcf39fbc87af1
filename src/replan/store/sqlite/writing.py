"""What is written to the log: tasks, events, signals, and what is taken out of them."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Sequence
from functools import partial

from replan.core import events as e
from replan.core.data.strict_json import storable
from replan.core.plain_calls import PlainStart, Recorded
from replan.core.state.task import ENDED
from replan.errors import (
    InputError,
    NotHeard,
    ReplanError,
    StaleWriter,
    StoreUnusable,
    TaskEnded,
    TaskExists,
    TaskGivenAway,
    TaskNotFound,
)
from replan.ports import Appended, Claim, Counted, NewArtifact, Redaction
from replan.store import contents, forks, moving
from replan.store.redact import redact
from replan.store.rows import EventRow, laid
from replan.store.sqlite.opened import Opened
from replan.store.tenants import turns

PROMPT_EVENTS, PROMPT_BYTES = 200, 65_536
"""What may be written in the event loop at most, under a millisecond."""


class Writing(Opened):
    """What is written to the log: tasks, events, signals, and what is taken out of them."""

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


_MOST_CREATED = 16
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


def _begins_effect(event: Recorded) -> bool:
    """Whether something is to be done that must be found in the log afterwards."""
    return getattr(event, "effect", "reads") != "reads" and type(event) in _BEGINS


_BEGINS = frozenset([e.CallStarted, PlainStart])
