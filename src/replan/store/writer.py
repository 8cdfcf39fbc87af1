"""The one way into the database: jobs that wait together are committed together, in the order they came.

A thread commits them. A job that need not be on disk (any with `synchronous = normal`, else those that say so) is
committed at once, in the event loop, if it is small, nothing else waits and no other process holds the file: that
is shorter than the way to the thread and back. The thread's next commit brings it to disk, as do checkpoints,
which are the thread's too.

A job is a function of the connection. It runs inside a transaction with others, so it must check before it
writes: what it raises as a `ReplanError` fails it alone. After any other error the group is undone and its
jobs are tried one by one, so that only what cannot be written fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from replan.errors import ReplanError, StoreBusy, StoreError, StoreFull, StoreUnusable
from replan.ports import Landing
from replan.store.settling import Settled, Waiter, settle

_LOG = logging.getLogger("replan.store")
_TELL_SECS = 1.0
"""So long another process may hold the file before a word is said."""
_SHORT_SECS = 2.0
"""How long it is waited for where the store is being closed, and for what is not worth more."""
GROUP = 512
PROMPT_COMMITS = 250
"""So many commits in the event loop, then a checkpoint in the thread: about a thousand pages."""


T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[sqlite3.Connection], Any]
    chain: Hashable
    asked: Waiter
    patient: bool = True
    scrub: bool = False
    single: bool = False
    on_disk: bool = False


class Writer:
    """The store's writing thread, and its short cut on a connection that never waits (`prompt`).

    `synced`: the thread's commits go to disk, those of the short cut do not.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        prompt: sqlite3.Connection,
        path: Path,
        *,
        synced: bool,
        busy_secs: float,
    ) -> None:
        self._connection = connection
        self._prompt = prompt
        self._synced = synced
        self._prompt_left = PROMPT_COMMITS
        self._path = path
        self._busy_secs = busy_secs
        self._jobs: deque[_Job] = deque()
        self._turn = threading.Lock()
        """Held by whoever takes jobs, until they are committed."""
        self._asleep = threading.Lock()
        """Held until there is something to do: a lock is woken by in a tenth of the time that an event takes."""
        self._asleep.acquire()
        self._closing = False
        self._scrub = False
        """Pages as they were before a job that asked for it may still be in the file's own log."""
        self._torn: dict[Hashable, BaseException] = {}
        """Chains that lost a link: what was to come after it must not be written either."""
        self._thread = threading.Thread(target=self._work, name="replan-log-writer", daemon=True)
        self._thread.start()

    def submit(
        self,
        work: Callable[[sqlite3.Connection], Any],
        *,
        chain: Hashable = None,
        large: bool = False,
        single: bool = False,
        durable: bool = True,
        patient: bool = True,
        scrub: bool = False,
        on_disk: bool = False,
    ) -> asyncio.Future[Any]:
        """Queue a job; its future is done once it is committed, which may be at once.

        Jobs are done in the order they came. Once a job of a `chain` could not be written, the later ones of
        that chain fail likewise. `large`: not to be written in the event loop. `single`: it writes by its first
        statement and by no other, so that it needs no transaction of its own. `durable`: on disk when it is done,
        where the store is one whose commits go to disk. `patient`: worth a long wait for another process.
        `scrub`: what it has overwritten shall be in the file's own log no more either. `on_disk`: it has to be there when it is
        done, whatever the store is: what is done next, elsewhere, rests on it.
        """
        loop = asyncio.get_running_loop()
        future = Landing(loop=loop)
        if self._closing:
            future.set_exception(StoreError(f"the store {self._path} is closed"))
        elif large or on_disk or (durable and self._synced) or not self._at_once(work, chain, single, future):
            self._jobs.append(_Job(work, chain, Waiter(future, loop), patient, scrub, single, on_disk))
            self._wake()
        return future

    def _at_once(
        self,
        work: Callable[[sqlite3.Connection], Any],
        chain: Hashable,
        single: bool,
        future: asyncio.Future[Any],
    ) -> bool:
        """Commit a job here and now; False if it has to wait for its turn."""
        if not self._turn.acquire(blocking=False):
            return False
        connection = self._prompt
        try:
            if self._jobs or self._prompt_left <= 0 or chain in self._torn:
                return False
            try:
                if not single:
                    connection.execute("BEGIN IMMEDIATE")
                try:
                    result, error = work(connection), None
                except ReplanError as refusal:
                    result, error = None, refusal
                if not single:
                    connection.execute("COMMIT")
            except BaseException as error_here:
                if connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                if not isinstance(error_here, Exception):
                    raise
                return False  # locked, full, broken: the thread tries again and says what it is
            self._prompt_left -= 1
            if not self._prompt_left:
                self._wake()
        finally:
            self._turn.release()
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
        return True

    def at_once(self, reading: Callable[[sqlite3.Connection], T]) -> T | None:
        """What a short reading gives, here and now; None if it has to be read in another way."""
        if not self._turn.acquire(blocking=False):
            return None
        try:
            return reading(self._prompt)
        except sqlite3.Error:
            return None
        finally:
            self._turn.release()

    def _wake(self) -> None:
        """Let the thread look whether there is something to do."""
        try:  # noqa: SIM105  (a block of `contextlib` takes longer than all of it, for each commit)
            self._asleep.release()
        except RuntimeError:
            pass  # it is awake, or about to be

    def mend(self, chain: Hashable) -> None:
        """Nothing more will come of that chain."""
        self._torn.pop(chain, None)

    def stop(self) -> None:
        """Take no more jobs; called where jobs are submitted. What is queued is still done."""
        self._closing = True
        self._wake()

    def join(self) -> None:
        """Wait until what was queued is done."""
        self._thread.join()

    def _work(self) -> None:
        while True:
            if not self._jobs and self._prompt_left > 0:
                if self._closing:
                    return
                self._asleep.acquire()
                continue
            with self._turn:
                jobs = [self._jobs.popleft() for _ in range(min(GROUP, len(self._jobs)))]
                with self._reaching_disk(jobs):
                    done = self._commit(jobs) if jobs else []
                if [job for job in jobs if job.scrub]:
                    self._scrub = True
                if self._scrub:
                    self._scrub = not self._emptied_log()
                if self._prompt_left <= 0:
                    with contextlib.suppress(sqlite3.Error):  # a reader in the way: at the next time
                        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                    self._prompt_left = PROMPT_COMMITS
            settle(done)

    @contextlib.contextmanager
    def _reaching_disk(self, jobs: Sequence[_Job]) -> Iterator[None]:
        """What is committed meanwhile, and all before it, is on disk afterwards, if one of the jobs has to be."""
        if self._synced or not any(job.on_disk for job in jobs):
            yield
            return
        self._connection.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            self._connection.execute("PRAGMA synchronous = NORMAL")

    def _emptied_log(self) -> bool:
        """Bring everything into the file itself and cut its log; False if a reader is in the way: at the next time."""
        with contextlib.suppress(sqlite3.Error):
            busy, *_ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        return False

    def _commit(self, jobs: list[_Job]) -> list[Settled]:
        if len(jobs) == 1 and (alone := self._alone(jobs[0])) is not None:
            return [alone]
        done: list[Settled] = []
        execute = self._connection.execute
        try:
            self._begin(patient=any(job.patient for job in jobs))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the callers
            return [self._fail(job, error) for job in jobs]
        try:
            for job in jobs:
                if job.chain is not None and (torn := self._torn.get(job.chain)) is not None:
                    done.append((job.asked, None, torn))
                    continue
                try:
                    done.append((job.asked, job.work(self._connection), None))
                except ReplanError as error:
                    done.append((job.asked, None, error))
            execute("COMMIT")
        except BaseException as error:  # noqa: BLE001
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    execute("ROLLBACK")
            if len(jobs) == 1:
                return [self._fail(jobs[0], error)]
            return [one for job in jobs for one in self._commit([job])]
        return done

    def _alone(self, job: _Job) -> Settled | None:
        """A job of one statement, which is its own transaction; None if it has to be done as any other."""
        if not job.single or job.chain in self._torn:
            return None
        try:
            return job.asked, job.work(self._connection), None
        except ReplanError as error:
            return job.asked, None, error
        except BaseException as error:  # noqa: BLE001
            return None if _is_busy(error) else self._fail(job, error)  # busy: `_begin` waits for longer

    def _begin(self, *, patient: bool) -> None:
        """Begin to write, which may mean to wait for another process: running work waits rather than ends."""
        since, told = time.monotonic(), False
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - since
                busy = _is_busy(error)
                short = self._closing or not patient
                if not busy or waited >= (min(self._busy_secs, _SHORT_SECS) if short else self._busy_secs):
                    raise
                if not told and waited >= _TELL_SECS:
                    told = True
                    _LOG.warning("the database %s is locked by another process; waiting for it", self._path)
            else:
                return

    def _fail(self, job: _Job, error: BaseException) -> Settled:
        failure = translate(error, self._path)
        if job.chain is not None:
            failure = self._torn.setdefault(job.chain, failure)
        return job.asked, None, failure


