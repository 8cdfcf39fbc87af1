"""Acts that are carried through although whoever asked for them has hung up, or was told that it took too long: half of one may be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class Carrying:
    """What is being carried through in one process."""

    def __init__(self) -> None:
        self._acts: set[asyncio.Task[Any]] = set()

    def begin(self, act: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(act)
        self._acts.add(task)
        task.add_done_callback(self._ended)
        return task

    async def through(self, act: Coroutine[Any, Any, T]) -> T:
        """What it comes to; it goes on if this is cancelled."""
        return await asyncio.shield(self.begin(act))

    async def all_ended(self, secs: float | None = None) -> None:
        """Wait for them, for so long at most."""
        loop = asyncio.get_running_loop()
        end = None if secs is None else loop.time() + secs
        while self._acts and (end is None or loop.time() < end):
            await asyncio.wait(self._acts, timeout=None if end is None else end - loop.time())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._acts.discard(task)
        if not task.cancelled():
            task.exception()  # whoever has asked is told, if somebody is there


class Carries(Protocol):
    @property
    def carrying(self) -> Carrying: ...


C = TypeVar("C", bound=Carries)


def act(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """A use case that changes something: once it has begun it is carried through."""

    @wraps(method)
    async def carried(self: C, /, *args: P.args, **more: P.kwargs) -> T:
        return await self.carrying.through(method(self, *args, **more))

    return carried
