"""A service on one of the stores, without a front end, and tasks that wait, run and fail on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

from run_tasks import plan, step

from replan import Replan
from replan.config import Settings
from replan.core.types import JsonObject
from replan.run.access.callers import LOCAL, Caller
from replan.run.access.requests import SubmitContext, SubmitOptions, SubmitRequest
from replan.run.access.use_cases import UseCases
from replan.run.access.views import Submitted, WaitingTask
from replan.testing import FakeSource, FakeTool

SECS = 20.0
"""Longer than anything here takes; what takes longer hangs."""
STORES = ("sqlite", "postgres")
ASKED = plan(step("a", "pay", parameters={"amount": 7}, requires_approval=True))
PLAIN = plan(step("a", "look"))
FAILS = plan(step("a", "look"), step("b", "break", "a"))


class Held(FakeSource):
    """Its tool `hold` comes back when it is let go."""

    def __init__(self, tools: dict[str, Any]) -> None:
        super().__init__({**tools, "hold": FakeTool()})
        self.entered, self.let_go = asyncio.Event(), asyncio.Event()

    async def call(self, call: Any) -> Any:
        if call.tool_id == "hold":
            self.entered.set()
            await self.let_go.wait()
        return await super().call(call)


class World(NamedTuple):
    cases: UseCases
    replan: Replan
    source: Held

    async def submit(
        self, wanted: JsonObject | None = None, caller: Caller = LOCAL, *, context: Any = None, **more: Any
    ) -> Submitted:
        options = SubmitOptions(plan=wanted or PLAIN, evaluation="steps")
        request = SubmitRequest(
            task_description="do it", options=options, context=SubmitContext(**(context or {})), **more
        )
        return await self.cases.submit(caller, request)

    async def done(self, task_id: str, caller: Caller = LOCAL) -> Any:
        return await self.cases.result(caller, task_id, wait_secs=SECS)

    async def waits(self, task_id: str, caller: Caller = LOCAL) -> WaitingTask:
        """What the task waits for from a person, once it does."""

        async with asyncio.timeout(SECS):
            async for record in self.replan.watch(task_id):
                if record.type == "task_waiting":
                    break
        return (await self.cases.waits(caller, task_id))[0]


@contextlib.asynccontextmanager
async def world(
    db: str | Path,
    tools: dict[str, Any] | None = None,
    model: Any = None,
    settings: Settings | None = None,
) -> AsyncIterator[World]:
    source = Held(
        {
            "look": FakeTool(output="seen"),
            "pay": FakeTool(
                output="paid",
                effect="once",
                parameters={"type": "object", "properties": {"amount": {"type": "integer"}}},
            ),
            "break": FakeTool(fail=["no such invoice"] * 9),
            **(tools or {}),
        }
    )
    async with Replan(model, tools=[source], db=db, settings=settings) as replan:
        yield World(UseCases(replan.service, replan.serving()), replan, source)


def database(kind: str, folder: Path, get: Callable[[str], Any]) -> str | Path:
    """Where it is; `get`: of fixtures."""
    return folder / "log.db" if kind == "sqlite" else str(get("postgres_database"))
