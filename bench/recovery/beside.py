"""A step that fails and is recovered, beside everything that does not depend on it: makespans on a virtual clock.

One step of a graph fails once, somewhere on its way, is thought about, and is done with other parameters. The critical
path includes that: the failed step is as long as its failed try, the diagnosis and the second try together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.makespan.graphs import Dag
from bench.recovery.nonsense import reflection
from replan.core.limits.policy import Budget, Policy
from replan.core.types import JsonObject, ToolSpec
from replan.ports import ModelReply, ModelRequest, ToolCall
from replan.run.service.submission import Submission
from replan.run.service.tasks import Service
from replan.run.session.dependencies import Parts
from replan.testing import ManualIds, MemoryStore, ScriptedModel, VirtualClock, virtual_time
from replan.tools.catalog.catalog import Catalog

ROLES = ("selection", "planning", "reflection", "evaluation")
PLACES = 8


@dataclass(frozen=True)
class Beside:
    """What became of one graph, in seconds."""

    dag: str
    steps: int
    on_path: bool
    """The failing step lies on the critical path of the graph without a failure."""
    critical_path: float
    """With the recovery."""
    undisturbed: float
    """The makespan without a failure, with eight places."""
    makespan: float
    """With a place for each step."""
    with_eight: float
    bound_of_eight: float
    """No schedule of eight places is shorter: the critical path, or the work shared by all."""

    @property
    def ratio(self) -> float:
        return self.makespan / self.critical_path


@dataclass(frozen=True)
class _Failing:
    """The step that fails, after what share of its time, and how long the diagnosis takes."""

    step: str
    share: float
    model_secs: float


class _Sleeper:
    """A source of one tool that takes as long as it is told to; in one step it fails until it is called rightly."""

    name = "sleeper"

    def __init__(self, failing: _Failing | None) -> None:
        self._failing = failing

    async def tools(self) -> Sequence[ToolSpec]:
        properties = {"step": {"type": "string"}, "secs": {"type": "number"}, "mode": {"type": "string"}}
        parameters = {"type": "object", "properties": properties, "required": ["step", "secs"]}
        return [ToolSpec(id="work", parameters=parameters, effect="once", source=self.name)]

    async def call(self, call: ToolCall) -> Any:
        failing, secs = self._failing, call.parameters["secs"]
        if failing is not None and call.step_id == failing.step and call.parameters.get("mode") != "right":
            await asyncio.sleep(secs * failing.share)
            raise ValueError("invalid value of parameter 'mode'")
        await asyncio.sleep(secs)
        return call.step_id

    async def aclose(self) -> None:
        return None


class _Slow:
    """A model that takes its time."""

    name = "slow"
    style = "standard"

    def __init__(self, secs: float) -> None:
        self._secs = secs
        answer = reflection("parameter_error", "retry_with_params", {"mode": "right"})
        self._script = ScriptedModel({"step_reflection": answer, "evaluation": _GOOD})

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        await asyncio.sleep(self._secs)
        return await self._script.ask(request, on_text)

    async def aclose(self) -> None:
        return None


_NAMES = ("completeness", "correctness", "efficiency", "reliability")
_GOOD: JsonObject = {"overall_score": 95, "is_successful": True, "dimensions": dict.fromkeys(_NAMES, 95)}


def beside(dag: Dag, seed: int) -> Beside:
    """Run the graph with one failing step, drawn by the seed."""
    draw = random.Random(f"{seed} {dag.name}")
    step = draw.choice(sorted(dag.secs))
    usual = sum(dag.secs.values()) / len(dag.secs)
    failing = _Failing(step, draw.uniform(0.1, 1.0), max(1e-3, usual * draw.uniform(0.2, 2.0)))
    longer = {
        **dag.secs,
        step: dag.secs[step] * (1 + failing.share) + failing.model_secs,
    }
    mended = Dag(dag.name, dag.app, dag.measured, longer, dag.graph)
    work = sum(longer.values()) - failing.model_secs  # no place is held while a step is thought about
    before = dag.critical_path - dag.to_end[step]
    return Beside(
        dag=dag.name,
        steps=len(dag.secs),
        on_path=_is_on_path(dag, step, before),
        critical_path=mended.critical_path,
        undisturbed=_makespan(dag, None, PLACES),
        makespan=_makespan(dag, failing, len(dag.secs) + 1),
        with_eight=_makespan(dag, failing, PLACES),
        bound_of_eight=max(mended.critical_path, work / PLACES),
    )


def _is_on_path(dag: Dag, step: str, before: float) -> bool:
    head: dict[str, float] = {}
    for name in dag.graph.topological():
        head[name] = max((head[one] + dag.secs[one] for one in dag.graph.needs[name]), default=0.0)
    return abs(head[step] - before) <= 1e-9 * max(1.0, dag.critical_path)


def _makespan(dag: Dag, failing: _Failing | None, places: int) -> float:
    return virtual_time(_run(dag, failing, places))


async def _run(dag: Dag, failing: _Failing | None, places: int) -> float:
    catalog = Catalog([_Sleeper(failing)])
    await catalog.open()
    store = MemoryStore()
    model = _Slow(failing.model_secs if failing is not None else 1.0)
    service = Service(Parts(store, catalog, dict.fromkeys(ROLES, model), VirtualClock(), ManualIds()))
    policy = Policy(
        parallel_max_concurrent=places, parallel_min_steps=1, budget=Budget(task_timeout_secs=None)
    )
    await service.submit(
        Submission(description=dag.name, policy=policy, plan=dag.plan("work"), task_id="task")
    )
    state = await service.drive("task")
    if state.status != "succeeded":
        raise RuntimeError(f"{dag.name} ended as {state.status}: {state.outcome}")
    records = await store.read("task")
    ended = [record.ts for record in records if record.type == "step_completed"]
    return max(ended) - records[0].ts
