"""A graph run as a plan by the whole orchestrator, on a clock where waiting takes no time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from bench.makespan.graphs import Dag
from replan.core.events import TaskSubmitted
from replan.core.limits.policy import Budget, Policy
from replan.core.types import ToolSpec
from replan.ports import ToolCall
from replan.run.orchestrator import drive
from replan.run.session.dependencies import Parts
from replan.testing import ManualIds, MemoryStore, VirtualClock, virtual_time
from replan.tools.catalog.catalog import Catalog


class Sleeper:
    """A source of one tool with an effect: it takes as long as it is told to."""

    name = "sleeper"

    async def tools(self) -> Sequence[ToolSpec]:
        parameters = {
            "type": "object",
            "properties": {"step": {"type": "string"}, "secs": {"type": "number"}},
            "required": ["step", "secs"],
        }
        return [ToolSpec(id="work", parameters=parameters, effect="once", source=self.name)]

    async def call(self, call: ToolCall) -> Any:
        await asyncio.sleep(call.parameters["secs"])
        return call.step_id

    async def aclose(self) -> None:
        return None


def makespan(dag: Dag, workers: int, estimated: Mapping[str, float] | None = None) -> float:
    """Virtual seconds from submitting the plan, with these estimates in it, to the task's end."""
    return virtual_time(_makespan(dag, workers, estimated or {}))


async def _makespan(dag: Dag, workers: int, estimated: Mapping[str, float]) -> float:
    catalog = Catalog([Sleeper()])
    await catalog.open()
    store, clock = MemoryStore(), VirtualClock()
    policy = Policy(
        evaluation="steps", parallel_max_concurrent=workers, budget=Budget(task_timeout_secs=None)
    )
    submitted = TaskSubmitted(description=dag.name, plan=dag.plan("work", estimated), policy=policy)
    await store.create("task", submitted, clock.now())
    state = await drive("task", Parts(store, catalog, {}, clock, ManualIds()))
    if state.status != "succeeded":
        raise RuntimeError(f"{dag.name} ended as {state.status}: {state.outcome}")
    records = await store.read("task")
    return records[-1].ts - records[0].ts
