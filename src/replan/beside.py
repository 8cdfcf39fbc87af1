"""Heavy work beside the event loop, so that everything else in the process goes on meanwhile.

The threads share one interpreter with the loop, which gets its turn every few milliseconds as long as no single call into C takes
longer: large values are gone through piece by piece (`core.data.pieces`).
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def beside(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """What `work` gives, done in a thread. Who is cancelled meanwhile leaves it behind: it must change nothing that matters."""
    return await _begun(work, *given, **named)


async def seen_through(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """The same for work that is needed whoever cancels: what is known to have happened is being written down.

    A cancellation meanwhile is raised where the task waits next.
    """
    done = _begun(work, *given, **named)
    cut = False
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            cut = True
    if cut:
        cancelled_later()
    return done.result()


def _begun(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> asyncio.Future[T]:
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return loop.run_in_executor(_THREADS, lambda: context.run(work, *given, **named))


def cancelled_later() -> None:
    """Let a cancellation that has been caught be raised where this task waits next."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()  # it counts once
        task.cancel()


class _Threads(Executor):
    """A thread for each piece of work, one of them at a time: they would only take turns with each other and the loop."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._turn = threading.Lock()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[Any] = Future()
        turn = self._turn

        def work() -> None:
            with turn:
                if not future.set_running_or_notify_cancel():
                    return
                try:
                    result = fn(*args, **kwargs)
                except BaseException as error:  # noqa: BLE001 - passed on to whoever waits
                    future.set_exception(error)
                    return
            future.set_result(result)

        try:
            threading.Thread(target=work, name="replan-beside", daemon=True).start()
        except RuntimeError:  # there is none to be had: better late than not at all
            work()
        return future


_THREADS = _Threads()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_THREADS.reset)
