"""Whole tasks in one process, on a store in memory: for tests of the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from replan.core.events import TERMINAL, Record
from replan.core.limits.policy import Budget, Policy
from replan.core.report.result import TaskResult
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.core.tools.rules import ToolRules
from replan.core.types import JsonObject, Role
from replan.engine.local import LocalEngine
from replan.ports import Clock, Model, Store, ToolSource
from replan.run.service.submission import Submission
from replan.run.service.tasks import Service
from replan.run.session.dependencies import Parts
from replan.testing import (
    FakeSource,
    FakeTool,
    ManualIds,
    MemoryStore,
    ScriptedModel,
    VirtualClock,
    fake_source,
)
from replan.tools.catalog.catalog import Catalog
from replan.tools.catalog.own_tools import WithOwnTools

ROLES: tuple[Role, ...] = get_args(Role)


def step(step_id: str, tool: str = "", *needs: str, **more: Any) -> JsonObject:
    """A step of a plan; `needs` are its dependencies. Where it says `repeat`, it has a reason."""
    if more.get("repeat"):
        more = {"repeat_reason": "the task wants it that often", **more}
    made: JsonObject = {"step_id": step_id, "tool": tool, "parameters": {}, "dependencies": list(needs)}
    return {**made, **more}


def action(action_id: str, tool: str, **parameters: Any) -> JsonObject:
    return {"action_id": action_id, "tool": tool, "parameters": parameters}


def plan(*steps: JsonObject) -> JsonObject:
    return {"steps": list(steps)}


def verdict(
    score: float = 95, output: Any = "done", *, success: bool | None = None, correctness: float = 90
) -> JsonObject:
    """An answer of the evaluator; unless told, its flag goes with its score."""
    return {
        "overall_score": score,
        "is_successful": score >= 80 if success is None else success,
        "dimensions": {
            "completeness": score,
            "correctness": correctness,
            "efficiency": 80,
            "reliability": 80,
        },
        "final_output": output,
    }


@dataclass
class Bench:
    """A store, tools and a model, and what became of the tasks on them."""

    service: Service
    source: Any
    model: Any
    store: Any
    parts: Parts
    submitted: list[str] = field(default_factory=list)

    async def submit(
        self,
        wanted: JsonObject | None = None,
        *,
        text: str = "do it",
        metadata: JsonObject | None = None,
        context: JsonObject | None = None,
        tenant: str = "",
        task_id: str | None = None,
        budget: Mapping[str, Any] | None = None,
        **policy: Any,
    ) -> str:
        if wanted is not None:
            policy.setdefault("evaluation", "steps")
        task_id, _ = await self.service.submit(
            Submission(
                description=text,
                policy=Policy(budget=Budget(**(budget or {})), **policy),
                metadata=metadata or {},
                context=context or {},
                tenant=tenant,
                task_id=task_id,
                plan=wanted,
            )
        )
        return task_id

    async def drive(self, task_id: str) -> Ran:
        driven = await self.service.drive(task_id)
        return await self.ran(task_id, driven)

    async def run(self, wanted: JsonObject | None = None, **more: Any) -> Ran:
        return await self.drive(await self.submit(wanted, **more))

    async def drive_on(self, task_id: str) -> Ran:
        """The same, also over the times that the task waits by itself."""
        engine = LocalEngine(
            self.service.drive,
            1,
            asleep=self.service.until_it_goes_on,
            elsewhere=self.service.driven_elsewhere,
        )
        return await self.ran(task_id, await engine.start(task_id))

    async def ran(self, task_id: str, driven: State | None = None) -> Ran:
        records = await self.store.read(task_id)
        return Ran(
            records, fold(records), driven, await self.service.result(task_id), self.source, self.model
        )


@dataclass
class Ran:
    """What the log says of a task."""

    records: list[Record]
    state: State
    driven: State | None
    result: TaskResult
    source: Any
    model: Any

    def types(self) -> list[str]:
        return [record.type for record in self.records]

    def events(self, kind: str, **wanted: Any) -> list[Any]:
        """The events of a type whose fields have these values."""
        return [
            record.event
            for record in self.records
            if record.type == kind
            and all(getattr(record.event, name) == value for name, value in wanted.items())
        ]

    def times(self, kind: str) -> dict[str, float]:
        """When each step had its (last) event of a type, in seconds from the task's start."""
        zero = self.records[0].ts
        return {r.event.step_id: round(r.ts - zero, 6) for r in self.records if r.type == kind}  # type: ignore[union-attr]

    def order(self, kind: str) -> list[str]:
        return [record.event.step_id for record in self.records if record.type == kind]  # type: ignore[union-attr]

    def statuses(self) -> dict[str, str]:
        return {name: one.status for name, one in self.state.steps.items()}

    def outputs(self) -> dict[str, Any]:
        return {one.step_id: one.output for one in self.result.steps if one.status == "succeeded"}

    def check(self) -> Ran:
        """What holds of the log of every ended task."""
        assert [record.seq for record in self.records] == list(range(1, len(self.records) + 1))
        ends = [record for record in self.records if isinstance(record.event, TERMINAL)]
        assert len(ends) == 1, f"{len(ends)} terminal events: {self.types()}"
        assert self.records[-1] is ends[0]
        assert not self.state.running_calls(), "calls were left open"
        assert not self.state.llm_running, "model calls were left open"
        assert "running" not in self.statuses().values(), "steps were left open"
        return self


async def bench(
    tools: Mapping[str, FakeTool | Callable[..., Any] | Any] | ToolSource | None = None,
    answers: Any = None,
    *,
    store: Store | None = None,
    model: Model | None = None,
    rules: ToolRules | None = None,
    clock: Clock | None = None,
) -> Bench:
    """A bench with fake tools and a scripted model, on virtual time if the loop is."""
    source = (
        fake_source({} if tools is None else tools) if tools is None or isinstance(tools, Mapping) else tools
    )
    catalog = Catalog([source], rules=rules)
    await catalog.open()
    scripted = model if model is not None else ScriptedModel({} if answers is None else answers)
    kept = MemoryStore() if store is None else store
    parts = Parts(
        store=kept,  # type: ignore[arg-type]
        tools=WithOwnTools(catalog, catalog.rules),
        models=dict.fromkeys(ROLES, scripted),  # type: ignore[arg-type]
        clock=VirtualClock() if clock is None else clock,
        ids=ManualIds(),
        driver="test",
    )
    return Bench(Service(parts), source, scripted, kept, parts)


__all__ = ["Bench", "FakeSource", "FakeTool", "Ran", "action", "bench", "plan", "step", "verdict"]
