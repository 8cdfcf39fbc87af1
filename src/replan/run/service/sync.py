"""The bridge from code that is not async."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_to_end(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What the coroutine gives; in a thread with a loop of its own where a loop runs here already.

    An interrupt (Ctrl-C) cancels it, and is raised once it has ended.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _in_new_loop(main)
    return _in_thread(main)


def _in_new_loop(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    given: list[T] = []

    async def whole() -> (
        None
    ):  # without a result of its own: `asyncio.run` makes a text of that, however large it is
        given.append(await main())

    asyncio.run(whole())
    return given[0]


def _in_thread(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    outcome: list[T] = []
    failure: list[BaseException] = []
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []

    async def watched() -> T:
        task = asyncio.ensure_future(main())
        started.append((asyncio.get_running_loop(), task))
        return await task

    def work() -> None:
        try:
            outcome.append(asyncio.run(watched()))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failure.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name="replan-run-sync", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:  # an interrupt: the task is cancelled, as `asyncio.run` would
        for loop, task in started:
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    if failure:
        raise failure[0]
    return outcome[0]
