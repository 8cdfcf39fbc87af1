"""One thread that reads, on a connection of its own beside the writer's."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from json import dumps
from pathlib import Path
from typing import NamedTuple, TypeVar

from replan.beside import beside
from replan.core import events as e
from replan.core.state.task import ENDED
from replan.core.tools.stats import ToolKey, ToolStats
from replan.errors import StoreDamaged, StoreError, TaskNotFound
from replan.ports import Member, Shared
from replan.store import contents, forks, tool_memory
from replan.store.watch import News, Seen
from replan.store.writer import translate

T = TypeVar("T")


class Page(NamedTuple):
    """Some of a task's records."""

    records: list[e.Record]
    last: bool
    """The task has ended, and nothing can come after these."""


class Reader:
    """The store's only reading thread."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._pool = ThreadPoolExecutor(1, "replan-log-reader")
        self._closing = False
        try:  # what was written before this reader
            self.begun = _looked(connection, Seen()).seen
        except sqlite3.Error as error:
            self._pool.shutdown()
            raise translate(error, path) from None

    async def page(self, task_id: str, after: int, limit: int | None, signals_only: bool = False) -> Page:
        """Records after `after`, at most `limit`."""
        only = _SIGNALS_ONLY if signals_only else ""

        def work(db: sqlite3.Connection) -> Page:
            row = db.execute("SELECT id, status FROM task WHERE task_id = ?", (task_id,)).fetchone()
            if row is None:
                raise TaskNotFound(task_id)
            most = None if limit is None else max(limit, 0)
            history = forks.pieces(db, task_id, row[0], after)
            found = forks.records(db, task_id, history, -1 if most is None else most, only)
            records = list(itertools.islice(found, most))
            return Page(records, row[1] in ENDED and (limit is None or len(records) < limit))

        return await self.run(work)

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        def work(db: sqlite3.Connection) -> bytes:
            found = contents.find(db, task_id, artifact_id)
            return contents.check(contents.whole(db, found.number), found.content, artifact_id)

        return await self.run(work)

    async def pieces(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        found = await self.run(lambda db: contents.find(db, task_id, artifact_id))
        try:
            async for piece in self.checked(found, artifact_id):
                yield piece
        except StoreDamaged:
            await self.run(lambda db: contents.find(db, task_id, artifact_id))  # its task may be gone by now
            raise

    async def part(self, task_id: str, artifact_id: str, start: int, size: int) -> bytes:
        def work(db: sqlite3.Connection) -> bytes:
            return contents.part(db, contents.find(db, task_id, artifact_id).number, start, size)

        return await self.run(work)

    async def checked(self, found: contents.Found, artifact_id: str) -> AsyncIterator[bytes]:
        """The pieces of a content; each is a reading of its own, so that others have their turn."""
        hashed, n = hashlib.sha256(), 0
        while (piece := await self.run(partial(contents.piece, number=found.number, n=n))) is not None:
            await beside(hashed.update, piece)
            yield piece
            n += 1
        if hashed.hexdigest() != found.content.digest:
            raise contents.damaged(artifact_id)

    async def rests_on(self, task_id: str) -> list[Shared]:
        return await self.run(lambda db: forks.rests_on(db, task_id))

    async def forks(self, task_id: str) -> list[Shared]:
        return await self.run(lambda db: forks.forks_of(db, task_id))

    async def family(self, task_id: str) -> list[Member]:
        return await self.run(lambda db: forks.family(db, task_id))

    async def who_has(self, task_id: str, keys: Sequence[str]) -> dict[str, str]:
        return await self.run(lambda db: forks.who_has(db, task_id, keys))

    async def tool_stats(self) -> dict[ToolKey, ToolStats]:
        return await self.run(tool_memory.read)

    async def remembered_tools(self) -> dict[str, tuple[str, ...]]:
        return await self.run(tool_memory.remembered)

    async def look(self, seen: Seen) -> News:
        """What other connections have written since `seen`."""

        return await self.run(lambda db: _looked(db, seen))

    async def moved(self, read: Mapping[str, int], driven: Mapping[str, int]) -> list[str]:
        """Of tasks, each with the last event that is known of it, those of which there may be more.

        `driven`: the fences of those that are driven here; as long as they hold, nobody else appends to them.
        """
        held = {task_id: driven[task_id] for task_id in read if task_id in driven}
        free = {task_id: last for task_id, last in read.items() if task_id not in held}

        def work(db: sqlite3.Connection) -> list[str]:
            asked = ((_MOVED, free), (_TAKEN_OVER, held))
            return [row[0] for query, tasks in asked if tasks for row in db.execute(query, (dumps(tasks),))]

        return await self.run(work)

    def stop(self) -> None:
        """Take no more readings; what is queued is still done."""
        self._closing = True

    def close(self) -> None:
        self._pool.shutdown()
        self._connection.close()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What a reading gives."""

        def run() -> T:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                raise translate(error, self._path) from None

        if self._closing:
            raise StoreError(f"the store {self._path} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, run)


def _looked(db: sqlite3.Connection, seen: Seen) -> News:
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


_SIGNALS_ONLY = "AND type IN ({})".format(
    ", ".join(f"'{name}'" for name, kind in sorted(e.KINDS.items()) if kind.signal)
)
_MOVED = """SELECT j.key FROM json_each(?) j LEFT JOIN task ON task_id = j.key
 WHERE task.id IS NULL OR status IN ({}) OR (SELECT max(seq) FROM event WHERE task = task.id) > j.value""".format(
    ", ".join(f"'{status}'" for status in sorted(ENDED))
)
_TAKEN_OVER = "SELECT j.key FROM json_each(?) j LEFT JOIN task ON task_id = j.key WHERE epoch IS NULL OR epoch <> j.value"
