"""A file of tasks taken in: all of it, or nothing."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from typing import IO, NamedTuple, Protocol

from replan.beside import beside
from replan.core.events import Record, TaskSubmitted
from replan.core.limits.needs import work_of
from replan.core.state.task import ENDED
from replan.errors import InputError, SealedElsewhere, TaskGivenAway, TaskNotFound
from replan.ports import Admission, Content, Movable, Store, StoredRow
from replan.store.rows import records_of
from replan.store.transfer.framing import Cut, Unframed
from replan.store.transfer.log_check import LogCheck, row_of
from replan.store.transfer.manifest import (
    ARTIFACT,
    END,
    LOG,
    MANIFEST,
    Manifest,
    MovedTask,
    ending,
    read_end,
    read_manifest,
    seal_mark,
)

_MOST_MANIFEST = 64 << 20
_MOST_ROWS = 256 << 20
_MOST_END = 4_096


class Imported(NamedTuple):
    """What became of a task of the file."""

    task_id: str
    status: str
    new: bool
    """False: it was here already, the very same or further on."""
    further: bool = False
    """It has gone on here since: what the file has is the beginning of that. The status is the one here."""

    @property
    def goes_on(self) -> bool:
        """It has not ended."""
        return self.status not in ENDED


class Target(Store, Movable, Protocol):
    """The store that tasks come to."""


async def taken_in(
    store: Target,
    stream: AsyncIterable[bytes],
    in_clear: Callable[[TaskSubmitted], bool] = lambda _: False,
    *,
    not_gone_on: bool = False,
) -> list[Imported]:
    """The tasks of a file that `exported` has written. `InputError` says what is wrong with it, or which of
    them is here with another history; then no task has been taken in, and what was stored of outputs is removed within hours.

    `in_clear`: whether a task, by how it was submitted, has secrets in clear in its log: none of ours is exported then. `not_gone_on`:
    also what came in or was given away before, and is gone (`Movable.admit`)."""
    with tempfile.TemporaryFile("w+b", prefix="replan-import-") as spool:
        files = Unframed(stream)
        incoming, digest = await _read(store.keep, files, spool)
        for one in incoming:
            if isinstance(one.check.first, TaskSubmitted) and in_clear(one.check.first):
                raise InputError(
                    f"the log of task {one.task.task_id!r} has secrets in clear: no export of ours has, and here they would stand in clear"
                )
        mark = seal_mark(await store.seal_key()) if any(one.task.sealed_by for one in incoming) else ""
        found = [await _found(store, one, mark) for one in incoming]
        if new := [one.admission(mark) for one, known in zip(incoming, found, strict=True) if known.new]:
            try:
                await store.admit(new, digest, not_gone_on=not_gone_on)
            except InputError:
                found = [await _found(store, one, mark) for one in incoming]
                if any(known.new for known in found):
                    raise  # else somebody took in the same file just now
    return found


async def listed(stream: AsyncIterable[bytes]) -> list[str]:
    """The tasks of a file, by how it begins."""
    return [one.task_id for one in (await _manifest(Unframed(stream))).tasks]


async def read_through(stream: AsyncIterable[bytes]) -> tuple[list[str], str]:
    """The tasks of a file that is whole, and the digest in its end. `InputError` says what is wrong with it."""
    files = Unframed(stream)
    manifest = await _manifest(files)
    while True:
        name, size = await files.next()
        if name == END:
            break
        async for _ in files.body(size):
            pass
    return [one.task_id for one in manifest.tasks], await _check_end(files, name, size)


class Lacking(NamedTuple):
    """What a file that was not written to its end lacks."""

    digest: str
    """Of what is there, which is all but its end."""
    at: int
    """Where that is over."""
    rest: bytes


async def lacking(stream: AsyncIterable[bytes]) -> Lacking:
    """What would make a file whole of which the end alone is missing. `InputError` where more is."""
    files, inside = Unframed(stream), False
    try:
        await _manifest(files)
        while (one := await files.next())[0] != END:
            inside = True
            async for _ in files.body(one[1]):
                pass
            inside = False
        written = files.count - 1
        await _check_end(files, *one)
    except Cut:
        if inside or not files.begins:
            raise
        written = files.count - (files.last == END)
    return Lacking(files.before, files.begins, b"".join(ending(written, files.before)))


class _Incoming:
    """One task of the file: its rows are in the spool."""

    def __init__(self, task: MovedTask, parent: _Incoming | None, spool: IO[bytes]) -> None:
        self.task = task
        self.parent = parent
        self.check = LogCheck(task)
        self.files = 0
        self._spool = spool
        self._parts: list[tuple[int, int]] = []

    def take(self, data: bytes) -> None:
        if self.parent is not None and not self._parts:
            self.check.inherit(self.parent.records(self.task.shared))
        self.check.take(data)
        self._parts.append((self._spool.seek(0, 2), len(data)))
        self._spool.write(data)

    def rows(self) -> Iterator[StoredRow]:
        """Its own."""
        for at, size in self._parts:
            self._spool.seek(at)
            yield from map(row_of, self._spool.read(size).splitlines())

    def records(self, upto: int) -> Iterator[Record]:
        """Its history up to that event."""
        if self.parent is not None:
            yield from self.parent.records(min(upto, self.task.shared))
        for row in self.rows():
            for record in records_of(self.task.task_id, [row], 0):
                if record.seq > upto:
                    return
                yield record

    def line(self) -> list[_Incoming]:
        """Itself, and those that it rests on."""
        return [self, *(self.parent.line() if self.parent is not None else ())]

    def done(self) -> None:
        if self.parent is not None and self.parent.task.last_seq < self.task.shared:
            raise InputError(f"task {self.task.task_id!r} shares more events than {self.task.parent!r} has")
        self.check.done({one.artifact_id for before in self.line() for one in before.task.artifacts})

    def admission(self, own_mark: str) -> Admission:
        task = self.task
        firsts = [one.check.first for one in self.line()]
        root = firsts[-1]
        assert isinstance(root, TaskSubmitted)
        settings = next((one.settings for one in firsts if one is not None and one.settings is not None), {})
        ended = task.status in ENDED
        elsewhere = task.sealed_by not in (None, own_mark)
        if elsewhere and not ended:
            raise SealedElsewhere(task.task_id)
        return Admission(
            task.stored(task.sealed_by if elsewhere else None),
            self.rows,
            self.check.left,
            ended,
            root.description,
            work_of(settings),
            not ended and not self.check.rests,
            task.last_seq,
            root.tenant,
            root.session,
        )


async def check_readable(stream: AsyncIterable[bytes]) -> None:
    """`InputError` says why no import would take the file in, into whatever store."""
    with tempfile.TemporaryFile("w+b", prefix="replan-export-") as spool:
        incoming, _ = await _read(_only_looked_at, Unframed(stream), spool)
        for one in incoming:
            one.admission(one.task.sealed_by or "")


async def _only_looked_at(pieces: AsyncIterable[bytes]) -> Content:
    hashed, size = hashlib.sha256(), 0
    async for piece in pieces:
        hashed.update(piece)
        size += len(piece)
    return Content(hashed.hexdigest(), size)


async def _read(
    keep: Callable[[AsyncIterable[bytes]], Awaitable[Content]], files: Unframed, spool: IO[bytes]
) -> tuple[list[_Incoming], str]:
    manifest = await _manifest(files)
    by_id: dict[str, _Incoming] = {}
    for task in manifest.tasks:
        by_id[task.task_id] = _Incoming(task, by_id.get(task.parent or ""), spool)
    incoming, reached = list(by_id.values()), 0
    wanted = {one.digest: one.size for task in manifest.tasks for one in task.artifacts}
    while True:
        name, size = await files.next()
        if name == END:
            break
        if (log := LOG.fullmatch(name)) is not None and int(log[1]) <= len(incoming):
            one = incoming[int(log[1]) - 1]
            one.files += 1
            if int(log[2]) != one.files or int(log[1]) < reached:
                raise InputError(f"it is damaged: {name!r} is out of order")
            reached = int(log[1])
            await beside(one.take, await files.whole(name, size, _MOST_ROWS))
        elif (artifact := ARTIFACT.fullmatch(name)) is not None and artifact[1] in wanted:
            if wanted.pop(artifact[1]) != size:
                raise InputError(
                    f"it is damaged: {name!r} has {size:,} bytes, and its manifest says otherwise"
                )
            kept = await keep(files.body(size))
            if kept.digest != artifact[1]:
                raise InputError(f"{name!r} is not what its name says: its SHA-256 is {kept.digest}")
        else:
            raise InputError(f"it holds {name[:100]!r}, which its manifest does not speak of, or twice")
    digest = await _check_end(files, name, size)
    if wanted:
        raise InputError(f"it lacks artifacts that its manifest names: {', '.join(list(wanted)[:3])}")
    for one in incoming:
        one.done()
    return incoming, digest


async def _manifest(files: Unframed) -> Manifest:
    name, size = await files.next()
    if name != MANIFEST:
        raise InputError(f"it begins with {name[:100]!r}: no export begins so")
    return read_manifest(await files.whole(name, size, _MOST_MANIFEST))


async def _check_end(files: Unframed, name: str, size: int) -> str:
    """The digest in it."""
    before = files.before
    end = read_end(await files.whole(name, size, _MOST_END))
    if end.files != files.count - 1 or end.sha256 != before:
        raise InputError("it is damaged: its bytes are not those that were written")
    await files.end()
    return before


async def _found(store: Target, one: _Incoming, own_mark: str) -> Imported:
    """What is here of the task; `InputError` if it is another, or has another history."""
    wanted = one.task.stored(None if one.task.sealed_by == own_mark else one.task.sealed_by)
    task_id = wanted.task_id
    try:
        here = await store.stored(task_id)
    except TaskNotFound:
        return Imported(task_id, one.check.left, new=True)
    rows = await _rows_beside(store, one)
    # What a family has taken is no part of a history: it may have gone on.
    alike = [each._replace(artifacts=(), taken=()) for each in (here, wanted)]
    if alike[0] != alike[1] or rows.apart:
        raise InputError(
            _is_other(task_id, same=(here.created, here.request) == (wanted.created, wanted.request))
        )
    if rows.more_there or (not rows.more_here and {*here.artifacts} != {*wanted.artifacts}):
        raise InputError(
            f"task {task_id!r} is here already with another history than in the file, which has it further on: the one here is out of date "
            f"and must not go on; remove it first (`replan tasks delete {task_id}`), and import the file then"
        )
    summary = await store.summary(task_id)
    if summary.given_away:  # who says that such a file was imported nowhere is a person, by `take_back`
        raise TaskGivenAway(task_id, summary.given_away)
    return Imported(task_id, summary.status, new=False, further=rows.more_here)


def _is_other(task_id: str, *, same: bool) -> str:
    what = f"task {task_id!r} is here already with another history than in the file"
    if same:
        return (
            f"{what}, and both are the same task, which was gone on with in two places: leave it as it is here. Whatever else goes on with the "
            "file makes effects again that were made here"
        )
    return (
        f"{what}: it is another task of this name. Delete it here first (`replan tasks delete {task_id}`), if nobody needs it, or import the "
        "file into another database"
    )


class _Beside(NamedTuple):
    """The log that is here beside that of the file."""

    apart: bool = False
    more_here: bool = False
    more_there: bool = False


async def _rows_beside(store: Target, one: _Incoming) -> _Beside:
    after, rows = 0, one.rows()
    while here := await store.rows(one.task.task_id, after, 500):
        for row in here:
            if (there := next(rows, None)) is None:
                return _Beside(more_here=True)
            if row != there:
                return _Beside(apart=True)
        after = here[-1].seq
    return _Beside(more_there=next(rows, None) is not None)
