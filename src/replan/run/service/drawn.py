"""A task as a graph, from its log."""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.drawing.graph import TaskGraph
from replan.core.events import PlanGenerated, PlanUpdated, Record
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.core.types import Plan
from replan.errors import InputError
from replan.run.service.results import statuses_of


def graph_of(state: State, now: float) -> TaskGraph:
    """Its latest plan, and how that goes."""
    return TaskGraph.of(state, now, statuses_of(state))


def graph_of_log(records: Sequence[Record], now: float, version: int | None = None) -> TaskGraph:
    """The same, or an earlier version of its plan. `InputError` if there is none."""
    state = fold(records)
    if state.plan is None or version in (None, state.plan.version):
        return graph_of(state, now)
    plan = plan_of_version(records, state, version)
    return TaskGraph.of_plan(plan, task_id=state.task_id, status=state.status, versions=state.plan.version)


def plan_of_version(records: Sequence[Record], state: State, version: int | None) -> Plan:
    """The latest where no version is named."""
    if state.plan is None:
        raise InputError(f"task {state.task_id!r} has no plan: it is {state.status}")
    if version is None or version == state.plan.version:
        return state.plan
    plans = {
        record.event.plan.version: record.event.plan
        for record in records
        if isinstance(record.event, PlanGenerated | PlanUpdated)
    }
    if version not in plans:
        there = ", ".join(map(str, sorted({*plans, state.plan.version})))
        raise InputError(f"task {state.task_id!r} has no plan {version}; there are: {there}")
    return plans[version]
