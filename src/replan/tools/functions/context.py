"""What a function may know about the call that it is serving, and say while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, TypeVar

from replan.core.trace import span_of, trace_of, traceparent
from replan.errors import ToolCallError

if TYPE_CHECKING:  # a process that runs one statement starts without what the rest of Replan is made of
    from replan.ports import KeptOutput, Progress, ToolCall
    from replan.tools.functions.files import File

T = TypeVar("T")
_LOCK = threading.Lock()


class ToolContext:
    """One call, seen from inside of the tool; safe to use from any thread.

    A parameter annotated with `ToolContext`, or one named `ctx` without an annotation, is given it and is no part
    of the tool's schema. Made by hand (`ToolContext()`) it serves in tests: its reports go nowhere.
    """

    __slots__ = (
        "_cancelled",
        "_event",
        "_keep",
        "_late",
        "_loop",
        "_noticed",
        "_sink",
        "_thread",
        "attempt",
        "deadline_secs",
        "key",
        "step_id",
        "task_id",
        "trace",
    )

    def __init__(
        self,
        *,
        key: str = "",
        task_id: str = "",
        step_id: str = "",
        attempt: int = 1,
        deadline_secs: float | None = None,
        report: Callable[[Progress], None] | None = None,
    ) -> None:
        self.key = key
        """The idempotency key: the same for every attempt of the same call."""
        self.task_id = task_id
        self.step_id = step_id
        self.attempt = attempt
        self.trace = ""
        self.deadline_secs = deadline_secs
        """Seconds that were left when the call was made; None without a deadline."""
        self._sink = report
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._cancelled = False
        self._noticed = False
        self._late: Callable[[Future[Any]], None] | None = None
        self._event: threading.Event | None = None
        self._keep: Callable[..., Awaitable[KeptOutput]] | None = None

    @classmethod
    def of(cls, call: ToolCall, loop: asyncio.AbstractEventLoop) -> ToolContext:
        """The context of a call that is made from the running `loop`."""
        context = cls.__new__(cls)  # what `__init__` does, in one step less: each call has one
        context.key, context.task_id, context.step_id = call.key, call.task_id, call.step_id
        context.attempt, context.deadline_secs = call.attempt, call.deadline_secs
        context._sink, context.trace = call.report, call.trace
        context._late = call.late
        context._keep = call.keep
        context._loop = loop
        context._thread = threading.get_ident()
        context._cancelled = context._noticed = False
        context._event = None
        return context

    @property
    def traceparent(self) -> str:
        """The call as a `traceparent` header (W3C Trace Context), for requests that the tool makes."""
        return traceparent(self.trace or trace_of(self.task_id), span_of(self.key, self.attempt))

    def report(self, message: str = "", progress: float | None = None, total: float | None = None) -> None:
        """Tell watchers how far the call is; after a cancellation it is not passed on."""
        from replan.ports import Progress

        self.pass_on(Progress(message, progress, total))

    def pass_on(self, progress: Progress) -> None:
        """`report`, for a progress that exists already."""
        if self._sink is None or self._cancelled:
            return
        if self._loop is None or threading.get_ident() == self._thread:
            self._sink(progress)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(self._sink, progress)

    @property
    def keeps(self) -> bool:
        """Files are stored, as in a task; else they become values."""
        return self._keep is not None

    async def keep(self, file: File) -> File:
        """Store a file now, in an async function: what breaks off breaks off here.

        It is then for what the function returns, within the hour.
        """
        await file.keep(self._keep)
        return file

    @property
    def cancelled(self) -> bool:
        """The caller has given up: what is still running should stop as soon as it can."""
        self._noticed = self._noticed or self._cancelled
        return self._cancelled

    @property
    def noticed(self) -> bool:
        """The function knows that the caller has given up: what it does then says nothing of its effect."""
        return self._noticed

    def no_word(self, tool_id: str) -> ToolCallError:
        """The end of work that was given up and whose result says nothing of its effect."""
        return ToolCallError(
            f"{tool_id!r} went on after it was stopped, and what it did then says nothing of its effect",
            kind="timeout",
            happened="unknown",
        )

    def in_time(self, function: Callable[[], T], tool_id: str) -> Callable[[], T]:
        """The function for a thread, where its result is no output yet: one that comes late cannot be read."""

        def work() -> T:
            result = function()
            if self._cancelled:
                raise self.no_word(tool_id)
            return result

        return work

    def goes_on(self, answer: Future[Any]) -> None:
        """The call was stopped and its work goes on: `answer` will end as that ends."""
        if self._late is not None:
            self._late(answer)

    def wait(self, secs: float | None = None) -> bool:
        """Block this thread until the call is cancelled or `secs` have passed; True if it is cancelled."""
        with _LOCK:
            if self._event is None:
                self._event = threading.Event()
                if self._cancelled:
                    self._event.set()
            event = self._event
        told = event.wait(secs)
        self._noticed = self._noticed or told
        return told

    def cancel(self) -> None:
        """Mark the call as given up and wake whoever waits for that."""
        with _LOCK:
            self._cancelled = True
            if self._event is not None:
                self._event.set()


def unasked_end(error: BaseException, context: ToolContext, tool_id: str) -> ToolCallError | None:
    """The fault of a tool that ends itself as a task or a process does; None for a cancellation that was asked for."""
    if isinstance(error, SystemExit):
        return ToolCallError(f"the tool {tool_id!r} called exit ({error.code!r})")
    context.cancel()
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return None
    return ToolCallError(
        f"the tool {tool_id!r} ended itself with CancelledError though nobody cancelled it",
        happened="unknown",
    )


CURRENT: ContextVar[ToolContext | None] = ContextVar("replan_tool_context", default=None)


def current() -> ToolContext:
    """The context of the call that is being served; outside of any call, one whose reports go nowhere."""
    return CURRENT.get() or ToolContext()


def enter(context: ToolContext) -> Token[ToolContext | None]:
    """Make `context` the current one; undone by `leave`."""
    return CURRENT.set(context)


def leave(token: Token[ToolContext | None]) -> None:
    """Undo `enter`."""
    CURRENT.reset(token)


def time_left(most_secs: float) -> float:
    """Seconds that a call may take by its own clock: a little less than its deadline, so that it can tell why."""
    left = current().deadline_secs
    return most_secs if left is None else max(0.01, min(most_secs, left * 0.95))
