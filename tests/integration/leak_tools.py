"""Tools and a model that misbehave in every way that we know of, and let go when they are told to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from replan import tool
from replan.errors import ModelUnavailable, StoreError, ToolCallError
from replan.ports import ModelReply, ModelRequest, Progress, ToolCall
from replan.store.sqlite import SqliteStore
from replan.testing import ScriptedModel, VirtualTimeLoop
from replan.tools.functions.context import ToolContext
from replan.tools.functions.source import FunctionSource

EFFECTS = ("reads", "repeatable", "once")
FORMS = ("async", "generator", "thread", "thread_generator")
LARGE = "x" * 5_000


class Brutal(BaseException):
    """What no tool should raise."""


ERRORS: dict[str, Callable[[], BaseException]] = {
    "an error": lambda: ValueError("no"),
    "a passing fault": lambda: ConnectionResetError("try again"),
    "a parameter": lambda: ToolCallError("parameter 'call' is wrong", kind="http", status=400),
    "a busy server": lambda: ToolCallError("busy", kind="http", status=503, retry_after=2.0),
    "a timeout": TimeoutError,
    "a cancellation nobody asked for": asyncio.CancelledError,
    "an exit": lambda: SystemExit(3),
    "a base exception": lambda: Brutal("rude"),
    "a stop": StopIteration,
    "an async stop": StopAsyncIteration,
    "a store error": lambda: StoreError("not ours"),
    "a group": lambda: BaseExceptionGroup("several", [ValueError("a"), Brutal("b")]),
    "no memory": MemoryError,
}
ENDLESS = frozenset({"hangs", "deaf", "stops slowly", "answers when stopped", "fails when stopped"})
"""What goes on until it is cancelled; `deaf` even then."""


@dataclass(frozen=True)
class Act:
    """What one call does: for how long, how it goes on, how it ends."""

    secs: int = 1
    does: str = "answers"
    """`answers`, `answers at length`, one of `ERRORS`, or one of `ENDLESS`."""
    passing: int = 0
    """Passing faults before that."""


class ThreadAwareLoop(VirtualTimeLoop):
    """Virtual time that stands still while a thread that it was told of is at work."""

    @contextlib.contextmanager
    def owed(self) -> Iterator[None]:
        self._owed += 1
        try:
            yield
        finally:
            self._owed -= 1

    def owe(self, future: asyncio.Future[Any]) -> None:
        self._owed += 1
        future.add_done_callback(self._paid)


def owed() -> contextlib.AbstractContextManager[None]:
    """Time stands still inside, on a loop that can do so."""
    loop = asyncio.get_running_loop()
    return loop.owed() if isinstance(loop, ThreadAwareLoop) else contextlib.nullcontext()


class TimelyStore(SqliteStore):
    """A database whose writes take no virtual time."""

    async def create(self, *given: Any, **named: Any) -> Any:
        with owed():
            return await super().create(*given, **named)

    async def claim(self, *given: Any, **named: Any) -> Any:
        with owed():
            return await super().claim(*given, **named)

    async def release(self, *given: Any, **named: Any) -> None:
        with owed():
            await super().release(*given, **named)

    async def signal(self, *given: Any, **named: Any) -> Any:
        with owed():
            return await super().signal(*given, **named)

    def append(self, *given: Any, **named: Any) -> Any:
        future = super().append(*given, **named)
        loop = asyncio.get_running_loop()
        if isinstance(loop, ThreadAwareLoop):
            loop.owe(future)
        return future


class Misbehaving(FunctionSource):
    """Functions of each form and effect that do what the act of their `call` says. Made on a running loop.

    `deaf` counts the calls of async functions that are inside and do not listen; `let_go` ends them, and the
    threads that do not listen.
    """

    def __init__(self, acts: dict[str, Act]) -> None:
        self.acts = acts
        self.tries: Counter[str] = Counter()
        self.deaf = 0
        self._open = asyncio.Event()
        self._thread_open = threading.Event()
        super().__init__(self._functions())

    def let_go(self) -> None:
        self._open.set()
        self._thread_open.set()

    async def call(self, call: ToolCall) -> Any:
        act = self.acts[call.parameters["call"]]
        if call.tool_id.startswith("thread") and act.does not in ENDLESS:
            with owed():
                return await super().call(call)
        return await super().call(call)

    # ── what a call does ──

    def _begin(self, name: str) -> Act:
        self.tries[name] += 1
        act = self.acts[name]
        if self.tries[name] <= act.passing:
            raise ConnectionResetError("try again")
        return act

    def _end(self, act: Act) -> Any:
        if act.does in ERRORS:
            raise ERRORS[act.does]()
        return LARGE if act.does == "answers at length" else act.secs

    async def _go_on(self, act: Act) -> None:
        if act.does not in ENDLESS:
            await asyncio.sleep(act.secs)
            return
        if act.does == "deaf":
            self.deaf += 1
            try:
                while not self._open.is_set():
                    with contextlib.suppress(asyncio.CancelledError):
                        await self._open.wait()
            finally:
                self.deaf -= 1
            return
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            match act.does:
                case "stops slowly":
                    await asyncio.sleep(0.5)
                    raise
                case "fails when stopped":
                    raise ValueError("who dares") from None
                case "hangs":
                    raise

    def _block(self, act: Act, ctx: ToolContext) -> None:
        """The same in a thread, where only what waits for the cancellation hears of it."""
        if act.does == "deaf":
            self._thread_open.wait()
        elif act.does in ENDLESS:
            ctx.wait()
            if act.does == "fails when stopped":
                raise ValueError("who dares")

    def _functions(self) -> list[Callable[..., Any]]:
        made: list[Callable[..., Any]] = []
        for effect in EFFECTS:

            async def plain(call: str, needs: Any = None) -> Any:
                act = self._begin(call)
                await self._go_on(act)
                return self._end(act)

            async def generator(call: str, needs: Any = None) -> AsyncIterator[Any]:
                act = self._begin(call)
                yield "begun"
                await self._go_on(act)
                yield Progress("nearly", 1.0, 2.0)
                yield self._end(act)

            def thread(call: str, ctx: ToolContext, needs: Any = None) -> Any:
                act = self._begin(call)
                self._block(act, ctx)
                return self._end(act)

            def thread_generator(call: str, ctx: ToolContext, needs: Any = None) -> Iterator[Any]:
                act = self._begin(call)
                yield "begun"
                self._block(act, ctx)
                yield (1, 2)
                return self._end(act)

            for form, function in zip(FORMS, (plain, generator, thread, thread_generator), strict=True):
                made.append(tool(name=f"{form}_{effect}", effect=effect)(function))  # type: ignore[call-overload]
        return made


MODEL_FAULTS: dict[str, Callable[[], BaseException]] = {
    "is down": lambda: ModelUnavailable("down"),
    "has a bug": lambda: RuntimeError("bug"),
    "cancels itself": asyncio.CancelledError,
    "exits": lambda: SystemExit(3),
    "is rude": lambda: Brutal("rude"),
}


class MisbehavingModel(ScriptedModel):
    """Does at one schema what it is told: `answers`, `is slow`, `hangs`, is `deaf`, or one of `MODEL_FAULTS`."""

    def __init__(self, answers: Any, at: str, does: str) -> None:
        super().__init__(answers)
        self.at = at
        self.does = does
        self.deaf = 0
        self._open = asyncio.Event()

    def let_go(self) -> None:
        self._open.set()

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        if request.schema_name == self.at:
            match self.does:
                case "is slow":
                    await asyncio.sleep(7)
                case "hangs":
                    await asyncio.get_running_loop().create_future()
                case "deaf":
                    self.deaf += 1
                    while not self._open.is_set():
                        with contextlib.suppress(asyncio.CancelledError):
                            await self._open.wait()
                    self.deaf -= 1
                case "talks nonsense":
                    return ModelReply(text="I cannot help with that.")
                case fault if fault in MODEL_FAULTS:
                    raise MODEL_FAULTS[fault]()
        return await super().ask(request, on_text)
