"""The one way by which a driver's events get into the database, in the order they came.

What waits when the line is free goes out together, in one statement. An append has a number of its own, so that one
whose answer was lost is looked up: it is there, or it is sent again; it is never there twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from replan.errors import NotHeard, ReplanError, StaleWriter, StoreBusy, StoreError, TaskEnded, TaskNotFound
from replan.ports import Appended, Claim, NewArtifact
from replan.store.postgres.faults import FAULTS, passes, translated
from replan.store.postgres.gates import Gates
from replan.store.postgres.kept import artifacts
from replan.store.postgres.line import Line, Lines, Params, Patience, Row, secs_for
from replan.store.postgres.statements import APPEND, APPEND_HEARD, APPEND_MANY, APPEND_ROW, LOOK, SEPARATOR
from replan.store.postgres.worker_loop import WorkerLoop
from replan.store.rows import EventRow
from replan.store.settling import Settled, Waiter, settle, waiter

_MOST_TASKS, _MOST_BYTES = 500, 4_000_000
"""What goes into one statement."""


@dataclass(slots=True)
class Add:
    """One append that waits."""

    claim: Claim
    rows: list[EventRow]
    holds: int
    ts: float
    round: int
    status: str | None
    ends: bool
    artifacts: Sequence[NewArtifact]
    asked: Waiter
    size: int
    heard: int | None = None
    """It is written only if people have written nothing after that."""
    digests: list[bytes] = field(default_factory=list)
    """Of the artifacts, once they are stored."""


@dataclass(slots=True)
class Work:
    """Something else that has its place among the appends."""

    work: Callable[[Line], Awaitable[Any]]
    chain: Hashable
    asked: Waiter
    of: str | None = None
    """The task that it is about: behind all that was appended to that before."""


@dataclass(slots=True)
class _Entry:
    """The appends of one claim that go out together."""

    claim: Claim
    number: int
    adds: list[Add] = field(default_factory=list)

    @property
    def holds(self) -> int:
        return sum(add.holds for add in self.adds)

    @property
    def size(self) -> int:
        return sum(add.size for add in self.adds)

    @property
    def heard(self) -> int | None:
        return self.adds[0].heard

    @property
    def alone(self) -> bool:
        """It does not go out in one statement with those of other tasks."""
        return any(add.artifacts for add in self.adds)

    @property
    def status(self) -> str | None:
        return next((add.status for add in reversed(self.adds) if add.status is not None), None)


class Writer:
    """The writing line. Everything but `submit` runs in the store's own loop."""

    def __init__(
        self,
        line: Line,
        lines: Lines,
        shown: str,
        home: WorkerLoop,
        *,
        busy_secs: float,
        changed: Callable[[str], None],
    ) -> None:
        """`lines`: by which large outputs go, beside the appends."""
        self._line = line
        self._lines = lines
        self._gates: Gates[Add | Work] = Gates(self._stored, self._queued, self._beside)
        self._shown = shown
        self._home = home
        self._busy_secs = busy_secs
        self._changed = changed
        self._jobs: deque[Add | Work] = deque()
        self._news = asyncio.Event()
        self._idle = True
        self._closing = False
        self._numbers: dict[Claim, int] = {}
        """The last append of each claim that this store has."""
        self._torn: dict[Hashable, BaseException] = {}
        """Chains that lost a link: what was to come after it must not be written either."""
        self._ended = asyncio.Event()

    def submit(self, job: Add | Work) -> None:
        """Queue it; from any thread."""
        if self._closing:
            settle([(job.asked, None, StoreError(f"the store {self._shown} is closed"))])
            return
        if isinstance(job, Add):
            task_id, unready = job.claim.task_id, any(artifact.kept is None for artifact in job.artifacts)
            if not unready:
                job.digests = [
                    bytes.fromhex(one.kept.digest) for one in job.artifacts if one.kept is not None
                ]
        else:
            task_id, unready = job.of or "", False
        if not self._gates.holds(task_id, job, unready=unready):
            self._queued(job)

    def _queued(self, job: Add | Work) -> None:
        self._jobs.append(job)
        if self._idle:
            self._idle = False
            self._home.loop.call_soon_threadsafe(self._news.set)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        self._home.loop.call_soon_threadsafe(self._home.spawn, work)

    async def run(
        self, work: Callable[[Line], Awaitable[Any]], chain: Hashable = None, *, of: str | None = None
    ) -> Any:
        """Do it in its place among the appends; from any loop, and to its end if nobody waits any more."""
        return await asyncio.shield(self.queue(work, chain, of=of))

    def queue(
        self, work: Callable[[Line], Awaitable[Any]], chain: Hashable = None, *, of: str | None = None
    ) -> asyncio.Future[Any]:
        """The same, for whoever does not wait at once."""
        asked = waiter()
        self.submit(Work(work, chain, asked, of))
        return asked.future

    def begins(self, claim: Claim) -> None:
        """A claim was taken: its appends are counted from one."""
        self._numbers[claim] = 0

    def torn_by(self, claim: Claim, error: Exception) -> Callable[[Line], Awaitable[None]]:
        """In its place among the appends: what one of a claim's is that cannot be written."""

        async def work(line: Line) -> None:
            self._torn.setdefault(claim, error)
            raise error

        return work

    def over(self, claim: Claim) -> None:
        """Nothing more will come of that claim."""
        self._numbers.pop(claim, None)
        self._torn.pop(claim, None)

    async def work(self) -> None:
        """Write what comes, until the store is closed and all of it is written."""
        while True:
            if not self._jobs:
                if self._closing and self._gates.empty:
                    self._ended.set()
                    return
                self._idle = True
                if not self._jobs:  # none came before that was said
                    await self._news.wait()
                self._news.clear()
                self._idle = False
                continue
            if isinstance(self._jobs[0], Work):
                job = self._jobs.popleft()
                assert isinstance(job, Work)
                settle([await self._one(job)])
            else:
                await self._append(self._next())

    async def finish(self) -> None:
        """Take no more; what is queued is still written."""
        self._closing = True
        self._news.set()
        await self._ended.wait()

    async def _one(self, job: Work) -> Settled:
        if job.chain is not None and (torn := self._torn.get(job.chain)) is not None:
            return job.asked, None, torn
        patience = Patience(self._busy_secs if not self._closing else min(self._busy_secs, 2.0))
        while True:
            try:
                return job.asked, await job.work(self._line), None
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to who asked
                if passes(error) and not isinstance(error, ReplanError) and await patience.again():
                    continue
                failure = translated(error, self._shown)
                if job.chain is not None and failure is not error:
                    self._torn.setdefault(job.chain, failure)
                return job.asked, None, failure

    def _next(self) -> list[_Entry]:
        """The appends that go out now: in order, each claim's together, none behind the end of its task."""
        entries: dict[Claim, _Entry] = {}
        later: list[Add] = []
        size, closed = 0, set[Claim]()
        while (
            self._jobs
            and isinstance(self._jobs[0], Add)
            and size < _MOST_BYTES
            and len(entries) < _MOST_TASKS
        ):
            add = self._jobs.popleft()
            assert isinstance(add, Add)
            if add.claim in closed:
                later.append(add)
                continue
            entry = entries.get(add.claim)
            if add.heard is not None and entry is not None:  # what is refused is refused by itself
                closed.add(add.claim)
                later.append(add)
                continue
            if entry is None:
                entry = entries[add.claim] = _Entry(add.claim, self._numbers.get(add.claim, 0) + 1)
            entry.adds.append(add)
            size += add.size
            # Artifacts go with one task's statement, and nothing comes after an end.
            if add.ends or add.artifacts or add.heard is not None:
                closed.add(add.claim)
            if add.artifacts:
                break
        self._jobs.extendleft(reversed(later))
        return list(entries.values())

    async def _append(self, entries: list[_Entry]) -> None:
        done: list[Settled] = []
        for entry in entries:
            if (torn := self._torn.get(entry.claim)) is not None:
                done += [(add.asked, None, torn) for add in entry.adds]
        entries = [entry for entry in entries if entry.claim not in self._torn]
        settle(done)
        if len({entry.claim.task_id for entry in entries}) < len(entries):
            for entry in entries:  # an old claim of a task beside a new one: each by itself
                await self._send([entry])
        elif entries:
            await self._send(entries)

    async def _send(self, entries: list[_Entry]) -> None:
        """Send them until it is known what became of each."""
        patience = Patience(self._busy_secs)
        while entries:
            try:
                written = await self._written(entries)
            except Exception as error:  # noqa: BLE001 - likewise
                if not passes(error):
                    if len(entries) > 1:  # only what cannot be written fails
                        for entry in entries:
                            await self._send([entry])
                    else:
                        self._fail(entries[0], translated(error, self._shown))
                    return
                entries = await self._looked_up(entries, error, patience)
                continue
            for entry in entries:
                if (last := written.get(entry.claim.task_id)) is not None:
                    self._landed(entry, last)
                else:
                    await self._refused(entry)
            return

    async def _written(self, entries: list[_Entry]) -> dict[str, int]:
        if len(entries) == 1 and (row := _only_row(entries[0])) is not None:
            rows = await self._line.ask(APPEND_ROW, row, more_secs=secs_for(entries[0].size))
            return {entries[0].claim.task_id: rows[0][0]} if rows else {}
        alone = [entry for entry in entries if len(entries) == 1 or entry.alone]
        found: dict[str, int] = {}
        plain = [entry for entry in entries if entry not in alone]
        if plain:
            found = dict(
                await self._line.ask(
                    APPEND_MANY, _many(plain), more_secs=secs_for(sum(one.size for one in plain))
                )
            )
        for entry in alone:
            statement = APPEND if entry.heard is None else APPEND_HEARD
            rows = await self._line.ask(statement, _single(entry), more_secs=secs_for(entry.size))
            if rows:
                found[entry.claim.task_id] = rows[0][0]
        return found

    async def _stored(self, job: Add | Work) -> None:
        """Store the artifacts of an append that comes next; what cannot be stored ends what is written under its claim."""
        assert isinstance(job, Add)
        patience = Patience(self._busy_secs)
        for artifact in job.artifacts:
            while job.claim not in self._torn:
                try:
                    if artifact.kept is None:
                        job.digests.append(await artifacts.put(self._lines, artifact.data))
                    else:
                        job.digests.append(bytes.fromhex(artifact.kept.digest))
                    break
                except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to who asked
                    if not (passes(error) and await patience.again()):
                        self._torn.setdefault(job.claim, translated(error, self._shown))

    async def _looked_up(
        self, entries: list[_Entry], error: BaseException, patience: Patience
    ) -> list[_Entry]:
        """Those that are to be sent again: an append whose answer was lost may have landed."""
        while True:
            if not await patience.again():
                failure = translated(error, self._shown)
                if not isinstance(failure, ReplanError):
                    failure = StoreBusy(f"the database {self._shown} does not answer: {error}")
                for entry in entries:
                    self._fail(entry, failure)
                return []
            try:
                looked = [
                    (entry, await self._line.ask(LOOK, {"task": entry.claim.task_id})) for entry in entries
                ]
            except FAULTS as again:
                if not passes(again):
                    raise
                error = again
                continue
            left: list[_Entry] = []
            for entry, rows in looked:
                if not rows:
                    self._refuse(entry, TaskNotFound(entry.claim.task_id))
                    continue
                epoch, number, last, ended, _status = rows[0]
                if epoch == entry.claim.fence and number == entry.number:
                    self._landed(entry, last)
                elif epoch == entry.claim.fence and number == entry.number - 1 and not ended:
                    left.append(entry)
                else:
                    self._refuse(entry, _why(entry, rows[0]))
            return left

    def _landed(self, entry: _Entry, last: int) -> None:
        if entry.claim in self._numbers:
            self._numbers[entry.claim] = entry.number
        first = last - entry.holds + 1
        done: list[Settled] = []
        for add in entry.adds:
            done.append((add.asked, Appended(first, first + add.holds - 1), None))
            first += add.holds
        settle(done)
        self._changed(entry.claim.task_id)

    async def _refused(self, entry: _Entry) -> None:
        patience = Patience(self._busy_secs)
        while True:
            try:
                rows = await self._line.ask(LOOK, {"task": entry.claim.task_id})
            except FAULTS as error:
                if passes(error) and await patience.again():
                    continue
                self._fail(entry, translated(error, self._shown))
                return
            self._refuse(entry, _why(entry, rows[0]) if rows else TaskNotFound(entry.claim.task_id))
            return

    def _refuse(self, entry: _Entry, why: BaseException) -> None:
        settle([(add.asked, None, why) for add in entry.adds])

    def _fail(self, entry: _Entry, why: BaseException) -> None:
        why = self._torn.setdefault(entry.claim, why)
        settle([(add.asked, None, why) for add in entry.adds])


