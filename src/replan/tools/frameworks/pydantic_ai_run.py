"""What Pydantic AI tools find around them: a run without an agent, threads, and turns."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic_ai import RunContext, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset, ApprovalRequiredToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_ai.usage import RunUsage

from replan.tools.functions.context import current
from replan.tools.functions.threads import DaemonThreads


class NoModel(Model[Any]):
    """The model of a context in which there is none."""

    def __init__(self) -> None:
        super().__init__()

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        raise UserError("the tool asks `ctx.model`, but Replan calls it outside of an agent, without a model")

    @property
    def model_name(self) -> str:
        return "none"

    @property
    def system(self) -> str:
        return "replan"


def run_context(deps: Any) -> RunContext[Any]:
    """The context of calls that no agent makes: with these dependencies, and neither model nor messages."""
    return RunContext(deps=deps, model=NoModel(), usage=RunUsage())


class Executor(concurrent.futures.Executor):
    """Daemon threads as Pydantic AI takes them: it hands each synchronous function to `submit`, in the loop."""

    def __init__(self, threads: DaemonThreads) -> None:
        self._threads = threads

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        context = current()
        work = context.in_time(lambda: function(*args, **kwargs), "the tool")
        task = asyncio.ensure_future(self._threads.run(work, context.goes_on))

        def settle(done: asyncio.Future[Any]) -> None:
            if future.cancelled() or done.cancelled():
                return
            if (error := done.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(done.result())

        task.add_done_callback(settle)
        future.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)
        return future


class Turns:
    """Many side by side, or one alone: what `sequential` means."""

    def __init__(self) -> None:
        self._free = asyncio.Condition()
        self._running = 0
        self._alone = False
        self._queued = 0

    def _may_begin(self, alone: bool) -> bool:
        return not self._alone and not (self._running if alone else self._queued)

    @contextlib.asynccontextmanager
    async def turn(self, *, alone: bool) -> AsyncIterator[None]:
        """Wait for a turn; with `alone`, until nothing else runs."""
        if alone or self._alone or self._queued:
            async with self._free:
                self._queued += alone
                try:
                    await self._free.wait_for(lambda: self._may_begin(alone))
                finally:
                    self._queued -= alone
                    self._free.notify_all()  # whoever stood behind it, if it has given up
                self._running += 1
                self._alone = alone
        else:
            self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if alone:
                self._alone = False
            if alone or not self._running:
                _wake(self._free)


def _wake(condition: asyncio.Condition) -> None:
    """Let those who wait look again, without waiting for the lock: this also runs when a call is cancelled."""

    async def notify() -> None:
        async with condition:
            condition.notify_all()

    task = asyncio.ensure_future(notify())
    _WAKING.add(task)
    task.add_done_callback(_WAKING.discard)


_WAKING: set[asyncio.Future[None]] = set()
"""The loop itself holds tasks weakly."""


def asks_first(toolset: AbstractToolset[Any], tool: ToolsetTool[Any]) -> bool:
    """Whether an `ApprovalRequiredToolset` lies between the toolset and the tool."""
    found: Any = toolset
    while isinstance(found, WrapperToolset):
        if isinstance(found, ApprovalRequiredToolset):
            return True
        found = found.wrapped
    inner = getattr(tool, "source_toolset", None)
    return (
        inner is not None and inner is not toolset and asks_first(inner, getattr(tool, "source_tool", tool))
    )
