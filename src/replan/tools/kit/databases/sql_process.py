"""A database whose statements run in processes of their own: each can be ended in time, and none holds up another.

A statement cannot be relied on to stop when it is asked to, or to keep to the database's own limit of memory: one call
of a function over a long text may take minutes and gigabytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast

from replan.core.words import in_digits
from replan.errors import ToolCallError
from replan.tools import orphans
from replan.tools.bounds import MAX_RESULT_BYTES
from replan.tools.functions.context import current, time_left
from replan.tools.kit.databases.database import Changed, Parameters, Rows, Table, refused
from replan.tools.kit.databases.sql_worker import IDLE_CODE
from replan.tools.processes import plain_environment

MEMORY_BYTES = 2**30
_GRACE_SECS = 0.5
"""How long a statement that was asked to stop may take to do so."""
_START_SECS = 20.0
_LOOK_SECS = 0.05
_KEPT_IDLE = 2
_BOOT = (
    "import json, sys; order = json.loads(sys.stdin.buffer.readline()); sys.path[:] = order['sys_path']; "
    "from replan.tools.kit.databases.sql_worker import serve; serve(order)"
)


class DatabaseProcesses:
    """A `Database` of that kind; a process for each statement that runs, kept for the next one."""

    def __init__(
        self,
        kind: Literal["sqlite", "duckdb", "data"],
        path: Path,
        *,
        timeout_secs: float,
        most_bytes: int,
        remember_keys: bool = False,
    ) -> None:
        self._timeout_secs = timeout_secs
        self._turns = _turns_of(path) if kind == "duckdb" else None
        self._name = path.name
        self._order = {
            "kind": kind,
            "path": str(path),
            "most_bytes": most_bytes,
            "remember_keys": remember_keys,
            "memory_bytes": MEMORY_BYTES,
        }
        self._idle: list[_Worker] = []
        weakref.finalize(self, _end_all, self._idle)

    def query(self, statement: str, parameters: Parameters, limit: int) -> Rows:
        return cast("Rows", self._ask("query", [statement, parameters, limit]))

    def tables(self) -> list[Table]:
        return cast("list[Table]", self._ask("tables", []))

    def execute(self, statement: str, parameters: Parameters, key: str) -> Changed:
        return cast("Changed", self._ask("execute", [statement, parameters, key]))

    def close(self) -> None:
        """End the processes that wait for work."""
        _end_all(self._idle)

    def _ask(self, what: str, given: list[Any]) -> Any:
        began, most = time.monotonic(), time_left(_START_SECS + self._timeout_secs)
        with self._turn(what, min(most, self._timeout_secs)):
            while True:
                worker = self._take(began + most)
                # Its own time does not run while a process for it is started.
                secs = max(0.01, min(self._timeout_secs, began + most - time.monotonic()))
                request = {"what": what, "given": given, "secs": secs}
                try:
                    answer = worker.ask(request, time.monotonic() + secs + _GRACE_SECS)
                except _Unasked:
                    worker.end()
                    continue
                except BaseException:
                    worker.end()
                    raise
                if answer is None:
                    worker.end()
                    raise worker.failure(what, secs)
                break
        if len(self._idle) < _KEPT_IDLE and answer.get("kind") not in ("memory", "timeout"):
            self._idle.append(worker)
        else:
            worker.end()
        if "error" not in answer:
            return answer["value"]
        if answer["kind"] == "memory":
            raise _too_much()
        raise ToolCallError(answer["error"], kind=answer["kind"], happened=answer["happened"])

    def _take(self, end: float) -> _Worker:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        worker = _Worker(self._order)
        try:
            worker.wait_until_ready(end)
        except BaseException:
            worker.end()
            raise
        return worker

    @contextlib.contextmanager
    def _turn(self, what: str, secs: float) -> Iterator[None]:
        """DuckDB lets nobody read a file while another process changes it."""
        if self._turns is None:
            yield
            return
        with self._turns.taken(alone=what == "execute", secs=secs) as taken:
            if not taken:
                raise refused(f"the database {self._name} is in use by another call", "unavailable")
            yield


class _Unasked(Exception):
    """The worker had ended before it could read the request."""


class _Worker:
    """One process. Used by one thread at a time."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._folder = tempfile.mkdtemp(prefix="replan-sql-")  # of its own: it may be ended in the middle
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**plain_environment(), "TMPDIR": self._folder},
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise refused(f"a process for the statement cannot be started: {error}", "unavailable") from error
        orphans.started(self._process.pid)
        self._committing = False
        self._late = False
        self._read = bytearray()
        with contextlib.suppress(OSError):
            self._send({**order, "sys_path": [os.path.abspath(place) for place in sys.path]})

    def wait_until_ready(self, end: float) -> None:
        """Until it can be asked, or a `ToolCallError` that says that nothing was."""
        if self._answer(end) is None:
            code = self._process.poll()
            how = "was not ready in time" if code is None else f"ended with exit code {code}"
            raise refused(f"the process for the statement {how}", "unavailable")

    def ask(self, request: dict[str, Any], end: float) -> dict[str, Any] | None:
        """The answer; None if the process ended, or was ended, without one."""
        self._committing = self._late = False
        try:
            self._send(request)
        except OSError:
            raise _Unasked from None
        return self._answer(end)

    def _answer(self, end: float) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as arrived:  # select() knows no file above number 1,023
            arrived.register(self._process.stdout, selectors.EVENT_READ)
            return self._read_answer(arrived, self._process.stdout.fileno(), end)

    def _read_answer(self, arrived: selectors.BaseSelector, out: int, end: float) -> dict[str, Any] | None:
        call = current()
        while True:
            if call.cancelled or time.monotonic() >= end or len(self._read) > 2 * MAX_RESULT_BYTES:
                self._late = True
                return None
            if not arrived.select(min(_LOOK_SECS, max(0.0, end - time.monotonic()))):
                continue
            data = os.read(out, 2**20)
            if not data:
                if self._process.wait() == IDLE_CODE and not self._committing:
                    raise _Unasked
                return None
            self._read += data
            while b"\n" in data:
                line, _, rest = bytes(self._read).partition(b"\n")
                self._read, data = bytearray(rest), rest
                answer = json.loads(line)
                if "committing" not in answer:
                    return cast("dict[str, Any]", answer)
                self._committing = True

    def failure(self, what: str, secs: float) -> ToolCallError:
        """Why there was no answer. What was not about to be committed has not happened."""
        happened = "unknown" if self._committing else "no"
        if self._late:
            text = f"the statement had not ended after {in_digits(secs)} seconds and was stopped; ask for less, or aggregate"
            return ToolCallError(text, kind="timeout", happened=happened)
        code = self._process.returncode
        if code in (-signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV):
            return _too_much(happened)
        return ToolCallError(f"the process of the statement ended with exit code {code}", happened=happened)

    def end(self) -> None:
        """End it at once, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()
        orphans.ended(self._process.pid)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _send(self, said: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(said).encode() + b"\n")
        self._process.stdin.flush()


def _end_all(idle: list[_Worker]) -> None:
    while idle:
        idle.pop().end()


def _too_much(happened: str = "no") -> ToolCallError:
    text = (
        f"the statement needed more than {MEMORY_BYTES // 2**20:,} MB of memory and was stopped; ask for less"
    )
    return ToolCallError(text, happened=happened)


class _Turns:
    """Many read at once, or one changes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writes = False
        self._writers_waiting = 0

    @contextlib.contextmanager
    def taken(self, *, alone: bool, secs: float) -> Iterator[bool]:
        """Whether the turn came in time."""
        call = current()
        end = time.monotonic() + secs

        def free() -> bool:
            if alone:
                return not self._writes and not self._readers
            return not self._writes and not self._writers_waiting

        with self._changed:
            self._writers_waiting += alone
            try:
                while not (came := free()) and time.monotonic() < end and not call.cancelled:
                    self._changed.wait(_LOOK_SECS)
            finally:
                self._writers_waiting -= alone
            if came:
                self._writes, self._readers = (True, 0) if alone else (False, self._readers + 1)
        try:
            yield came
        finally:
            with self._changed:
                if came and alone:
                    self._writes = False
                elif came:
                    self._readers -= 1
                self._changed.notify_all()


_TURNS: dict[Path, _Turns] = {}
_TURNS_LOCK = threading.Lock()


def _turns_of(path: Path) -> _Turns:
    with _TURNS_LOCK:
        return _TURNS.setdefault(path, _Turns())
