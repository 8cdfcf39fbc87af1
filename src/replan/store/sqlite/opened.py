"""The file while it is open: its connections and threads, and what all parts of the store share."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

from replan.errors import StoreError, StoreUnusable
from replan.store import schema
from replan.store.holders import Holders
from replan.store.outbox import SqliteOutbox
from replan.store.reader import Reader
from replan.store.watch import Watchers
from replan.store.writer import Writer, translate


class Opened:
    """The file while it is open: its connections and threads, and what all parts of the store share."""

    def __init__(
        self, path: Path, *, synchronous: str = "normal", busy_secs: float = schema.BUSY_SECS
    ) -> None:
        if path.name == ":memory:":  # however the path came to stand for a file
            raise StoreUnusable("a database in memory cannot be resumed: give --db a file")
        path = path.absolute()  # the process may come to stand in another folder
        self.path = path
        self.shown = str(path)
        self._seal_key: bytes | None = None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(f"the folder {path.parent} cannot be made: {error.strerror}") from None
        schema.keep_private(path)
        opened: list[sqlite3.Connection] = []
        try:
            opened.append(schema.connect(path, synchronous=synchronous, busy_secs=busy_secs))
            opened.append(schema.connect(path, synchronous=synchronous, busy_secs=busy_secs))
            schema.prepare(opened[0], path, busy_secs=busy_secs)
            opened.append(schema.connect_prompt(path))
            self._reader = Reader(opened[1], path)
            # One file has one folder of holders, by whatever link it was reached.
            self._holders = Holders(path.resolve())
        except (sqlite3.Error, OSError, StoreError) as error:
            for connection in opened:
                connection.close()
            if isinstance(error, OSError):
                why = f"{error.strerror or error}; its folder has to be writable"
                raise StoreUnusable(f"the database {path} cannot be used: {why}") from None
            raise translate(error, path) from None
        self._connection = opened[0]
        self._connection.execute(
            f"PRAGMA busy_timeout = {int(1000 * min(busy_secs, 0.5))}"
        )  # the writer waits itself
        self._prompt = opened[2]
        self._writer = Writer(opened[0], opened[2], path, synced=synchronous != "normal", busy_secs=busy_secs)
        self._driven: dict[str, int] = {}
        """Tasks that this process drives: their fences."""
        self._watchers = Watchers(
            self._reader.look, lambda read: self._reader.moved(read, self._driven), self._reader.begun
        )
        self._created: dict[str, tuple[float, str]] = {}
        """The requests that were stored here lately and not read yet: when, and what."""
        self._closed = False
        self._identity = _identity(path)
        self._delivering: Reader | None = None
        self._outbox: SqliteOutbox | None = None

    def _is_there(self) -> bool:
        """Whether the file that is written to is still the one of that name."""
        return _identity(self.path) == self._identity

    async def aclose(self) -> None:
        """Finish what is queued, end followers, and let go of every task."""
        if self._closed:
            return
        self._closed = True
        self._writer.stop()
        for reader in (self._reader, self._delivering):
            if reader is not None:
                reader.stop()
        await self._watchers.aclose()
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._writer.join()
        for reader in (self._reader, self._delivering):
            if reader is not None:
                reader.close()
        self._prompt.close()
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA optimize")
        self._connection.close()
        self._holders.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
