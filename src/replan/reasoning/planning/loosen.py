"""Dropping the dependencies that a small model declares for no reason.

Two readings commute: a step that only reads does not have to wait for another that only reads, unless it uses
its output. What the dropped step itself waited for is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.plan.graph import Graph
from replan.core.references.conditions import steps_in_condition
from replan.core.references.refs import references
from replan.core.types import Plan, Step, StepId, ToolSpec


def loosen(plan: Plan, tools: Sequence[ToolSpec]) -> Plan:
    """The plan without declared dependencies between readings that use nothing of each other.

    Takes a checked plan (no cycle, implied dependencies united, tools by id). What it gives is to be checked again:
    it is another plan, and dependencies that metadata implies are not seen here.
    """
    effects = {tool.id: tool.effect for tool in tools}
    owners = {action.action_id: step.step_id for step in plan.steps for action in step.actions}
    by_id = {step.step_id: step for step in plan.steps}
    reading = {
        step.step_id for step in plan.steps if all(effects.get(tool) == "reads" for tool in _tools(step))
    }
    done: dict[StepId, tuple[StepId, ...]] = {}
    for name in Graph.of(plan).topological():
        step = by_id[name]
        used = _used(step, owners)
        kept: dict[StepId, None] = {}
        for need in step.dependencies:
            if need in by_id and need not in used and need in reading and step.step_id in reading:
                kept.update(dict.fromkeys(done[need]))
            else:
                kept[need] = None
        done[step.step_id] = tuple(kept)
    steps = tuple(
        step
        if done[step.step_id] == step.dependencies
        else step.model_copy(update={"dependencies": done[step.step_id]})
        for step in plan.steps
    )
    return plan if steps == plan.steps else plan.model_copy(update={"steps": steps})


def _tools(step: Step) -> list[str]:
    return [action.tool for action in step.actions] or [step.tool]


def _used(step: Step, owners: dict[str, StepId]) -> set[StepId]:
    """The steps whose output or status the step looks at."""
    found = list(references(step.parameters))
    for action in step.actions:
        found += references(action.parameters)
    if step.for_each:
        found += references(step.for_each)
    heads = {owners.get(reference.head, reference.head) for reference in found}
    return heads | set(steps_in_condition(step.when)) if step.when else heads