def _is_busy(error: BaseException) -> bool:
    """True if another one holds the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


_FULL = {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE"}


def translate(error: BaseException, path: Path) -> BaseException:
    """The store error that a database error is."""
    if isinstance(error, ReplanError) or not isinstance(error, sqlite3.Error):
        return error
    text = str(error)
    code = getattr(error, "sqlite_errorname", "")
    if code in _FULL:
        return StoreFull(
            f"the database {path} cannot grow ({text}): free some space, then resume the task, or hand it in again if it is not there"
        )
    match code.split("_")[1:2]:
        case ["BUSY" | "LOCKED"]:
            return StoreBusy(f"the database {path} is locked by another process; try again when it is done")
        case ["READONLY" | "PERM" | "AUTH"]:
            why = f"cannot be written ({text}); check its permissions or give --db another file"
            if not os.access(path.parent, os.W_OK):
                why = "is in a folder that is read-only, and SQLite has files beside it; check the folder's permissions, or give --db a copy"
        case ["CORRUPT"]:
            return StoreUnusable(
                f"the database {path} is damaged ({text}): stop what writes to it, and restore it from a backup"
            )
        case ["NOTADB"]:
            why = f"is no usable SQLite database ({text}); give --db another file"
        case ["CANTOPEN"]:
            why = "cannot be opened; check that it is a file and that its folder exists and can be written"
        case ["IOERR"]:
            why = f"cannot be read or written ({text}); check the disk"
        case _:
            return StoreError(f"the database {path} failed: {text}")
    return StoreUnusable(f"the database {path} {why}")
