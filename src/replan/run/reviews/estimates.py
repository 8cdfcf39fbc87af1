"""How long a plan may take, by how long its tools have taken so far, and which steps decide that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.plan.graph import Graph
from replan.core.references.paths import PathError, select
from replan.core.references.refs import listed, whole
from replan.core.types import Plan, Step, StepId
from replan.core.waits.tools import tools_of
from replan.run.session.dependencies import Parts

UNKNOWN_SECS = 1.0
"""A step of which nothing is known, beside others: only for which path is the longest."""


class Estimates:
    """What is known of steps before they run. `metadata`: of the task, for how many items a `for_each` has."""

    def __init__(self, parts: Parts, metadata: Mapping[str, Any], *, side_by_side: int = 8) -> None:
        self._parts = parts
        self._metadata = metadata
        self._side_by_side = max(1, side_by_side)

    def items_of(self, step: Step) -> int | None:
        """How often the step is done; None: that shows when it runs."""
        if step.for_each is None:
            return 1
        if (items := listed(step.for_each)) is not None:
            return len(items)
        found = whole(step.for_each)
        if found is None or found.head != "metadata" or found.problem:
            return None
        try:
            value = select(found.path, self._metadata) if found.path else self._metadata
        except PathError:
            return None
        return len(value) if isinstance(value, list) else None

    def calls_of(self, step: Step, *, models_only: bool = False) -> int:
        """At least so many. `models_only`: those that ask a model."""
        items, tools = self.items_of(step), tools_of(step)
        if models_only:
            tools = [name for name in tools if (tool := self._parts.tools.resolve(name)) and tool.asks_model]
        return (1 if items is None else items) * len(tools)

    def secs_of(self, step: Step) -> float | None:
        """The half of the tool's calls took no longer; None where one was never made. Actions are made side by side."""
        times = [self._secs(name) for name in tools_of(step)]
        known = [one for one in times if one is not None]
        if not times or len(known) < len(times):
            return None
        items = self.items_of(step)
        return math.ceil((1 if items is None else items) / self._side_by_side) * max(known)

    def _secs(self, name: str) -> float | None:
        tool = self._parts.tools.resolve(name)
        stats = None if tool is None else self._parts.record.of(tool)
        return None if stats is None else stats.quantile(0.5)

    def whole_secs(self, plan: Plan) -> float | None:
        """Of the longest path; None where a step of the plan is not known."""
        weights = {step.step_id: self.secs_of(step) for step in plan.steps}
        known = {step_id: secs for step_id, secs in weights.items() if secs is not None}
        if len(known) < len(weights):
            return None
        return max(Graph.of(plan).distance_to_end(known).values(), default=0.0)

    def path(self, plan: Plan) -> list[StepId]:
        """The steps of the longest path, the first one first."""
        weights = {
            step.step_id: next(
                (secs for secs in (self.secs_of(step), step.estimated_secs) if secs is not None), UNKNOWN_SECS
            )
            for step in plan.steps
        }
        graph = Graph.of(plan)
        if not weights or graph.cycle():
            return []
        distance = graph.distance_to_end(weights)
        order: Sequence[StepId] = [step for step in graph.order if not graph.needs[step]]
        found: list[StepId] = []
        while order:
            found.append(max(order, key=distance.__getitem__))  # of equals the first
            order = graph.needed_by[found[-1]]
        return found


async def critical_path(plan: Plan, estimates: Estimates) -> list[StepId]:
    return await beside(estimates.path, plan) if len(plan.steps) > MANY else estimates.path(plan)
