"""What is written to the log: tasks, events, signals, and what is taken out of them."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Sequence

from replan.core import events as e
from replan.core.data.strict_json import storable
from replan.core.limits.needs import work_of
from replan.core.plain_calls import Recorded, spelled_out
from replan.errors import (
    InputError,
    NotHeard,
    Overtaken,
    TaskEnded,
    TaskExists,
    TaskGivenAway,
    TaskGoneFrom,
    TaskNotFound,
)
from replan.ports import Appended, Claim, Counted, NewArtifact, Redaction
from replan.store.moving import EPOCH_BITS
from replan.store.postgres import redact
from replan.store.postgres import statements as sql
from replan.store.postgres.faults import FAULTS, passes
from replan.store.postgres.line import Line, Params, Patience, Row
from replan.store.postgres.ports.opened import Opened
from replan.store.postgres.presence import told as notice
from replan.store.postgres.writer import Add, Work
from replan.store.rows import laid
from replan.store.settling import waiter


class Writing(Opened):
    """What is written to the log: tasks, events, signals, and what is taken out of them."""

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


def _refuse_mark(task_id: str, rows: Sequence[Row]) -> None:
    if rows and rows[0][0] is not None:
        raise TaskGivenAway(task_id, rows[0][0])
