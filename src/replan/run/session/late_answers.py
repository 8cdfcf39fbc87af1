"""Answers that come after their call was given up: the work went on, in a thread or task of this process.

They belong to the process, not to the Replan or the event loop that made the call: whoever takes the task up again here has
to wait for them. They end with the process. While one is on its way nothing else may settle what became of its call
(specification §5).
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

from replan.core.state.task import TaskName

Named = tuple[TaskName, str]
"""A task and a call's key."""
Answer = asyncio.Future[Any] | Future[Any]
"""What will have it: of one event loop, or of any."""
MOST_KEPT = 1_000
"""Answers that have come and were not asked for: the oldest are forgotten."""


class LateAnswers:
    """The late answers of one process, by task and call; safe to use from the threads of several event loops."""

    __slots__ = ("_coming", "_lock")

    def __init__(self) -> None:
        self._coming: dict[Named, Answer] = {}
        self._lock = threading.Lock()

    def expect(self, named: Named, answer: Answer) -> None:
        """An answer to this call is on its way; it ends as the work ends."""
        with self._lock:
            self._coming[named] = answer
            if len(self._coming) > MOST_KEPT:
                done = [name for name, one in self._coming.items() if one.done()]
                for name in done[: len(self._coming) - MOST_KEPT]:
                    del self._coming[name]
        answer.add_done_callback(lambda done: self._keep_alone(named, done))

    def _keep_alone(self, named: Named, answer: Answer) -> None:
        """Keep of an answer that has come what it says, and nothing of who had waited for it or made the call."""
        alone: Future[Any] = Future()
        alone.set_running_or_notify_cancel()
        try:
            alone.set_result(answer.result())
        except BaseException as error:  # noqa: BLE001 - it is what the answer says
            for one in _with_causes(error):
                one.__traceback__ = None  # it holds the frames of the thread that has made the call
            alone.set_exception(error)
        with self._lock:
            if self._coming.get(named) is answer:
                self._coming[named] = alone

    def of(self, named: Named) -> asyncio.Future[Any] | None:
        """The answer that is on its way, or has come and was not taken, to be waited for in the running loop."""
        with self._lock:
            found = self._coming.get(named)
        if found is None:
            return None
        if isinstance(found, Future):
            return _here(found)
        if (loop := found.get_loop()) is asyncio.get_running_loop():
            return found
        if loop.is_closed() and not found.done():  # its work has ended with its loop
            self.take(named)
            return None
        return _here(_of_any_loop(found, loop))

    def take(self, named: Named) -> None:
        """The answer has been heard: it stands for nothing any more."""
        with self._lock:
            self._coming.pop(named, None)


LATE = LateAnswers()
"""Those of this process."""


def _with_causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    nodes: list[BaseException | None] = [error]
    while nodes:
        node = nodes.pop()
        if node is not None and not any(node is one for one in found):
            found.append(node)
            nodes += [node.__cause__, node.__context__]
    return found


def _here(answer: Future[Any]) -> asyncio.Future[Any]:
    found = asyncio.wrap_future(answer)
    found.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody has to look at it
    return found


def _of_any_loop(answer: asyncio.Future[Any], loop: asyncio.AbstractEventLoop) -> Future[Any]:
    """The same answer, for other loops than its own."""
    passed: Future[Any] = Future()
    passed.set_running_or_notify_cancel()

    def ended(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            passed.set_exception(asyncio.CancelledError())
        elif (error := done.exception()) is not None:
            passed.set_exception(error)
        else:
            passed.set_result(done.result())

    if answer.done():
        ended(answer)
    else:
        loop.call_soon_threadsafe(answer.add_done_callback, ended)
    return passed