def _why(entry: _Entry, row: Row) -> ReplanError:
    epoch, number, _last, ended, status = row
    task_id = entry.claim.task_id
    if epoch != entry.claim.fence:
        return StaleWriter(f"task {task_id!r} has been taken over by another driver, or was given back")
    if ended:
        return TaskEnded(f"task {task_id!r} has ended ({status}); an ended task never changes")
    if entry.heard is not None and number == entry.number - 1:
        return NotHeard(task_id)
    return StaleWriter(
        f"the database has lost events of task {task_id!r} that it had acknowledged (append {number} is the last of "
        f"at least {entry.number - 1}; a server that took over without them, or a backup): the task goes on from what is left"
    )


def _only_row(entry: _Entry) -> Params | None:
    """What an append of one row without artifacts is; None for any other."""
    add = entry.adds[0]
    if len(entry.adds) > 1 or len(add.rows) != 1 or add.artifacts or add.heard is not None:
        return None
    row = add.rows[0]
    return {
        "task": entry.claim.task_id,
        "epoch": entry.claim.fence,
        "k": entry.number,
        "n": add.holds,
        "updated": add.ts,
        "status": add.status,
        "ends": add.ends,
        "round": add.round,
        "type": row.type,
        "data": row.data,
    }


def _single(entry: _Entry) -> Params:
    ats, times, rounds, types, datas = _columns(entry)
    return {
        "task": entry.claim.task_id,
        "epoch": entry.claim.fence,
        "k": entry.number,
        "n": entry.holds,
        "updated": entry.adds[-1].ts,
        "status": entry.status,
        "ends": entry.adds[-1].ends,
        "ats": ats,
        "times": times,
        "rounds": rounds,
        "types": _joined(types),
        "datas": _joined(datas),
        "heard": entry.heard,
        "artifacts": [artifact.artifact_id for add in entry.adds for artifact in add.artifacts],
        "digests": [digest for add in entry.adds for digest in add.digests],
    }


