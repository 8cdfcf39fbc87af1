"""A call made within its time, and what its end says: a tool that does not listen when it is stopped is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from replan.beside import cancelled_later
from replan.core.failures.faults import text_of
from replan.core.words import in_digits
from replan.errors import ToolCallError
from replan.ports import ToolCall

LET_GO_SECS = 1.0
"""How long a call that was cancelled at its time limit may take to end before it is left behind."""


Asked: TypeAlias = Callable[[ToolCall], Coroutine[Any, Any, Any]]


async def within(secs: float, ask: Asked, request: ToolCall) -> Any:
    """The answer in time. `request.late` is told of what goes on after that."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    task = loop.create_task(_ask(ask, request, answer))
    try:
        done, _ = await asyncio.wait({task}, timeout=secs)
        if not done:
            task.cancel()
            await asyncio.wait({task}, timeout=LET_GO_SECS)
    except asyncio.CancelledError:
        task.cancel()
        try:
            await asyncio.wait({task}, timeout=LET_GO_SECS)
        finally:
            _leave(task, answer, request)
        if not answer.done():
            raise
        cancelled_later()
    if answer.done():
        return answer.result()
    if done:
        return task.result()
    # What it raises because it was stopped is no word about whether it happened.
    _leave(task, answer, request)
    raise ToolCallError(f"no answer within {in_digits(round(secs, 3))} seconds", kind="timeout")


def _leave(task: asyncio.Task[None], answer: asyncio.Future[Any], request: ToolCall) -> None:
    """Let the work go on without us; `answer` ends as it does."""

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
            answer.exception()  # nobody has to look at it
        else:
            answer.cancel()

    if not task.done() and not answer.done() and request.late is not None:
        request.late(answer)
    task.add_done_callback(ended)


async def _ask(ask: Asked, request: ToolCall, answer: asyncio.Future[Any]) -> None:
    """Put what the tool gives into `answer`, in a task of its own, which must not end as a task or a loop does.

    A task that is cancelled in its last turn ends as if it had done nothing: so it gives nothing back itself.
    """
    task = asyncio.current_task()
    try:
        given = await ask(request)
    except BaseException as error:
        if isinstance(error, Exception):
            raise
        if isinstance(error, asyncio.CancelledError) and _being_cancelled():
            raise
        raise failed(request.tool_id, error, task) from error
    if not answer.done():
        answer.set_result(given)


def failed(tool_id: str, error: BaseException, task: asyncio.Task[Any] | None) -> Exception:
    """The error as one of the tool's, also if it would end the loop or a task unasked; raised if it is ours.

    `task`: the one that has made the call. A `GeneratorExit` while it runs is the tool's; else our own coroutine is closed.
    """
    if isinstance(error, asyncio.CancelledError):
        text = f"the call of {tool_id!r} was cut off from inside, though nobody had stopped it"
        return ToolCallError(text, kind="connection_lost")
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, GeneratorExit) and not _is_running(task)):
        raise error
    if isinstance(error, Exception):
        return error
    fault = ToolCallError(f"the tool raised {text_of(error)}")
    fault.__cause__ = error  # what it says of the outcome
    return fault


def take_back_cancels() -> None:
    """Nobody of us has cancelled this task: a tool has. A TaskGroup does so up to Python 3.12, and leaves it at that."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


def _is_running(task: asyncio.Task[Any] | None) -> bool:
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:  # the loop has ended
        return False


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
