"""Tasks as a file for another store."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Collection, Sequence
from importlib.metadata import version
from typing import Protocol

from replan.core.state.task import ENDED
from replan.core.words import some
from replan.errors import (
    InputError,
    StaleWriter,
    StoreError,
    TaskGivenAway,
    TaskHeld,
    TaskNotFound,
    TaskShared,
)
from replan.ports import Claim, Movable, Store, StoredRow, StoredTask
from replan.store.transfer.framing import Frames
from replan.store.transfer.incoming import read_through
from replan.store.transfer.looking_through import come_to, marked
from replan.store.transfer.manifest import MANIFEST, Manifest, MovedArtifact, MovedTask, ending
from replan.store.transfer.rereading import Rereading

_FILE_BYTES = 4 << 20
"""A file of rows is closed when it has so many."""


class Source(Store, Movable, Protocol):
    """The store that tasks leave."""


@contextlib.asynccontextmanager
async def exported(
    store: Source, task_ids: Sequence[str], *, move: bool = False
) -> AsyncIterator[AsyncIterator[bytes]]:
    """The file, piece by piece. `move`: nobody drives the tasks meanwhile, and they are gone from here afterwards, all at once, once
    whoever takes the pieces has them safely and leaves without an error.

    Before the file is whole its tasks are marked as given away, all at once: whenever this process ends, those that are still here
    and may be in a whole file as well are driven by nobody. `finished` does the rest, `Movable.take_back` undoes it.
    """
    named = list(dict.fromkeys(task_ids))
    moving = _Moving(store, named)
    try:
        if move:
            await moving.claim()
        tasks = await _tasks(store, await _with_history(store, named), given_away=named if move else ())
        yield _written(store, tasks, moving if move else None)
    except BaseException:
        await moving.undo()
        raise
    if move:
        await moving.remove()


class _Moving:
    """The tasks that are given away."""

    def __init__(self, store: Source, named: Sequence[str]) -> None:
        self._store = store
        self._named = named
        self._claims: dict[str, Claim] = {}
        self._digest: str | None = None
        self.whole = False
        """All of the file was taken."""

    async def claim(self) -> None:
        for task_id in self._named:
            self._claims[task_id] = await _claimed(self._store, task_id)
        await _check_families(self._store, self._named)
        for task_id, consumer in await self._store.undelivered(self._named):
            raise InputError(
                f"the consumer {consumer!r} of the log has not got all of task {task_id!r} yet, and would never get it once the task is gone "
                f"from here: give it away afterwards (`replan outbox list` says how far each is; `replan outbox forget {consumer}` forgets it)"
            )

    async def mark(self, tasks: Sequence[MovedTask], digest: str) -> None:
        """What stands before the end of the file is written."""
        last = {one.task_id: one.last_seq for one in tasks}
        claims = {claim: last[task_id] for task_id, claim in self._claims.items()}
        self._digest = digest
        try:
            await self._store.give_away(claims, digest)
        except StaleWriter as error:
            raise StoreError(
                f"somebody wrote to the tasks while they were exported ({error}): they are still here, and what was exported of "
                "them is out of date; export them again"
            ) from None
        self._claims.clear()

    async def remove(self) -> None:
        if self._digest is None or not self.whole:
            await self.undo()
            raise InputError("the tasks are still here: not all of the file was taken")
        await _to_its_end(self._store.remove_given(self._named, self._digest))

    async def undo(self) -> None:
        """They go on here. Where that cannot be written they stay marked, and whoever comes to them is told."""
        if self._digest is not None:
            with contextlib.suppress(StoreError):
                await _to_its_end(self._store.take_back(self._named, self._digest))
        for claim in self._claims.values():
            with contextlib.suppress(StoreError):
                await _to_its_end(self._store.release(claim))


async def _to_its_end(work: Awaitable[object]) -> None:
    """Whoever cancels: the store is not closed before it is done. The cancellation goes on afterwards."""
    doing, cut = asyncio.ensure_future(work), None
    while not doing.done():
        try:
            await asyncio.wait({doing})
        except asyncio.CancelledError as error:
            cut = error
    if cut is not None:
        doing.cancelled() or doing.exception()
        raise cut
    doing.result()


async def finished(store: Source, task_ids: Collection[str], stream: AsyncIterable[bytes]) -> list[str]:
    """Remove all that were given away to this file, which is safe, and are still here: they are one move. Those of it that are gone now.

    `InputError` where one of these tasks was not given away to it, or it is not whole: then nothing is removed.
    """
    there, digest = await read_through(stream)
    stays, here = set[str](), list[str]()
    for task_id in dict.fromkeys((*task_ids, *there)):
        try:
            mark = (await store.summary(task_id)).given_away
        except TaskNotFound:
            if task_id not in there:
                raise
            continue
        if mark == digest and task_id in there:
            here.append(task_id)
            continue
        if task_id in task_ids:
            how = "it was given away to another file" if mark else "it was not given away to it"
            raise InputError(f"task {task_id!r} is still here, and {how}")
        stays.add(task_id)  # whose history another one rests on
    await store.remove_given(here, digest)
    return [task_id for task_id in there if task_id not in stays]


async def _with_history(store: Source, named: Sequence[str]) -> list[str]:
    """The tasks, each after those that its history rests on."""
    found: dict[str, None] = {}
    for task_id in named:
        found.update(dict.fromkeys([*(one.task_id for one in await store.rests_on(task_id)), task_id]))
    return list(found)


async def _check_families(store: Source, named: Sequence[str]) -> None:
    """`InputError` if one of a family would go on here and another one elsewhere: each could make the other's calls once more."""
    for task_id in named:
        line = await store.rests_on(task_id)
        family = [line[0].task_id if line else task_id]
        for one in family:
            family += [fork.task_id for fork in await store.forks(one)]
        going_on = [one for one in family if (await store.summary(one)).status not in ENDED]
        if left := [one for one in going_on if one not in named]:
            raise InputError(
                f"task {task_id!r} shares its history with {', '.join(left[:5])}, which would go on here: neither would know what "
                "the other does; give them away together, or let them end first"
            )
        if kept := [fork.task_id for fork in await store.forks(task_id) if fork.task_id not in named]:
            raise TaskShared(task_id, kept)


