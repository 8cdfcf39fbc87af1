"""`ports.Store` on a SQLite file."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sqlite3
import time
from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping

from replan.core.tools.stats import ToolKey, ToolStats
from replan.errors import StoreError, StoreFull, StoreUnusable
from replan.ports import Content
from replan.store import schema, tool_memory
from replan.store.keeping import keep
from replan.store.outbox import SqliteOutbox
from replan.store.reader import Reader
from replan.store.sqlite.claims import Claims
from replan.store.sqlite.family import Family
from replan.store.sqlite.moves import Moves
from replan.store.sqlite.reading import Reading
from replan.store.sqlite.task_list import TaskList
from replan.store.sqlite.tidying import Tidying
from replan.store.sqlite.writing import Writing
from replan.store.tenants.keys import SqliteKeys
from replan.store.writer import translate

LEAST_ROOM = 1_000_000
"""Bytes that have to be free for a task to begin: it would not come far with less."""


class SqliteStore(Claims, Writing, Reading, TaskList, Family, Moves, Tidying):
    """`ports.Store` on a SQLite file, which is made if it is not there."""

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        return await self._reader.artifact(task_id, artifact_id)

    def pieces(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        return self._reader.pieces(task_id, artifact_id)

    async def part(self, task_id: str, artifact_id: str, start: int, size: int) -> bytes:
        return await self._reader.part(task_id, artifact_id, start, size)

    async def keep(self, pieces: AsyncIterable[bytes]) -> Content:
        return await keep(self._writer, pieces)

    async def seal_key(self) -> bytes:
        if self._seal_key is None:
            made = secrets.token_bytes(32)

            def work(db: sqlite3.Connection) -> bytes:
                db.execute("INSERT OR IGNORE INTO seal_key VALUES (1, ?)", (made,))
                return bytes(db.execute("SELECT key FROM seal_key").fetchone()[0])

            self._seal_key = await self._writer.submit(work, large=True, durable=True)
        return self._seal_key

    async def try_write(self) -> None:
        if not self._is_there():
            raise StoreUnusable(
                f"the database {self.path} was deleted or replaced: let the file be where it is"
            )
        with contextlib.suppress(OSError):
            room = shutil.disk_usage(self.path.parent).free
            if room < LEAST_ROOM:
                raise StoreFull(
                    f"the database {self.path} cannot grow ({room} bytes are free): free some space"
                )
        await self._writer.submit(_write_nothing, large=True, patient=False)

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


def _write_nothing(db: sqlite3.Connection) -> None:
    """A page as it was, written anew."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    db.execute(f"PRAGMA user_version = {int(version)}")
