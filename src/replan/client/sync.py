"""The client for code that is not async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from replan.client.client import CANCEL_SECS, Client

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._to_end(method(self._client, *args, **kwargs))

    return update_wrapper(call, method)


def _iterating(
    method: Callable[Concatenate[Client, P], AsyncIterator[T]],
) -> Callable[Concatenate[SyncClient, P], Iterator[T]]:
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        found = method(self._client, *args, **kwargs)
        try:
            while (one := self._to_end(_next(found))) is not _END:
                yield one
        finally:
            if not self._loop.is_closed():
                self._to_end(_closed(found))

    return update_wrapper(call, method)


class SyncClient:
    """`Client` for code that is not async: the same names, and iterators in place of async ones.

    It takes what `Client` takes. Its connections live in a thread of their own. Use it as `with SyncClient(...) as client:`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._client = Client(*args, **kwargs)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="replan-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Tasks go on."""
        if self._loop.is_closed():
            return
        self._to_end(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return self._client.url

    def _to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """An interrupt (Ctrl-C) cancels it, and is raised once it has ended."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("this SyncClient is closed")
        over = threading.Event()

        async def whole() -> T:
            try:
                return await work
            finally:
                over.set()

        future = asyncio.run_coroutine_threadsafe(whole(), self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                over.wait(CANCEL_SECS + 1)
            raise

    run = _blocking(Client.run)
    submit = _blocking(Client.submit)
    preview = _blocking(Client.preview)
    plan = _blocking(Client.plan)
    tasks = _blocking(Client.tasks)
    task = _blocking(Client.task)
    summary = _blocking(Client.summary)
    result = _blocking(Client.result)
    wait = _blocking(Client.wait)
    watch = _iterating(Client.watch)
    history = _blocking(Client.history)
    drawing = _blocking(Client.drawing)
    show = _blocking(Client.show)
    plans = _blocking(Client.plans)
    step = _blocking(Client.step)
    output = _blocking(Client.output)
    output_pieces = _iterating(Client.output_pieces)
    artifact = _iterating(Client.artifact)
    waiting = _blocking(Client.waiting)
    waits = _blocking(Client.waits)
    approve = _blocking(Client.approve)
    approval = _blocking(Client.approval)
    reject = _blocking(Client.reject)
    answer = _blocking(Client.answer)
    held_plan = _blocking(Client.held_plan)
    review = _blocking(Client.review)
    settle = _blocking(Client.settle)
    signal = _blocking(Client.signal)
    cancel = _blocking(Client.cancel)
    pause = _blocking(Client.pause)
    hand_on = _blocking(Client.hand_on)
    resume = _blocking(Client.resume)
    hint = _blocking(Client.hint)
    retry_step = _blocking(Client.retry_step)
    judge_again = _blocking(Client.judge_again)
    fork = _blocking(Client.fork)
    tools = _blocking(Client.tools)
    tool_stats = _blocking(Client.tool_stats)
    workflows = _blocking(Client.workflows)
    scenes = _blocking(Client.scenes)
    health = _blocking(Client.health)
    ready = _blocking(Client.ready)


_END: Any = object()


async def _next(found: AsyncIterator[T]) -> T:
    return await anext(found, _END)


async def _closed(found: AsyncIterator[Any]) -> None:
    if (close := getattr(found, "aclose", None)) is not None:
        await close()