async def _claimed(store: Source, task_id: str) -> Claim:
    try:
        return await store.claim(task_id)
    except TaskGivenAway:
        raise
    except TaskHeld as error:
        raise TaskHeld(f"{error}; pause it or stop its driver, then export it") from None


async def _tasks(
    store: Source, task_ids: Sequence[str], given_away: Collection[str]
) -> list[tuple[StoredTask, MovedTask]]:
    tasks: list[tuple[StoredTask, MovedTask]] = []
    for task_id in task_ids:
        summary = await store.summary(task_id)
        if summary.given_away and task_id not in given_away:
            raise TaskGivenAway(task_id, summary.given_away)
        if summary.status not in ENDED and task_id not in given_away:
            raise InputError(
                f"task {task_id!r} has not ended ({summary.status}): two stores that go on with it would make its effects "
                "twice; give it away with --move (library: move=True), and it is here no more"
            )
        stored = await store.stored(task_id)
        artifacts = tuple(
            MovedArtifact(artifact_id=name, digest=content.digest, size=content.size)
            for name, content in stored.artifacts
        )
        moved = MovedTask(
            task_id=task_id,
            request=stored.request,
            created=stored.created,
            status=await come_to(store, summary),
            last_seq=summary.last_seq,
            artifacts=artifacts,
            parent=stored.parent,
            shared=stored.shared,
            taken=tuple(
                (key, owner if owner in task_ids else None, times) for key, owner, times in stored.taken
            ),
            sealed_by=stored.sealed_by,
        )
        tasks.append((stored, moved))
    return await marked(store, tasks)


