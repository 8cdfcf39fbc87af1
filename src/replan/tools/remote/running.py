"""Calls that run on the server, and who waits for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from replan.core.types import JsonObject
from replan.core.words import in_digits
from replan.errors import ToolCallError
from replan.ports import Progress
from replan.tools.remote.messages import dumps, error_to_wire, loads


class Answer(NamedTuple):
    """How a call ended: its output as JSON, or its error."""

    output: bytes | None
    error: JsonObject | None = None
    refused: bool = False
    """The call was turned away before it was made: the request itself is answered with the error."""

    def stored(self) -> bytes:
        return b"o" + self.output if self.output is not None else b"e" + dumps(self.error)

    @classmethod
    def read(cls, stored: bytes) -> Answer:
        return cls(stored[1:]) if stored[:1] == b"o" else cls(None, loads(stored[1:]))

    @classmethod
    def failed(cls, error: ToolCallError, *, refused: bool = False) -> Answer:
        return cls(None, error_to_wire(error), refused)


class Running:
    """One call that is being made, for one waiter or several that gave the same key."""

    def __init__(self, content: str, ended: Callable[[], None]) -> None:
        self.content = content
        self.waiters: list[Waiter] = []
        self.task: asyncio.Task[Answer]
        self.admitted = asyncio.Event()
        """It is not going to be turned away any more."""
        self._ended = ended
        self._giving_up: asyncio.TimerHandle | None = None

    def start(self, work: Coroutine[Any, Any, Answer]) -> None:
        self.task = asyncio.get_running_loop().create_task(work)
        self.task.add_done_callback(self._end)

    def tell(self, progress: Progress) -> None:
        for waiter in tuple(self.waiters):
            waiter.tell(progress)

    def join(self, waiter: Waiter) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        self.waiters.append(waiter)

    def leave(self, waiter: Waiter, linger_secs: float) -> None:
        """One waiter less; when nobody waits, the call is cancelled, after `linger_secs`."""
        with contextlib.suppress(ValueError):
            self.waiters.remove(waiter)
        if self.waiters or self.task.done() or self._giving_up is not None:
            return
        if linger_secs <= 0:
            self.task.cancel()
        else:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(linger_secs, self.task.cancel)

    def give_up(self) -> None:
        """Who might have come back will not: cancel the call, unless others wait."""
        if not self.waiters:
            self.task.cancel()

    def _end(self, task: asyncio.Task[Answer]) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
        if not task.cancelled():
            task.exception()
        self._ended()


class Waiter:
    """Somebody who waits for a call. Ends with `answer`; or `leave`, if he goes away before."""

    def __init__(
        self,
        running: Running,
        *,
        deadline_secs: float | None,
        linger_secs: float,
        report: Callable[[Progress], None] | None,
        left: Callable[[], None],
    ) -> None:
        self._running = running
        self._secs = deadline_secs
        self._linger_secs = linger_secs
        self._report = report
        self._left = left
        self._lost = False
        self._called_off: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        running.join(self)

    def tell(self, progress: Progress) -> None:
        if self._report is not None:
            self._report(progress)

    def call_off(self) -> None:
        """The client does not want the call any more; that may be said after the connection broke, too."""
        if not self._called_off.done():
            self._called_off.set_result(None)
        if self._lost:
            self._running.give_up()

    async def admitted(self) -> None:
        """Until the call is not turned away any more."""
        await self._running.admitted.wait()

    async def answer(self) -> Answer:
        """The call's answer; an error when the deadline has passed or the call was called off."""
        task = self._running.task
        self._lost = True
        try:
            ends: set[asyncio.Future[Any]] = {task, self._called_off}
            await asyncio.wait(ends, timeout=self._secs, return_when=asyncio.FIRST_COMPLETED)
            self._lost = False
        finally:
            # Somebody whose connection broke may come back with the same key; whoever gave up does not.
            self._running.leave(self, self._linger_secs if self._lost else 0.0)
            if self._lost:
                task.add_done_callback(lambda _: self._left())
            else:
                self._left()
            self._report = None
        if not task.done():
            if self._called_off.done():
                return Answer.failed(
                    ToolCallError(
                        "the call was cancelled by its caller", kind="cancelled", happened="unknown"
                    )
                )
            text = f"no answer within {in_digits(self._secs)} seconds"
            return Answer.failed(ToolCallError(text, kind="timeout", happened="unknown"))
        if task.cancelled():
            text = "the call was cancelled on the server"
            return Answer.failed(ToolCallError(text, kind="cancelled", happened="unknown"))
        return task.result()
