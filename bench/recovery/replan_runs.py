"""One case run by Replan, on a clock where waiting takes no time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.recovery.oracle import OracleModel
from bench.recovery.row import Row, critical_path
from bench.recovery.task import Case
from bench.recovery.world import LOOK_UP, World
from replan.core.events import CallCompleted, Record
from replan.core.limits.policy import Budget, Policy
from replan.core.report.explain_recovery import INTERVENTION
from replan.core.report.result import TaskResult
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.core.types import ToolSpec
from replan.ports import ToolCall
from replan.run.service.submission import Submission
from replan.run.service.tasks import Service
from replan.run.session.dependencies import Parts
from replan.testing import ManualIds, MemoryStore, VirtualClock, virtual_time
from replan.tools.catalog.catalog import Catalog

ROLES = ("selection", "planning", "reflection", "evaluation")


class WorldSource:
    """The tools of one source, acting upon the world."""

    def __init__(self, name: str, specs: Sequence[ToolSpec], world: World) -> None:
        self.name = name
        self._specs = specs
        self._world = world

    async def tools(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, call: ToolCall) -> Any:
        return await self._world.call(call.tool_id, call.parameters, call.key)

    async def aclose(self) -> None:
        return None


@dataclass(frozen=True)
class Ran:
    """A case that Replan has run to its end, for whoever wants more than the row."""

    row: Row
    result: TaskResult
    state: State
    records: list[Record]
    world: World


def run(case: Case, right: float, seed: int, *, contrary: bool = False) -> Ran:
    """Run the case with an oracle that is right with this probability, or lies about calls in doubt."""
    return virtual_time(_run(case, right, seed, contrary))


async def _run(case: Case, right: float, seed: int, contrary: bool) -> Ran:
    world = case.make_world()
    sources = sorted({spec.source for spec in case.tools})
    catalog = Catalog(
        [
            WorldSource(source, [spec for spec in case.tools if spec.source == source], world)
            for source in sources
        ]
    )
    await catalog.open()
    if catalog.problems:
        raise RuntimeError(f"{case.name}: {catalog.problems}")
    store = MemoryStore()
    model = OracleModel(case, world, store, right, seed, contrary=contrary)
    parts = Parts(store, catalog, dict.fromkeys(ROLES, model), VirtualClock(), ManualIds())
    service = Service(parts)
    policy = Policy(enable_two_stage_planning=False, budget=Budget(task_timeout_secs=None))
    await service.submit(Submission(description=case.text, policy=policy, task_id="task"))
    await service.drive("task")
    records = await store.read("task")
    state, result = fold(records), await service.result("task")
    secs = records[-1].ts - records[0].ts
    row = Row(
        runner="Replan",
        case=case.name,
        group=case.group,
        kind=case.kind,
        right=right,
        ending=case.ending,
        finished=result.is_success and world.complete,
        reported=_reported(case, result),
        ended=result.failure.kind if result.failure is not None else result.status,
        calls=len(world.made),
        wasted=world.wasted(case.forced),
        duplicates=world.duplicates,
        lost=_lost(world, state, records),
        model_calls=model.calls,
        secs=round(secs, 3),
        critical_path=critical_path(case, models=2) if case.ending == "finished" else None,
    )
    return Ran(row, result, state, records, world)


def _reported(case: Case, result: TaskResult) -> bool:
    """It ended as something for a person, and says what."""
    failure = result.failure
    if failure is None or failure.kind != INTERVENTION:
        return False
    return not case.ask or any(case.ask in text for text in failure.advice)


def _lost(world: World, state: State, records: Sequence[Record]) -> int:
    """Outputs that tools gave and that are not in the log, or not where later steps can get them."""
    logged = [record.event.output for record in records if isinstance(record.event, CallCompleted)]
    held = [
        call.output.value
        for step in (*state.earlier.values(), *state.steps.values())
        for call in step.calls.values()
        if call.status == "succeeded" and call.output is not None and call.tool_id != LOOK_UP
    ]
    lost = 0
    for made in world.delivered():
        for kept in (logged, held):
            if made.output not in kept:
                lost += 1
                break
            kept.remove(made.output)
    return lost