async def _written(
    store: Source, tasks: Sequence[tuple[StoredTask, MovedTask]], moving: _Moving | None
) -> AsyncIterator[bytes]:
    """The file; `InputError` where a task goes meanwhile, and no end is written: nobody takes what there is for whole."""
    reread = Rereading() if moving is not None else None
    try:
        async for piece in _pieces(store, tasks, moving, reread):
            yield piece
    except TaskNotFound as error:
        raise InputError(
            f"{some(await _gone(store, tasks), 3)}: removed while exported (by `tasks delete`, `tasks prune` or retention): the file is not "
            "whole, export the others again"
        ) from error
    finally:
        if reread is not None:
            await reread.aclose()


async def _gone(store: Source, tasks: Sequence[tuple[StoredTask, MovedTask]]) -> list[str]:
    gone = list[str]()
    for _, moved in tasks:
        try:
            if (await store.summary(moved.task_id)).created == moved.created:
                continue
        except TaskNotFound:
            pass
        gone.append(moved.task_id)  # or it is another one of this name
    return gone


async def _pieces(
    store: Source,
    tasks: Sequence[tuple[StoredTask, MovedTask]],
    moving: _Moving | None,
    reread: Rereading | None,
) -> AsyncIterator[bytes]:
    frames = Frames()
    async for piece in _all_but_the_end(store, tasks, frames):
        if reread is not None:
            await reread.take(piece)
        yield piece
    end = ending(frames.count, frames.digest)
    if moving is not None and reread is not None:  # nobody has a whole file before
        await reread.take(b"".join(end))
        await reread.done()
        await moving.mark([moved for _, moved in tasks], frames.digest)
    else:
        for task_id in await _gone(store, tasks):
            raise TaskNotFound(task_id)
    for piece in end:
        yield piece
    if moving is not None:
        moving.whole = True


async def _all_but_the_end(
    store: Source, tasks: Sequence[tuple[StoredTask, MovedTask]], frames: Frames
) -> AsyncIterator[bytes]:
    manifest = Manifest(replan=version("replan"), tasks=tuple(moved for _, moved in tasks))
    yield frames.file(MANIFEST, _json(manifest))
    for number, (_, moved) in enumerate(tasks, 1):
        files = 0
        async for data in _logs(store, moved):
            files += 1
            yield frames.file(f"tasks/{number}/log-{files}.jsonl", data)
    seen: set[str] = set()
    for stored, moved in tasks:
        for name, content in stored.artifacts:
            if content.digest in seen:
                continue
            seen.add(content.digest)
            yield frames.head(f"artifacts/{content.digest}", content.size)
            async for piece in store.pieces(moved.task_id, name):
                yield frames.body(piece)
            yield frames.tail(content.size)


async def _logs(store: Source, moved: MovedTask) -> AsyncIterator[bytes]:
    """The rows up to `last_seq`, a line each, in files of some megabytes."""
    held, after = bytearray(), 0
    while after < moved.last_seq and (rows := await store.rows(moved.task_id, after, 200)):
        for row in rows:
            if row.seq > moved.last_seq:
                break
            held += line_of(row)
            if len(held) >= _FILE_BYTES:
                yield bytes(held)
                held.clear()
        after = rows[-1].seq
    if held:
        yield bytes(held)


def line_of(row: StoredRow) -> bytes:
    """A row as a line of JSON. Its data stand last, as they are: byte for byte."""
    if "\n" in row.data:  # between values; ours have none
        row = row._replace(data=json.dumps(json.loads(row.data), ensure_ascii=False))
    head = json.dumps(
        {"seq": row.seq, "ts": row.ts, "round": row.round, "type": row.type}, ensure_ascii=False
    )
    return f'{head[:-1]}, "data": {row.data}}}\n'.encode()


def _json(value: Manifest) -> bytes:
    return value.model_dump_json(indent=1).encode() + b"\n"