def _many(entries: list[_Entry]) -> Params:
    columns = [_columns(entry) for entry in entries]
    return {
        "tasks": [entry.claim.task_id for entry in entries],
        "epochs": [entry.claim.fence for entry in entries],
        "ks": [entry.number for entry in entries],
        "ns": [entry.holds for entry in entries],
        "updateds": [entry.adds[-1].ts for entry in entries],
        "statuses": [entry.status for entry in entries],
        "endss": [entry.adds[-1].ends for entry in entries],
        "heards": [entry.heard for entry in entries],
        "owners": _joined(
            [entry.claim.task_id for entry, one in zip(entries, columns, strict=True) for _ in one[0]]
        ),
        "ats": [at for one in columns for at in one[0]],
        "times": [ts for one in columns for ts in one[1]],
        "rounds": [number for one in columns for number in one[2]],
        "types": _joined([kind for one in columns for kind in one[3]]),
        "datas": _joined([data for one in columns for data in one[4]]),
    }


def _columns(entry: _Entry) -> tuple[list[int], list[float], list[int], list[str], list[str]]:
    ats: list[int] = []
    times: list[float] = []
    rounds: list[int] = []
    types: list[str] = []
    datas: list[str] = []
    at = 0
    for add in entry.adds:
        for row in add.rows:
            at += row.holds
            ats.append(at)
            times.append(add.ts)
            rounds.append(add.round)
            types.append(row.type)
            datas.append(row.data)
    return ats, times, rounds, types, datas


def _joined(texts: list[str]) -> str | None:
    """One text of many; None for none, as no text is what one empty text is, too."""
    return SEPARATOR.join(texts) if texts else None
