"""Idempotency keys that a server remembers, in SQLite: in a file, or in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

from replan.errors import InputError

TTL_SECS = 7 * 86_400.0
MAX_BYTES = 2**30
"""Answers that are kept in a file; in memory it is a sixteenth of that."""
_SCHEMA = """
create table if not exists meta (name text primary key, value text not null) without rowid;
create table if not exists call (
    key text primary key,
    content text not null,
    answer blob,
    size integer not null default 0,
    at real not null
) without rowid;
create index if not exists call_at on call (at);
create index if not exists answered_at on call (at) where answer is not null;
"""
_VERSION = 1


class Known(NamedTuple):
    """What is remembered of a key. `new`: nothing was, and now it has begun; `begun`: no answer is known."""

    state: Literal["new", "begun", "answered", "other"]
    answer: bytes | None = None


class Keys:
    """Calls by key: begun, and answered.

    With a `path` they outlive the process, and are on disk (SQLite's WAL, synchronous=NORMAL: a killed process loses
    nothing) before the tool is called, and before the answer goes out. One server at a time has a file. Keys are
    forgotten after `ttl_secs`. Answers beyond `max_bytes` together are forgotten, the oldest first, and their keys
    are then as those of calls whose end nobody knows.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        ttl_secs: float = TTL_SECS,
        max_bytes: int | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.durable = path is not None
        self.store = ""
        """A random name of this memory: the same as long as nothing of it is lost."""
        self._path = path
        self._ttl = ttl_secs
        self._max_bytes = max_bytes or (MAX_BYTES if path else MAX_BYTES // 16)
        self._now = now
        self._size = 0
        self._swept = 0.0
        self._database: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replan-keys")

    async def open(self) -> None:
        """`InputError` if the file cannot be used, or another server has it."""
        await self._do(self._open)

    async def begin(self, key: str, content: str) -> Known:
        """Remember that the call begins, unless something is known of its key. `content` tells it from others."""
        known: Known = await self._do(self._begin, key, content)
        return known

    async def answer(self, key: str, answer: bytes) -> None:
        await self._do(self._answer, key, answer)

    async def forget(self, key: str) -> None:
        """The call surely did not take place: its key is free again."""
        await self._do(self._forget, key)

    async def aclose(self) -> None:
        await self._do(self._close)
        self._thread.shutdown(wait=False)

    async def _do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # Shielded: who is cancelled must not leave a half-known state to the next one.
        future = asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
        return await asyncio.shield(future)

    def _open(self) -> None:
        try:
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                # Answers stand in it: it is nobody else's. SQLite gives its companions the same rights.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            database = sqlite3.connect(
                self._path or ":memory:", timeout=0.5, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"the file of keys {self._path} cannot be opened: {error}") from error
        try:
            database.execute("pragma locking_mode=exclusive")
            database.execute("pragma journal_mode=wal")
            database.execute("pragma synchronous=normal")
            database.execute("begin exclusive")
            database.execute("commit")
            (version,) = database.execute("pragma user_version").fetchone()
            if version not in (0, _VERSION):
                raise InputError(f"the file of keys {self._path} is of version {version}; use another file")
            database.executescript(_SCHEMA)
            database.execute(f"pragma user_version={_VERSION}")
            database.execute("insert or ignore into meta values ('store', ?)", (secrets.token_hex(8),))
            (self.store,) = database.execute("select value from meta where name = 'store'").fetchone()
            (self._size,) = database.execute("select coalesce(sum(size), 0) from call").fetchone()
        except BaseException as error:
            database.close()
            if not isinstance(error, sqlite3.Error):
                raise
            reason = (
                "another server uses it, as another one for the same tools does unless it is told otherwise; each needs a file of its "
                "own: --keys FILE"
                if "locked" in str(error)
                else f"{error}; it has to be a file that a tool server has made, or a new one"
            )
            raise InputError(f"the file of keys {self._path} cannot be used: {reason}") from error
        self._database = database

    def _begin(self, key: str, content: str) -> Known:
        self._sweep()
        database = self._open_database()
        row = database.execute("select content, answer from call where key = ?", (key,)).fetchone()
        if row is None:
            database.execute(
                "insert into call (key, content, at) values (?, ?, ?)", (key, content, self._now())
            )
            return Known("new")
        if row[0] != content:
            return Known("other")
        return Known("begun") if row[1] is None else Known("answered", row[1])

    def _answer(self, key: str, answer: bytes) -> None:
        database = self._open_database()
        size = len(answer)
        done = database.execute(
            "update call set answer = ?, size = ?, at = ? where key = ? and answer is null",
            (answer, size, self._now(), key),
        )
        self._size += size if done.rowcount else 0
        while self._size > self._max_bytes:
            row = database.execute(
                "select key, size from call where answer is not null and key != ? order by at limit 1", (key,)
            ).fetchone()
            if row is None:
                break
            database.execute("update call set answer = null, size = 0 where key = ?", (row[0],))
            self._size -= row[1]

    def _forget(self, key: str) -> None:
        self._open_database().execute("delete from call where key = ? and answer is null", (key,))

    def _sweep(self) -> None:
        """Once a minute at most: forget what is too old."""
        now = self._now()
        if 0 <= now - self._swept < min(60.0, self._ttl):
            return
        self._swept = now
        database = self._open_database()
        database.execute("delete from call where at < ?", (now - self._ttl,))
        (self._size,) = database.execute("select coalesce(sum(size), 0) from call").fetchone()

    def _open_database(self) -> sqlite3.Connection:
        if self._database is None:
            raise RuntimeError("the keys are not open")
        return self._database

    def _close(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None
