"""`ports.Store` on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg

from replan.beside import beside
from replan.core import events as e
from replan.core.data.pieces import MANY
from replan.core.data.strict_json import storable
from replan.core.limits import needs
from replan.core.limits.needs import work_of
from replan.core.plain_calls import Recorded, spelled_out
from replan.core.tools.stats import ToolKey, ToolStats
from replan.errors import (
    InputError,
    NotHeard,
    Overtaken,
    ReplanError,
    SealedElsewhere,
    StaleWriter,
    StoreError,
    TaskEnded,
    TaskExists,
    TaskGivenAway,
    TaskGoneFrom,
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
from replan.store.forks import family_is_elsewhere
from replan.store.moving import EPOCH_BITS
from replan.store.postgres import redact, schema, tool_memory
from replan.store.postgres import statements as sql
from replan.store.postgres.address import Address
from replan.store.postgres.ears import Ear, Ears
from replan.store.postgres.faults import FAULTS, passes, translated
from replan.store.postgres.kept import moving, tidying
from replan.store.postgres.kept.contents import Contents
from replan.store.postgres.line import LONG_SECS, Line, Lines, Params, Patience, Row
from replan.store.postgres.outbox import PostgresOutbox
from replan.store.postgres.presence import OTHERS, Presence
from replan.store.postgres.presence import told as notice
from replan.store.postgres.shared import Shared as SharedDatabase
from replan.store.postgres.tenants import listing, picking
from replan.store.postgres.tenants.keys import PostgresKeys
from replan.store.postgres.worker_loop import WorkerLoop
from replan.store.postgres.writer import Add, Work, Writer
from replan.store.rows import laid, records_of
from replan.store.settling import waiter
from replan.store.tenants.picking import picked_of
from replan.store.watch import Watch

T = TypeVar("T")
_FOLLOW_PAGE = 500
_NO_END = 2**62
LONG_ANSWER_SECS = 60.0
_SIGNALS_ONLY = "AND e.type IN ({})".format(
    ", ".join(f"'{name}'" for name, kind in sorted(e.KINDS.items()) if kind.signal)
)


class PostgresStore:
    """One database, for any number of processes on any number of machines.

    `busy_secs`: how long a server that does not answer is waited for before what has to be written is given up.
    """

    def __init__(
        self, dsn: str, *, busy_secs: float = 60.0, lines: int = 4, answer_secs: float = 10.0
    ) -> None:
        self._address = Address(dsn)
        self.shown = self._address.shown
        self._busy_secs = busy_secs
        self._home = WorkerLoop()
        self._ears = Ears()
        self._driven: dict[str, int] = {}
        """Tasks that this store drives: their fences."""
        self._others = False
        self._seal_key: bytes | None = None
        self._shared: SharedDatabase | None = None
        self._delivering: SharedDatabase | None = None
        self._outbox: PostgresOutbox | None = None
        self._closed = False
        self._contents = Contents(lambda work: self._do(self._lined(work)))
        self._presence: Presence
        self._writer: Writer
        self._lines: Lines
        self._line: Line
        try:
            self._home.call(self._open(lines, answer_secs))
        except (*FAULTS, ReplanError) as error:
            self._home.stop()
            raise translated(error, self.shown) from None

    async def _open(self, lines: int, answer_secs: float) -> None:
        connection = await psycopg.AsyncConnection.connect(**self._address.given, autocommit=True)
        try:
            await schema.prepare(connection, self._address)
        finally:
            connection.pgconn.finish()
        self._lines = Lines(self._address, lines, answer_secs=answer_secs)
        self._line = Line(self._address, answer_secs=answer_secs)
        self._presence = Presence(self._address, self._ears, self._ask)
        await self._presence.enter()
        self._writer = Writer(
            self._line, self._lines, self.shown, self._home, busy_secs=self._busy_secs, changed=self._appended
        )
        for work in (self._writer.work, self._presence.stay, self._presence.look, self._presence.tell):
            self._home.spawn(work())

    async def aclose(self) -> None:
        """Finish what is queued, end followers, and let go of every task."""
        if self._closed:
            return
        self._closed = True
        await self._home.do(self._writer.finish(), self._fault)
        self._ears.all()
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._home.stop(self._presence.leave)
        self._lines.drop()
        self._line.drop()
        for shared in (self._shared, self._delivering):
            if shared is not None:
                shared.close()

    # ── asking ──

    async def _ask(self, statement: str, params: Params | None = None) -> list[Row]:
        async with self._lines.one() as line:
            rows: list[Row] = await line.ask(statement, params)
            return rows

    async def _ask_again(self, statement: str, params: Params | None = None) -> list[Row]:
        """For what may be asked as often as one likes: until there is an answer."""
        patience = Patience(self._busy_secs)
        while True:
            try:
                return await self._ask(statement, params)
            except FAULTS as error:
                if not passes(error) or not await patience.again():
                    raise

    def _fault(self, error: BaseException) -> BaseException:
        return translated(error, self.shown)

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise StoreError(f"the store {self.shown} is closed")
        return await self._home.do(work, self._fault)

    def _appended(self, task_id: str) -> None:
        self._ears.changed(task_id, signal=False)
        self._presence.changed(task_id)

    # ── writing ──

    async def create(
        self, task_id: str, event: e.TaskSubmitted, ts: float, *, turn: Counted | None = None
    ) -> bool:
        wanted = work_of(event.settings)
        params: Params = {
            "task": task_id,
            "mine": self._presence.mine,
            "request": event.request(),
            "description": json.dumps(storable(event.description), ensure_ascii=False),
            "tenant": event.tenant,
            "session": event.session,
            "ts": ts,
            "epoch": secrets.randbits(EPOCH_BITS),
            "type": event.type,
            "data": e.dump(event),
            "queue": None if wanted is None else wanted.line,
            "priority": 0 if wanted is None else wanted.priority,
            "needs": "" if wanted is None else wanted.needs.model_dump_json(),
            "seen": None if turn is None else turn.seen,
        }

        async def work() -> bool:
            if await self._ask_again(sql.CREATE, params):
                return True
            rows = await self._ask_again(sql.KNOWN, {"task": task_id})
            if rows and rows[0][0] != params["request"]:
                raise TaskExists(task_id)
            if not rows and await self._ask_again(sql.GONE, {"task": task_id}):
                raise TaskGoneFrom(task_id)
            if turn is not None and not rows:
                raise Overtaken(turn.seen)
            return bool(rows and rows[0][1] == params["epoch"])  # ours: the first answer was lost

        return await self._do(work())

    async def claim(self, task_id: str, *, steal: bool = False) -> Claim:
        async def work(line: Line) -> Claim:
            params = {
                "task": task_id,
                "mine": self._presence.mine,
                "driven": self._driven.get(task_id, -1),
                "steal": steal,
            }
            rows = await line.ask(sql.CLAIM, params)
            if rows:
                claim = Claim(task_id, rows[0][0])
                self._driven[task_id] = claim.fence
                self._writer.begins(claim)
                return claim
            known = await line.ask(
                "SELECT holder, given_away FROM task WHERE task_id = %(task)s::text", {"task": task_id}
            )
            if not known:
                raise TaskNotFound(task_id)
            if known[0][1] is not None:
                raise TaskGivenAway(task_id, known[0][1])
            who = "this process already" if known[0][0] == self._presence.mine else "another process"
            raise TaskHeld(
                f"task {task_id!r} is being driven by {who} (watch it: `replan tasks watch {task_id}`)"
            )

        if self._closed:
            raise StoreError(f"the store {self.shown} is closed")
        claiming = self._writer.queue(work, of=task_id)
        try:
            claim: Claim = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(self._give_back)
            raise
        return claim

    def _give_back(self, claimed: asyncio.Future[Claim]) -> None:
        """Release a claim that nobody waits for any more."""
        if not claimed.cancelled() and claimed.exception() is None and not self._closed:
            releasing = asyncio.ensure_future(self._let_go(claimed.result()))
            releasing.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def confirm(self, claim: Claim) -> None:
        async def work() -> None:
            rows = await self._ask_again(sql.LOOK, {"task": claim.task_id})
            if not rows:
                raise TaskNotFound(claim.task_id)
            if rows[0][0] != claim.fence:
                raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver")

        await self._do(work())

    async def release(self, claim: Claim) -> None:
        await asyncio.shield(self._let_go(claim))

    async def _let_go(self, claim: Claim) -> None:
        """The fence goes up, so that nothing can be appended with the claim that was given back."""

        async def work(line: Line) -> None:
            try:
                await line.ask(sql.RELEASE, {"task": claim.task_id, "epoch": claim.fence})
            finally:
                # Even if it could not be written: nobody here drives it, so that it can be claimed here again.
                self._writer.over(claim)
                if self._driven.get(claim.task_id) == claim.fence:
                    del self._driven[claim.task_id]

        await self._writer.run(work, of=claim.task_id)

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
        asked = waiter()
        rows, status, ends = laid(events)
        if ends and any(isinstance(event, e.TERMINAL) for event in spelled_out(events)[:-1]):
            asked.future.set_exception(TaskEnded(f"nothing can come after the end of task {claim.task_id!r}"))
            return asked.future
        add = Add(
            claim, rows, sum([row.holds for row in rows]), ts, round, status, ends, artifacts, asked, 0, heard
        )
        try:
            add.size = sum([len(row.data.encode()) for row in rows])
        except UnicodeEncodeError as error:
            self._writer.submit(Work(self._writer.torn_by(claim, error), None, asked, claim.task_id))
            return asked.future
        self._writer.submit(add)
        return asked.future

    def redact(self, claim: Claim, redaction: Redaction) -> asyncio.Future[None]:
        async def work(line: Line) -> None:
            await redact.redact(line, claim, redaction)

        return asyncio.ensure_future(self._writer.run(work, claim, of=claim.task_id))

    async def signal(
        self, task_id: str, event: e.AnyEvent, ts: float, *, heard: int | None = None
    ) -> e.Record:
        if not event.signal:
            raise InputError(f"{event.type} can be written only by whoever drives the task")
        mark = secrets.token_hex(8)
        params: Params = {
            "task": task_id,
            "ts": ts,
            "type": event.type,
            "data": e.dump(event),
            "mark": mark,
            "told": notice(self._presence.mine, [task_id], signal=True),
        }
        statement = sql.SIGNAL
        if heard is not None:
            statement, params["heard"] = sql.SIGNAL_HEARD, heard

        async def work() -> e.Record:
            patience, doubt = Patience(self._busy_secs), False
            while True:
                try:
                    rows = (
                        await self._ask(sql.SIGNALLED, {"task": task_id, "mark": mark}) if doubt else []
                    ) or await self._ask(statement, params)
                    break
                except FAULTS as error:
                    if not passes(error) or not await patience.again():
                        raise
                    doubt = True
            if rows:
                self._ears.changed(task_id, signal=True)
                return e.Record(rows[0][0], task_id, ts, rows[0][1], event)
            known = await self._ask_again(sql.LOOK, {"task": task_id})
            if not known:
                raise TaskNotFound(task_id)
            if not known[0][3]:
                _refuse_mark(task_id, await self._ask_again(sql.GIVEN_AWAY, {"task": task_id}))
                if heard is not None:
                    raise NotHeard(task_id)
            raise TaskEnded(f"task {task_id!r} has ended ({known[0][4]}); an ended task never changes")

        return await self._do(work())

    async def delete(self, task_id: str, *, unfinished: bool = False) -> None:
        async def work(line: Line) -> list[bytes]:
            params = {
                "task": task_id,
                "mine": self._presence.mine,
                "driven": self._driven.get(task_id, -1),
                "unfinished": unfinished,
            }
            rows = await line.ask(sql.DELETE, params, more_secs=LONG_SECS)
            if rows:
                return [bytes(digest) for digest in rows[0][1] or ()]
            known = await line.ask(sql.LOOK, {"task": task_id})
            if not known:
                raise TaskNotFound(task_id)
            if shared := await line.ask(sql.FORKS, {"task": task_id}):
                raise TaskShared(task_id, [one[0] for one in shared])
            if not known[0][3] and not unfinished:
                held = await line.ask(f"{sql.SUMMARY} WHERE task_id = %(task)s::text", {"task": task_id})
                if not (held and self._held(held[0])):
                    raise TaskUnfinished(task_id, known[0][4])
            raise TaskHeld(f"task {task_id!r} is being driven and cannot be deleted; cancel it first")

        if self._closed:
            raise StoreError(f"the store {self.shown} is closed")
        used: list[bytes] = await self._writer.run(work, of=task_id)
        self._appended(task_id)  # who follows it sees that it is gone
        if used:
            await self._contents.unused(used)

    # ── forks ──

    async def fork(
        self,
        task_id: str,
        event: e.TaskForked,
        told: e.ForkMade,
        ts: float,
        *,
        work: needs.Work | None = None,
        turn: Counted | None = None,
    ) -> bool:
        params: Params = {
            "tenant": None if turn is None else turn.tenant, "seen": None if turn is None else turn.seen,
            "task": task_id, "request": event.request(), "ts": ts, "epoch": secrets.randbits(EPOCH_BITS),
            "at": event.at, "type": event.type, "data": e.dump(event),
            "told_type": told.type, "told_data": e.dump(told), "mark": secrets.token_hex(8),
            "queue": None if work is None else work.line,
            "priority": 0 if work is None else work.priority,
            "needs": "" if work is None else work.needs.model_dump_json(), "mine": self._presence.mine,
        }  # fmt: skip

        async def known() -> bool | None:
            rows = await self._ask_again(sql.KNOWN, {"task": task_id})
            if rows and rows[0][0] != params["request"]:
                raise TaskExists(task_id)
            return rows[0][1] == params["epoch"] if rows else None  # True: ours, the first answer was lost

        async def forked() -> bool:
            if (there := await known()) is not None:
                return there
            if await self._ask_again(sql.GONE, {"task": task_id}):
                raise TaskGoneFrom(task_id)
            which, where = "task_id = %(origin)s::text", {"origin": event.origin, "at": event.at}
            rows = await self._ask_again(sql.ORIGIN.format(which=which), where)
            if not rows:
                raise TaskNotFound(event.origin)
            if rows[0][6] is not None:
                raise SealedElsewhere(event.origin)
            _refuse_given(rows[0])
            event.check_place(rows[0][4], ended=rows[0][3])
            while event.at <= rows[0][2]:  # what is shared is not that task's own
                where = {"parent": rows[0][1], "at": event.at}
                rows = await self._ask_again(sql.ORIGIN.format(which="id = %(parent)s::bigint"), where)
                _refuse_given(rows[0])
            parent, *_, params["round"], _sealed, _given, _name = rows[0]
            params["parent"] = parent
            if elsewhere := await self._ask_again(sql.KIN_GONE, params):
                raise family_is_elsewhere(event.origin, elsewhere[0][0])
            name = await self._ask_again("SELECT task_id FROM task WHERE id = %(parent)s::bigint", params)
            params["told"] = notice(self._presence.mine, [row[0] for row in name], signal=True)
            made = await self._ask_again(sql.FORK, params)
            if made:
                self._ears.changed(made[0][0], signal=True)
                return True
            if (there := await known()) is None:
                again = await self._ask_again(sql.ORIGIN.format(which="id = %(parent)s::bigint"), params)
                _refuse_given(again[0] if again else ())  # just now
                if again and turn is not None:
                    raise Overtaken(turn.seen)
                raise TaskNotFound(event.origin)
            return there

        return await self._do(forked())

    async def rests_on(self, task_id: str) -> list[Shared]:
        await self.summary(task_id)
        rows = await self._do(self._ask_again(sql.RESTS_ON, {"task": task_id, "after": 0}))
        return [Shared(*row) for row in rows]

    async def forks(self, task_id: str) -> list[Shared]:
        await self.summary(task_id)
        return [Shared(*row) for row in await self._do(self._ask_again(sql.FORKS, {"task": task_id}))]

    async def family(self, task_id: str) -> list[Member]:
        rows = await self._do(self._ask_again(sql.FAMILY, {"task": task_id}))
        if not rows:
            raise TaskNotFound(task_id)
        return [Member(*row) for row in rows]

    async def take(self, claim: Claim, key: str, *, over: Taken | None = None) -> Taken:
        params: Params = {
            "task": claim.task_id, "epoch": claim.fence, "key": key,
            "over": None if over is None else over.task_id, "times": -1 if over is None else over.times,
        }  # fmt: skip
        rows = await self._do(self._ask_again(sql.TAKE, params))
        if not rows:
            raise StaleWriter(
                f"task {claim.task_id!r} has been taken over by another driver, or was given back"
            )
        return Taken(rows[0][0] or "", rows[0][1])

    async def reserve(self, task_id: str, keys: Sequence[str]) -> None:
        await self._do(self._ask_again(sql.RESERVE, {"task": task_id, "keys": list(keys)}))

    # ── reading ──

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[e.Record]:
        return (await self._do(self._page(task_id, after, limit, signals_only)))[0]

    async def _page(
        self, task_id: str, after: int, limit: int | None, signals_only: bool = False
    ) -> tuple[list[e.Record], bool]:
        """Records after `after`, at most `limit`; and whether nothing can come after these."""
        most = None if limit is None else max(limit, 0)
        after = max(after, 0)
        # Signals lie in rows of their own, and are far between.
        ends = most is not None and not signals_only
        params: Params = {"task": task_id, "after": after, "to": after + (most or 1) if ends else _NO_END}
        narrowed = {
            "only": _SIGNALS_ONLY if signals_only else "",
            "own": sql.OWN_TO if ends else "",
            "limit": "" if most is None else f"LIMIT {most or 1}",
        }
        rows = await self._ask_again(sql.PAGE.format(**narrowed), params)
        if not rows:
            raise TaskNotFound(task_id)
        records: list[e.Record] = []
        if rows[0][0] > after:  # a fork, whose log begins with another task's
            for *row, low, upto in await self._ask_again(sql.SHARED_PAGE.format(**narrowed), params):
                records += [one for one in records_of(task_id, [row], low) if one.seq <= upto]  # type: ignore[list-item]
        kept = (row[2:] for row in rows if row[2] is not None)
        records += records_of(task_id, kept, max(after, rows[0][0]))
        records, ended = records[:most], bool(rows[0][1])
        return records, ended and (limit is None or len(records) < limit)

    async def picked(self, after: Mapping[str, int], kinds: Collection[str]) -> dict[str, list[e.Record]]:
        rows = await self._do(self._lined(partial(picking.rows, after=after, kinds=kinds)))
        return await beside(picked_of, rows, kinds) if len(rows) > MANY else picked_of(rows, kinds)

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[e.Record]:
        watch = Watch()
        ear = self._ears.listen(task_id, watch.tell, signals=False)
        try:
            while not self._closed:
                watch.clear()
                records, last = await self._do(self._page(task_id, after, _FOLLOW_PAGE))
                for record in records:
                    yield record
                    if isinstance(record.event, e.TERMINAL):
                        return
                    after = record.seq
                if last:
                    return
                if len(records) < _FOLLOW_PAGE:
                    await watch.wait()
        except StoreError:
            if not self._closed:
                raise
        finally:
            ear.close()

    def listen(self, task_id: str, tell: Callable[[], None]) -> Ear:
        return self._ears.listen(task_id, tell, signals=True)

    async def list_tasks(
        self,
        *,
        status: Sequence[str] = (),
        limit: int = 100,
        before: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
    ) -> list[TaskSummary]:
        asked = partial(
            listing.rows, status=status, limit=limit, before=before, tenant=tenant, session=session
        )
        found = await self._do(self._lined(asked))
        return list(map(self._summary, found))

    async def let_in(self, tenant: str) -> int:
        rows = await self._do(self._ask_again(sql.LET_IN, {"tenant": tenant}))
        return int(rows[0][0]) if rows else 0

    async def count_tasks(self, tenant: str | None = None, *, unfinished: bool = False) -> int:
        counted = partial(listing.count, tenant=tenant, unfinished=unfinished)
        return await self._do(self._lined(counted))

    async def summary(self, task_id: str) -> TaskSummary:
        async def work() -> TaskSummary:
            rows = await self._ask_again(
                f"SELECT t.*, ({OTHERS}) FROM ({sql.SUMMARY} WHERE task_id = %(task)s::text) t",
                {"task": task_id, "mine": self._presence.mine},
            )
            if not rows:
                raise TaskNotFound(task_id)
            self._others = rows[0][-1] > 0
            return self._summary(rows[0])

        return await self._do(work())

    def others(self) -> bool:
        return self._others

    def _summary(self, row: Row) -> TaskSummary:
        task_id, status, description, created, updated, last_seq = row[:6]
        return TaskSummary(
            task_id,
            status,
            json.loads(description),
            created,
            updated,
            last_seq,
            held=(held := self._held(row)),
            left=row[6] is not None and not held,
            queue=(row[9] or "").rpartition(":")[0],
            due=bool(row[10]),
            given_away=row[11] or "",
            tenant=row[12],
            session=row[13],
            rewritten=row[14],
        )

    def _held(self, row: Row) -> bool:
        holder, epoch, alive = row[6:9]
        if holder == self._presence.mine:
            return bool(self._driven.get(row[0]) == epoch)
        return bool(alive)

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        return await self._contents.whole(task_id, artifact_id)

    def pieces(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        return self._contents.pieces(task_id, artifact_id)

    async def part(self, task_id: str, artifact_id: str, start: int, size: int) -> bytes:
        return await self._contents.part(task_id, artifact_id, start, size)

    async def keep(self, pieces: AsyncIterable[bytes]) -> Content:
        return await self._contents.keep(pieces)

    async def _lined(self, work: Callable[[Line], Coroutine[Any, Any, T]]) -> T:
        """For what may be done as often as one likes: until it is done."""
        patience = Patience(self._busy_secs)
        while True:
            try:
                return await self._with_line(work)
            except FAULTS as error:
                if not passes(error) or not await patience.again():
                    raise

    # ── from and to other stores ──

    async def stored(self, task_id: str) -> StoredTask:
        return await self._do(self._lined(lambda line: moving.stored(line, task_id)))

    async def rows(self, task_id: str, after: int = 0, limit: int = 500) -> list[StoredRow]:
        return await self._do(self._lined(lambda line: moving.rows(line, task_id, after, limit)))

    async def admit(self, admissions: Sequence[Admission], digest: str, *, not_gone_on: bool = False) -> None:
        epochs = moving.new_epochs(admissions)
        await self._do(
            self._lined(lambda line: moving.admit(line, admissions, digest, epochs, not_gone_on=not_gone_on))
        )

    async def undelivered(self, task_ids: Collection[str]) -> list[tuple[str, str]]:
        return await self._do(self._lined(lambda line: moving.undelivered(line, task_ids)))

    async def give_away(self, claims: Mapping[Claim, int], digest: str) -> None:
        await self._do(self._lined(lambda line: moving.give_away(line, claims, digest)))
        for claim in claims:
            self._writer.over(claim)
            self._driven.pop(claim.task_id, None)

    async def remove_given(self, task_ids: Sequence[str], digest: str) -> None:
        used = await self._do(self._lined(lambda line: moving.remove_given(line, task_ids, digest)))
        for task_id in task_ids:
            self._appended(task_id)
        if used:
            await self._contents.unused(used)

    async def take_back(self, task_ids: Sequence[str], digest: str | None = None) -> list[str]:
        return await self._do(self._lined(lambda line: moving.take_back(line, task_ids, digest)))

    # ── tidying ──

    async def sizes(
        self,
        *,
        status: Collection[str],
        before: float | None = None,
        below: int | None = None,
        limit: int = 100,
    ) -> list[KeptTask]:
        return await self._do(self._lined(lambda line: tidying.sizes(line, status, before, below, limit)))

    async def sweep(self) -> int:
        gone = 0
        while some := await self._do(self._lined(tidying.sweep)):
            gone += some
        return gone

    async def give_back(self) -> None:
        await self._do(self._with_line(tidying.give_back))

    async def now(self) -> float | None:
        return await self._do(self._lined(tidying.now))

    async def lived_since(self, before: float) -> float | None:
        return await self._do(self._lined(lambda line: tidying.lived_since(line, before)))

    async def tidy_due(self, secs: float) -> bool:
        return await self._do(self._with_line(lambda line: tidying.due(line, secs)))

    async def not_tidied(self) -> None:
        await self._do(self._with_line(tidying.forget))

    async def seal_key(self) -> bytes:
        if self._seal_key is None:
            made = secrets.token_bytes(32)

            async def work() -> bytes:
                await self._ask_again(
                    "INSERT INTO seal_key VALUES (1, %(key)s::bytea) ON CONFLICT DO NOTHING", {"key": made}
                )
                return bytes((await self._ask_again("SELECT key FROM seal_key"))[0][0])

            self._seal_key = await self._do(work())
        return self._seal_key

    # ── an engine beside it ──

    def shared(self) -> SharedDatabase:
        """What an engine gets that keeps its queue in the same database."""
        if self._shared is None:
            self._shared = SharedDatabase(self._address, self._home, self._presence, self._fault)
        return self._shared

    def outbox(self) -> PostgresOutbox:
        """Where the log is delivered from: over connections of its own, since a batch may be large."""
        if self._outbox is None:
            self._delivering = SharedDatabase(
                self._address, self._home, self._presence, self._fault, lines=2, answer_secs=LONG_ANSWER_SECS
            )
            self._outbox = PostgresOutbox(self._delivering)
        return self._outbox

    def keys(self) -> PostgresKeys:
        """The API keys of a service, and what its tenants may use."""
        return PostgresKeys(lambda statement, params: self._do(self._ask_again(statement, params)))

    # ── tools ──

    async def add_tool_stats(self, more: Mapping[ToolKey, ToolStats]) -> None:
        await self._do(self._with_line(lambda line: tool_memory.add(line, more, time.time())))

    async def tool_stats(self) -> dict[ToolKey, ToolStats]:
        return await self._do(self._with_line(tool_memory.read))

    async def remember_tools(self, names: Mapping[str, Collection[str]]) -> None:
        kept = {source: tuple(listed) for source, listed in names.items()}
        await self._do(self._with_line(lambda line: tool_memory.remember(line, kept, time.time())))

    async def remembered_tools(self) -> dict[str, tuple[str, ...]]:
        return await self._do(self._with_line(tool_memory.remembered))

    async def _with_line(self, work: Callable[[Line], Coroutine[Any, Any, T]]) -> T:
        async with self._lines.one() as line:
            return await work(line)


def _refuse_mark(task_id: str, rows: Sequence[Row]) -> None:
    if rows and rows[0][0] is not None:
        raise TaskGivenAway(task_id, rows[0][0])


def _refuse_given(origin: Sequence[Any]) -> None:
    """`TaskGivenAway` for a row of `statements.ORIGIN` that a file has."""
    if origin and origin[7] is not None:
        raise TaskGivenAway(origin[8], origin[7])
