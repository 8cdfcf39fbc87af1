"""A store in memory that keeps the promises of the port, without threads and files."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from replan.core.events import (
    TERMINAL,
    AnyEvent,
    ForkMade,
    Record,
    TaskForked,
    TaskSubmitted,
    dump,
    load,
)
from replan.core.limits.needs import Work
from replan.core.plain_calls import Recorded, spelled_out
from replan.core.state.task import ENDED, status_of
from replan.core.tools.stats import ToolKey, ToolStats
from replan.errors import (
    InputError,
    NotHeard,
    ReplanError,
    StaleWriter,
    StoreError,
    TaskEnded,
    TaskExists,
    TaskHeld,
    TaskNotFound,
    TaskShared,
    TaskUnfinished,
)
from replan.ports import (
    Appended,
    Claim,
    Content,
    Counted,
    Member,
    NewArtifact,
    Redaction,
    Shared,
    Taken,
    TaskSummary,
)

_PIECE = 1 << 20


@dataclass
class _Task:
    request: str
    created: float
    fence: int
    records: list[Record] = field(default_factory=list)
    held: bool = False
    ended: bool = False
    status: str = "queued"
    parent: str | None = None
    shared: int = 0
    rewritten: int = 0
    said: int = 0
    """The number of the last event that people have written."""
    family: str = ""
    taken: dict[str, Taken] = field(default_factory=dict)
    """Of the first of a family: by the key of a call, which of them makes it."""
    artifacts: dict[str, bytes] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Listening:
    """Who is told of what people write to a task, and by which call."""

    tell: Callable[[], None]
    among: list[_Listening]

    def close(self) -> None:
        if self in self.among:
            self.among.remove(self)


class MemoryStore:
    """One `Store` in one process. Events go through their stored form, so that what cannot be stored fails here too.

    `crash()` forgets who holds what, as a killed process would, and voids every claim.
    """

    shown = "memory"

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._fences = itertools.count()
        """Of all tasks: an id that comes again has none of the fences that it had."""
        self._changed: dict[str, asyncio.Event] = {}
        self._closed = False
        self._listening: dict[str, list[_Listening]] = {}
        self._contents: dict[str, bytes] = {}
        self._tool_names: dict[str, tuple[str, ...]] = {}
        self._tool_stats: dict[ToolKey, ToolStats] = {}

    async def create(
        self, task_id: str, event: TaskSubmitted, ts: float, *, turn: Counted | None = None
    ) -> bool:
        """`turn` always holds: there is no other process."""
        request = event.request()
        if (known := self._tasks.get(task_id)) is not None:
            if known.request != request:
                raise TaskExists(task_id)
            return False
        task = self._tasks[task_id] = _Task(request, ts, next(self._fences))
        self._write(task_id, task, [event], ts, 0)
        return True

    async def claim(self, task_id: str, *, steal: bool = False) -> Claim:
        task = self._task(task_id)
        if task.held and not steal:
            raise TaskHeld(f"task {task_id!r} is driven by another living process")
        task.fence = next(self._fences)
        task.held = True
        return Claim(task_id, task.fence)

    async def confirm(self, claim: Claim) -> None:
        if self._task(claim.task_id).fence != claim.fence:
            raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver")

    async def release(self, claim: Claim) -> None:
        task = self._task(claim.task_id)
        if task.fence == claim.fence:
            task.held = False
            task.fence = next(self._fences)  # what was given back writes no more

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
        done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(self._append(claim, spelled_out(events), ts, round, artifacts, heard))
        except ReplanError as error:
            done.set_exception(error)
        return done

    def _append(
        self,
        claim: Claim,
        events: Sequence[AnyEvent],
        ts: float,
        round_: int,
        artifacts: Sequence[NewArtifact],
        heard: int | None,
    ) -> Appended:
        task = self._task(claim.task_id)
        if task.fence != claim.fence:
            raise StaleWriter(
                f"task {claim.task_id!r} has been taken over by another driver, or was given back"
            )
        if task.ended:
            raise TaskEnded(f"task {claim.task_id!r} has ended")
        if any(isinstance(event, TERMINAL) for event in events[:-1]):
            raise TaskEnded(f"nothing can come after the end of task {claim.task_id!r}")
        if heard is not None and task.said > heard:
            raise NotHeard(claim.task_id)
        for artifact in artifacts:
            if artifact.kept is not None and artifact.kept.digest not in self._contents:
                raise StoreError(f"the content of {artifact.artifact_id} was not kept")
        first = len(task.records) + 1
        self._write(claim.task_id, task, events, ts, round_)
        for artifact in artifacts:
            data = artifact.data if artifact.kept is None else self._contents[artifact.kept.digest]
            task.artifacts.setdefault(artifact.artifact_id, data)
        return Appended(first, len(task.records))

    def redact(self, claim: Claim, redaction: Redaction) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = self._task(claim.task_id)
        if task.fence != claim.fence:
            done.set_exception(StaleWriter(f"task {claim.task_id!r} has been taken over by another driver"))
            return done
        family = task.family or claim.task_id
        for name, each in self._tasks.items():  # what forks share shows the same secrets
            if family in (name, each.family):
                each.artifacts = {key: redaction.artifact(key, data) for key, data in each.artifacts.items()}
                each.records = [one._replace(event=redaction.event(one.event)) for one in each.records]
                each.rewritten += 1
        done.set_result(None)
        return done

    async def fork(
        self,
        task_id: str,
        event: TaskForked,
        told: ForkMade,
        ts: float,
        *,
        work: Work | None = None,
        turn: Counted | None = None,
    ) -> bool:
        request = event.request()
        if (known := self._tasks.get(task_id)) is not None:
            if known.request != request:
                raise TaskExists(task_id)
            return False
        origin = self._task(event.origin)
        event.check_place(len(origin.records), ended=origin.ended)
        parent = event.origin
        while event.at <= self._task(parent).shared:
            parent = self._task(parent).parent or parent
        task = _Task(request, ts, next(self._fences), parent=parent, shared=event.at)
        task.family = origin.family or event.origin
        task.records = [one._replace(task_id=task_id) for one in origin.records[: event.at]]
        self._tasks[task_id] = task
        self._write(task_id, task, [event], ts, task.records[-1].round)
        task.status, task.ended = "queued", False
        if not self._task(parent).ended:
            await self.signal(parent, told, ts)
        return True

    async def rests_on(self, task_id: str) -> list[Shared]:
        found, task = list[Shared](), self._task(task_id)
        while task.parent is not None:
            found.insert(0, Shared(task.parent, task.shared))
            task = self._task(task.parent)
        return found

    async def forks(self, task_id: str) -> list[Shared]:
        self._task(task_id)
        return [Shared(name, one.shared) for name, one in self._tasks.items() if one.parent == task_id]

    async def family(self, task_id: str) -> list[Member]:
        first = self._task(task_id).family or task_id
        return [
            Member(name, one.created, len(one.records))
            for name, one in self._tasks.items()
            if first in (name, one.family)
        ]

    async def take(self, claim: Claim, key: str, *, over: Taken | None = None) -> Taken:
        task = self._task(claim.task_id)
        if task.fence != claim.fence:
            raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver")
        taken = self._tasks[task.family or claim.task_id].taken
        before = taken.get(key)
        if before is None or before.task_id == claim.task_id or before == over:
            taken[key] = Taken(claim.task_id, before.times + 1 if before else 1)
        return taken[key]

    async def who_has(self, task_id: str, keys: Sequence[str]) -> dict[str, str]:
        taken = self._tasks[self._task(task_id).family or task_id].taken
        return {key: taken[key].task_id for key in keys if key in taken}

    async def reserve(self, task_id: str, keys: Sequence[str]) -> None:
        taken = self._tasks[self._task(task_id).family or task_id].taken
        for key in keys:
            taken.setdefault(key, Taken(task_id, 1))

    async def signal(self, task_id: str, event: AnyEvent, ts: float, *, heard: int | None = None) -> Record:
        if not event.signal:
            raise InputError(f"{event.type} can be written only by whoever drives the task")
        task = self._task(task_id)
        if task.ended:
            raise TaskEnded(f"task {task_id!r} has ended")
        if heard is not None and task.said > heard:
            raise NotHeard(task_id)
        self._write(task_id, task, [event], ts, task.records[-1].round)
        task.said = len(task.records)
        for listening in list(self._listening.get(task_id, ())):
            listening.tell()
        return task.records[-1]

    def listen(self, task_id: str, tell: Callable[[], None]) -> _Listening:
        among = self._listening.setdefault(task_id, [])
        among.append(_Listening(tell, among))
        return among[-1]

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[Record]:
        records = self._after(task_id, after, signals_only)
        return records if limit is None else records[: max(limit, 0)]

    def _after(self, task_id: str, after: int, signals_only: bool) -> list[Record]:
        records = self._task(task_id).records[max(after, 0) :]
        return [record for record in records if record.event.signal] if signals_only else records

    async def picked(self, after: Mapping[str, int], kinds: Collection[str]) -> dict[str, list[Record]]:
        found = {
            task_id: [
                record
                for record in self._tasks[task_id].records[max(last, self._tasks[task_id].shared) :]
                if record.type in kinds
            ]
            for task_id, last in after.items()
            if task_id in self._tasks
        }
        return {task_id: records for task_id, records in found.items() if records}

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Record]:
        task = self._task(task_id)
        seen = max(after, 0)
        while not self._closed:
            # Taken before the reading: what comes in between sets it.
            changed = self._changed.setdefault(task_id, asyncio.Event())
            ended = task.ended
            while seen < len(task.records):
                seen += 1
                yield task.records[seen - 1]
            if ended:
                return
            await changed.wait()

    async def list_tasks(
        self,
        *,
        status: Sequence[str] = (),
        limit: int = 100,
        before: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
    ) -> list[TaskSummary]:
        newest_first = list(reversed(self._tasks))
        if before is not None:
            if tenant not in (None, self._summary(before).tenant):
                raise TaskNotFound(before)
            newest_first = newest_first[newest_first.index(before) + 1 :]
        found = [
            one
            for one in map(self._summary, newest_first)
            if (not status or one.status in status)
            and tenant in (None, one.tenant)
            and (not session or session == one.session)
        ]
        return found[: max(limit, 0)]

    async def let_in(self, tenant: str) -> int:
        return 0

    async def count_tasks(self, tenant: str | None = None, *, unfinished: bool = False) -> int:
        summaries = map(self._summary, self._tasks)
        return sum(
            tenant in (None, one.tenant) and not (unfinished and one.status in ENDED) for one in summaries
        )

    def others(self) -> bool:
        return False

    async def summary(self, task_id: str) -> TaskSummary:
        await asyncio.sleep(0)  # as a database does
        return self._summary(task_id)

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        task = self._task(task_id)
        while artifact_id not in task.artifacts and task.parent is not None:
            task = self._task(task.parent)
        artifacts = task.artifacts
        if artifact_id not in artifacts:
            raise InputError(f"task {task_id!r} has no artifact {artifact_id!r}")
        return artifacts[artifact_id]

    async def pieces(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        data = await self.artifact(task_id, artifact_id)
        for at in range(0, len(data), _PIECE):
            yield data[at : at + _PIECE]

    async def part(self, task_id: str, artifact_id: str, start: int, size: int) -> bytes:
        return (await self.artifact(task_id, artifact_id))[start : start + size]

    async def keep(self, pieces: AsyncIterable[bytes]) -> Content:
        data = b"".join([piece async for piece in pieces])
        content = Content(hashlib.sha256(data).hexdigest(), len(data))
        self._contents[content.digest] = data
        return content

    async def add_tool_stats(self, more: Mapping[ToolKey, ToolStats]) -> None:
        for key, stats in more.items():
            known = self._tool_stats.setdefault(key, ToolStats())
            known.merge(ToolStats.from_json(stats.to_json()))

    async def delete(self, task_id: str, *, unfinished: bool = False) -> None:
        task = self._task(task_id)
        if task.held:
            raise TaskHeld(f"task {task_id!r} is being driven and cannot be deleted; cancel it first")
        if not task.ended and not unfinished:
            raise TaskUnfinished(task_id, task.status)
        if forks := await self.forks(task_id):
            raise TaskShared(task_id, [one.task_id for one in forks])
        if task.family:
            taken = self._tasks[task.family].taken
            taken |= {key: Taken("", one.times) for key, one in taken.items() if one.task_id == task_id}
        del self._tasks[task_id]
        if (changed := self._changed.pop(task_id, None)) is not None:
            changed.set()

    async def tool_stats(self) -> dict[ToolKey, ToolStats]:
        return {key: ToolStats.from_json(stats.to_json()) for key, stats in self._tool_stats.items()}

    async def remember_tools(self, names: Mapping[str, Collection[str]]) -> None:
        self._tool_names |= {source: tuple(listed) for source, listed in names.items()}

    async def seal_key(self) -> bytes:
        return b"the same for every process"

    async def remembered_tools(self) -> dict[str, tuple[str, ...]]:
        return dict(self._tool_names)

    async def try_write(self) -> None:
        """It takes whatever comes."""

    async def aclose(self) -> None:
        """End followers. What is stored can still be read."""
        self._closed = True
        for changed in self._changed.values():
            changed.set()

    def crash(self) -> None:
        """Forget every holder and void every claim: what the next process would find after a kill."""
        for task in self._tasks.values():
            task.held = False
            task.fence = next(self._fences)

    def _task(self, task_id: str) -> _Task:
        if task_id not in self._tasks:
            raise TaskNotFound(task_id)
        return self._tasks[task_id]

    def _summary(self, task_id: str) -> TaskSummary:
        task = self._task(task_id)
        first = task.records[0].event
        asked = first if isinstance(first, TaskSubmitted) else TaskSubmitted(description="")
        return TaskSummary(
            task_id=task_id,
            status=task.status,
            description=asked.description,
            created=task.created,
            updated=task.records[-1].ts,
            last_seq=len(task.records),
            held=task.held,
            tenant=asked.tenant,
            session=asked.session,
            rewritten=task.rewritten,
        )

    def _write(self, task_id: str, task: _Task, events: Sequence[AnyEvent], ts: float, round_: int) -> None:
        # Stored forms first: one event that cannot be stored keeps all of them out.
        stored = [load(event.type, dump(event).encode("utf-8")) for event in events if event.stored]
        for kept in stored:
            task.records.append(Record(len(task.records) + 1, task_id, ts, round_, kept))
            task.status = status_of(kept) or task.status
            task.ended = task.ended or isinstance(kept, TERMINAL)
        if stored and (changed := self._changed.pop(task_id, None)) is not None:
            changed.set()
