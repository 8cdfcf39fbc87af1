"""One thread that writes: jobs that wait together are committed together.

A job is a function of the connection. It runs inside a transaction with others, so it must check before it
writes: what it raises as a `ReplanError` fails it alone; any database error fails the whole group.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from replan.errors import ReplanError, StoreBusy, StoreError, StoreFull, StoreUnusable

GROUP = 512


class _Job(NamedTuple):
    work: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Writer:
    """The store's only writing thread."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._jobs: deque[_Job] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="replan-log-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[sqlite3.Connection], Any]) -> asyncio.Future[Any]:
        """Queue a job; its future is done once it is committed. Jobs are done in the order they came."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._closing:
            future.set_exception(StoreError(f"the store {self._path} is closed"))
            return future
        self._jobs.append(_Job(work, future, loop))
        self._wake.set()
        return future

    def close(self) -> None:
        """Finish what is queued and stop."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def _work(self) -> None:
        while True:
            if not self._jobs:
                if self._closing:
                    return
                self._wake.wait()
                self._wake.clear()
                continue
            jobs = [self._jobs.popleft() for _ in range(min(GROUP, len(self._jobs)))]
            _deliver(self._commit(jobs))

    def _commit(self, jobs: list[_Job]) -> list[tuple[_Job, Any, BaseException | None]]:
        done: list[tuple[_Job, Any, BaseException | None]] = []
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            for job in jobs:
                try:
                    done.append((job, job.work(self._connection), None))
                except ReplanError as error:
                    done.append((job, None, error))
            execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the callers
            if self._connection.in_transaction:
                execute("ROLLBACK")
            failure = translate(error, self._path)
            return [(job, None, failure) for job in jobs]
        return done


def _deliver(done: list[tuple[_Job, Any, BaseException | None]]) -> None:
    """Hand results over, one wake-up a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Job, Any, BaseException | None]]] = {}
    for item in done:
        by_loop.setdefault(item[0].loop, []).append(item)
    for loop, items in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, items)
        except RuntimeError:  # the loop is gone, and with it whoever waited
            continue


def _settle(items: list[tuple[_Job, Any, BaseException | None]]) -> None:
    for job, result, error in items:
        if job.future.done():
            continue
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)


def translate(error: BaseException, path: Path) -> BaseException:
    """The store error that a database error is."""
    if isinstance(error, ReplanError) or not isinstance(error, sqlite3.Error):
        return error
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreBusy(f"the database {path} is locked by another process; try again when it is done")
    if "full" in text or "disk I/O error" in text:
        return StoreFull(f"the database {path} cannot grow ({text}): free some space, then resume the task")
    if "readonly" in text or "read-only" in text:
        return StoreUnusable(f"the database {path} cannot be written ({text}); check its permissions or give --db another file")
    if "not a database" in text or "malformed" in text:
        return StoreUnusable(f"{path} is no usable SQLite database ({text}); give --db another file")
    if "unable to open" in text:
        return StoreUnusable(f"the database {path} cannot be opened; check that its folder exists and can be written")
    return StoreError(f"the database {path} failed: {text}")
