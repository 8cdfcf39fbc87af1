"""A task done by hand: a small program that makes the calls, which an ideal program and an agent's model both follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from replan.core.types import JsonObject
from replan.ports import ToolCall
from replan.testing import FakeSource

WAIT = "wait"
"""The tool that agents are given to wait with, where a task waits."""
ASK = "ask_user"
"""The tool that they are given to ask a person with, where a task asks one."""
PERSON_SECS = 30.0
"""How long a person takes to answer."""


class Hands(Protocol):
    """What a program has at hand to do its task with."""

    async def do(self, tool: str, **parameters: Any) -> Any:
        """What a call gives."""
        ...

    async def each(self, *branches: Coroutine[Any, Any, Any]) -> Sequence[Any]:
        """What these give, side by side."""
        ...

    async def wait(self, seconds: float) -> None: ...

    async def ask(self, question: str, choices: Sequence[str]) -> str:
        """What a person answers."""
        ...


ByHand: TypeAlias = Callable[[Hands], Awaitable[str]]
"""Does the task and gives its answer."""


class Directly:
    """Hands that call at once: a program with these takes as long as the task takes by itself, its critical path."""

    def __init__(self, source: FakeSource, person: str = "") -> None:
        """`person`: what a person answers."""
        self._source = source
        self._person = person

    async def do(self, tool: str, **parameters: Any) -> Any:
        return await self._source.call(ToolCall(tool, parameters, key=""))

    async def each(self, *branches: Coroutine[Any, Any, Any]) -> Sequence[Any]:
        return await asyncio.gather(*branches)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def ask(self, question: str, choices: Sequence[str]) -> str:
        await asyncio.sleep(PERSON_SECS)
        return self._person


@dataclass(frozen=True)
class Turn:
    """What a model says: calls, or the answer."""

    calls: Sequence[tuple[str, JsonObject]] = ()
    text: str = ""


class Turns:
    """The same program as what a model says turn by turn: each turn makes all calls that the program has come to.

    So it is a model that never errs, calls side by side whatever can be, and answers as soon as everything is done.
    """

    def __init__(self, program: ByHand) -> None:
        self._program = program
        self._task: asyncio.Task[str] | None = None
        self._asked: list[tuple[str, JsonObject, asyncio.Future[Any]]] = []
        self._open: list[asyncio.Future[Any]] = []
        self._running = 1
        self._all_wait = asyncio.Event()

    async def next(self, outputs: Sequence[Any]) -> Turn:
        """The next turn, after what the calls of the last one gave, in their order."""
        if self._task is None:
            self._task = asyncio.create_task(self._whole())
        for future, output in zip(self._open, outputs, strict=True):
            self._running += 1
            self._all_wait.clear()
            future.set_result(output)
        await self._all_wait.wait()
        if self._task.done():
            return Turn(text=self._task.result())
        asked, self._asked = self._asked, []
        self._open = [future for _, _, future in asked]
        return Turn([(tool, parameters) for tool, parameters, _ in asked])

    async def _whole(self) -> str:
        try:
            return await self._program(self)
        finally:
            # Told in the next turn of the loop, when this task counts as done.
            asyncio.get_running_loop().call_soon(self._less)

    def _less(self) -> None:
        self._running -= 1
        if self._running == 0:
            self._all_wait.set()

    async def do(self, tool: str, **parameters: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        self._asked.append((tool, parameters, future))
        self._less()
        return await future

    async def each(self, *branches: Coroutine[Any, Any, Any]) -> Sequence[Any]:
        left = len(branches)
        if not left:
            return []
        self._running += left - 1

        async def branch(of: Coroutine[Any, Any, Any]) -> Any:
            nonlocal left
            given = await of
            left -= 1
            if left:  # the last one leaves its place to whoever waits for all of them
                self._less()
            return given

        return await asyncio.gather(*map(branch, branches))

    async def wait(self, seconds: float) -> None:
        await self.do(WAIT, seconds=seconds)

    async def ask(self, question: str, choices: Sequence[str]) -> str:
        return str(await self.do(ASK, question=question, choices=list(choices)))
