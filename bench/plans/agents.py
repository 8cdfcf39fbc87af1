"""Agents of other frameworks on the same tools, with a model that never errs."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from bench.plans.hands import ASK, PERSON_SECS, WAIT, Turns
from bench.plans.meter import Meter
from bench.plans.row import Row, Wanted, row
from bench.plans.task import Task, Tools, tool
from replan.core.types import JsonObject, ToolSpec
from replan.ports import ToolCall
from replan.testing import FakeSource

Call: TypeAlias = Callable[[str, JsonObject], Awaitable[Any]]
"""Makes a call of a tool with these parameters."""
Run: TypeAlias = Callable[[str, list[ToolSpec], Call, Turns, Meter], Awaitable[str]]
"""Does the task; its last word."""


@dataclass(frozen=True)
class Peer:
    """A framework and the module that runs its agent."""

    label: str
    package: str
    module: str

    def version(self) -> str | None:
        """None: it is not installed."""
        try:
            importlib.import_module(self.module)
            return importlib.metadata.version(self.package)
        except (ImportError, importlib.metadata.PackageNotFoundError):
            return None

    async def run(self, task: Task, wanted: Wanted) -> Row:
        do: Run = importlib.import_module(self.module).run
        source, meter = FakeSource({**task.tools(), **_beside(task)}), Meter()

        async def call(name: str, parameters: JsonObject) -> Any:
            if name == WAIT:
                await asyncio.sleep(parameters["seconds"])
                return True
            return await source.call(ToolCall(name, parameters, key=""))

        clock = asyncio.get_running_loop().time
        began = clock()
        specs = [_described(one) for one in await source.tools()]
        said = await do(task.text, specs, call, Turns(task.by_hand), meter)
        secs = clock() - began
        end = "" if said == wanted.answer else f"it said {said!r}"
        return row(task.name, task.kind, self.label, meter, source, secs, wanted, end)


def _beside(task: Task) -> Tools:
    """What Replan has of its own and the task needs."""
    found = {}
    if task.waits:
        found[WAIT] = tool("Wait for so many seconds.", True, seconds="number")
    if task.person:
        found[ASK] = tool(
            "Ask a person what no tool can find out; gives the answer.",
            task.person,
            secs=PERSON_SECS,
            question="string",
            choices={"type": "array", "items": {"type": "string"}},
        )
    return found


def _described(spec: ToolSpec) -> ToolSpec:
    """With its sample, for which there is no place of its own."""
    if spec.sample is None:
        return spec
    return spec.put(description=f"{spec.description} A sample: {json.dumps(spec.sample)}")


PEERS = (
    Peer("LangGraph", "langgraph", "bench.plans.peer_langgraph"),
    Peer("Pydantic AI", "pydantic-ai-slim", "bench.plans.peer_pydantic_ai"),
)
