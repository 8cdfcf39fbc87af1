"""Daemon threads for synchronous tools: reused while idle, left behind when their caller gives up."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from replan.core.failures.faults import text_of
from replan.errors import ToolCallError

T = TypeVar("T")


class _Job(Generic[T]):
    __slots__ = ("abandoned", "context", "done", "function", "future", "loop", "outcome")

    def __init__(
        self, function: Callable[[], T], loop: asyncio.AbstractEventLoop, future: asyncio.Future[T]
    ) -> None:
        self.function = function
        self.context = contextvars.copy_context()
        self.loop = loop
        self.future: asyncio.Future[T] | Future[T] = future
        """Who waits: in the loop; once it is left behind, whoever may, in any loop of the process."""
        self.done = False
        self.abandoned = False
        self.outcome: tuple[Any, Exception | None] = None, None


class DaemonThreads:
    """Runs each function in a thread of its own, as many side by side as are asked for.

    Python cannot stop a thread. When the task that awaits `run` is cancelled, `run` ends at once and the thread is
    left behind: it goes on until its function returns, its result goes to whoever still waits for it, and it does not
    keep the process alive. `abandoned` says how many of those are still running.
    """

    def __init__(self, name: str = "replan-tool", idle_secs: float = 10.0) -> None:
        self._name = name
        self._idle_secs = idle_secs
        self._numbers = itertools.count(1)
        self.reset()
        _POOLS.add(self)

    def reset(self) -> None:
        """Forget every thread."""
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[_Job[Any] | None]] = []
        self._abandoned = 0
        self._releases = 0
        """Threads that were started before the latest release end with their function."""

    @property
    def abandoned(self) -> int:
        """Threads that are still at work for a caller that has given up."""
        return self._abandoned

    async def run(self, function: Callable[[], T], left: Callable[[Future[Any]], None] | None = None) -> T:
        """The function's result, or its exception; one that is no `Exception` comes as `ToolCallError`.

        `left` is told when the thread is left behind, and given what will have the result when it ends.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = _Job(function, loop, future)
        self._hand_over(job)
        try:
            return await future
        finally:
            if (not future.done() or future.cancelled()) and not loop.is_closed():
                later = self._abandon(job)
                if left is not None:
                    left(later)

    def release(self) -> None:
        """Let the idle threads end; busy ones end after their function, later calls start new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._releases += 1
        for inbox in idle:
            inbox.put(None)

    def _hand_over(self, job: _Job[Any]) -> None:
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = SimpleQueue()
            name = f"{self._name}-{next(self._numbers)}"
            try:
                work = (inbox, self._releases)
                threading.Thread(target=self._work, args=work, name=name, daemon=True).start()
            except RuntimeError as error:
                raise ToolCallError(f"no thread could be started: {error}", kind="unavailable") from error
        inbox.put(job)

    def _abandon(self, job: _Job[T]) -> Future[T]:
        """Leave the job's thread to itself; its result goes to another future, for whoever may wait for that."""
        later: Future[T] = Future()
        later.set_running_or_notify_cancel()  # nobody who waits for it can stop it
        with self._lock:
            if not job.done:
                job.abandoned = True
                job.future = later
                self._abandoned += 1
                return later
        _settle(later, *job.outcome)  # it ended while it was being left
        return later

    def _work(self, inbox: SimpleQueue[_Job[Any] | None], releases: int) -> None:
        while True:
            try:
                job = inbox.get(timeout=self._idle_secs)
            except Empty:
                with self._lock:
                    if inbox not in self._idle:  # just taken: its job is on the way
                        continue
                    self._idle.remove(inbox)
                return
            if job is None:
                return
            stays = self._serve(job, inbox, releases)
            del job  # or an idle thread would keep the last call's objects alive
            if not stays:
                return

    def _serve(self, job: _Job[Any], inbox: SimpleQueue[_Job[Any] | None], releases: int) -> bool:
        """Do the job; True if the thread may be given another one."""
        value: Any = None
        error: Exception | None = None
        try:
            value = job.context.run(job.function)
        except (StopIteration, StopAsyncIteration) as raised:  # a future refuses these
            error = _as_fault(raised)
        except Exception as raised:  # noqa: BLE001  (passed on to the caller)
            error = raised
        except BaseException as raised:  # noqa: BLE001  (must end neither the thread nor the loop)
            error = _as_fault(raised)
        with self._lock:
            job.done = True
            job.outcome = value, error
            if job.abandoned:
                self._abandoned -= 1
            waits = job.future
            stays = releases == self._releases
            if stays:
                self._idle.append(inbox)  # before the answer: who gets it may call again at once
        if isinstance(waits, Future):
            _settle(waits, value, error)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                job.loop.call_soon_threadsafe(_settle, waits, value, error)
        return stays


_POOLS: weakref.WeakSet[DaemonThreads] = weakref.WeakSet()


def _reset_all() -> None:
    for pool in _POOLS:
        pool.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)  # threads do not survive a fork


def _settle(future: asyncio.Future[Any] | Future[Any], value: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _as_fault(raised: BaseException) -> ToolCallError:
    fault = ToolCallError(f"the tool raised {text_of(raised)}")
    fault.__cause__ = raised
    return fault
