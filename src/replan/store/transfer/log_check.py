"""A log that comes from elsewhere, row by row: whether it is one that a task may have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any

from pydantic_core import from_json

from replan.core import events as e
from replan.core.state.fold import fold
from replan.core.state.task import State, TaskStatus, status_of
from replan.core.types import Artifact
from replan.errors import InputError
from replan.ports import StoredRow
from replan.store.rows import TOGETHER, records_of
from replan.store.transfer.manifest import MOST_TIME, MovedTask, in_short

_KIND = re.compile(r"[a-z][a-z0-9_]{0,99}")
_DATA = re.compile(rb',\s*"data":\s*')
_MOST_TOGETHER = 1_000
_MOST_ROUND = 2**31 - 1


class LogCheck:
    """Takes a task's rows in order; `done` when there are no more. `InputError` says what is wrong, and where."""

    def __init__(self, task: MovedTask) -> None:
        self._task = task
        self._seq = task.shared
        self._state = State()
        self._status: TaskStatus = "queued"
        """What the latest event says that says something."""
        self.left: TaskStatus = "queued"
        """The same of what its drivers have written: so stores keep it, until a driver goes on with what people have said."""
        self._named: set[str] = set()
        self._last: e.AnyEvent | None = None
        self.first: e.TaskSubmitted | e.TaskForked | None = None

    def inherit(self, records: Iterable[e.Record]) -> None:
        """The history that a fork shares: checked already, as another task's."""
        fold((one._replace(task_id=self._task.task_id) for one in records), self._state)

    def take(self, lines: bytes) -> None:
        """Some whole lines."""
        for line in lines.splitlines():
            row = row_of(line)
            try:
                records = self._records(row)
            except InputError as error:
                raise InputError(
                    f"the log of task {self._task.task_id!r}, after event {self._seq}: {error}"
                ) from None
            try:
                fold(records, self._state)
            except Exception as error:
                raise InputError(
                    f"the log of task {self._task.task_id!r} makes no sense at event {row.seq} ({row.type}): "
                    f"{type(error).__name__}: {in_short(error)}"
                ) from error
            self._seq = row.seq

    def _records(self, row: StoredRow) -> list[e.Record]:
        if not -MOST_TIME / 5 <= row.ts <= MOST_TIME or not 0 <= row.round <= _MOST_ROUND:
            raise InputError("a time or a round that is none")
        try:
            found = list(records_of(self._task.task_id, [row], 0))
            from_json(row.data, allow_inf_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"data that cannot be read: {in_short(error)}") from None
        if row.seq != self._seq + len(found) or not 0 < len(found) <= _MOST_TOGETHER:
            raise InputError(
                f"the next row ends with event {row.seq} and holds {len(found)}: there is a gap, or a double"
            )
        for event in [record.event for record in found]:
            if row.type == TOGETHER and event.signal:
                raise InputError(
                    f"{event.type!r} lies among others, where nobody looks for what people write"
                )
            if not _KIND.fullmatch(event.type):
                raise InputError(f"{event.type[:100]!r} is no kind of event")
            if e.misread(event):
                raise InputError(
                    f"a {event.type!r} event that this release cannot read: it is damaged, or written by a newer Replan"
                )
            if isinstance(self._last, e.TERMINAL):
                raise InputError(f"there is {event.type!r} after the end of the task")
            begins = e.TaskSubmitted if self._task.parent is None else e.TaskForked
            if isinstance(event, e.TaskSubmitted | e.TaskForked) != (self._last is None) or (
                self._last is None and not isinstance(event, begins)
            ):
                raise InputError(
                    "the first event, and no other, is `task_submitted`, or `task_forked` of a fork"
                )
            if isinstance(event, e.TaskSubmitted | e.TaskForked):
                self.first = event
            if isinstance(event, e.TaskForked) and event.at != self._task.shared:
                raise InputError(f"it was forked at {event.at}, and the manifest says {self._task.shared}")
            self._named.update(artifacts_of(event))
            self._status = brought = status_of(event) or self._status
            if not event.signal:
                self.left = brought
            self._last = event
        return found

    def done(self, shared: Collection[str] = ()) -> None:
        """There are no more. `shared`: the artifacts of the tasks that it rests on."""
        task = self._task
        if self._seq != task.last_seq:
            raise InputError(
                f"the log of task {task.task_id!r} ends at event {self._seq}, not at {task.last_seq}"
            )
        if task.status not in (self._status, self.left):  # earlier releases have written the second
            raise InputError(
                f"the log of task {task.task_id!r} comes to {self._status!r}, and the manifest says {task.status!r}"
            )
        if lost := self._named - {one.artifact_id for one in task.artifacts} - set(shared):
            raise InputError(
                f"the log of task {task.task_id!r} names artifacts that are not there: {', '.join(sorted(lost)[:5])}"
            )

    @property
    def rests(self) -> bool:
        """It waits until somebody resumes it, and whoever took it up would do so. Any other wait is for its driver to look at."""
        waiting = self._state.waiting
        return waiting is not None and waiting.until_resumed and not (self._last and self._last.signal)


def row_of(line: bytes) -> StoredRow:
    """A line as `outgoing.line_of` writes it."""
    try:
        given: Any = from_json(line, allow_inf_nan=False)
        at = _DATA.search(line)
        assert at is not None
        row = StoredRow(
            given["seq"], float(given["ts"]), given["round"], given["type"], line[at.end() : -1].decode()
        )
        if from_json(row.data, allow_inf_nan=False) != given["data"] or len(given) != 5:
            raise ValueError("the data do not stand last")
        if type(row.seq) is not int or type(row.round) is not int or type(row.type) is not str:
            raise ValueError("seq and round are whole numbers, type a text")
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError, OverflowError) as error:
        raise InputError(
            f'a line of a log is no {{"seq", "ts", "round", "type", "data"}}: {str(error)[:200] or "data are missing"}'
        ) from None
    return row


def artifacts_of(event: e.AnyEvent) -> Iterator[str]:
    """The artifacts that an event names."""
    for value in event.__dict__.values():
        if isinstance(value, Artifact):
            yield value.artifact_id
    if isinstance(event, e.CallCompleted | e.OutcomeSettled):
        yield from (file.artifact_id for file in event.files)
    if isinstance(event, e.PreviousTasksRead):
        for _, _, kept in chain.from_iterable(task.values() for task in event.tasks):
            yield from (one.artifact_id for one in (kept.artifact, *kept.files) if one is not None)
    if isinstance(event, e.ApprovalRequested):
        yield from event.kept.values()
