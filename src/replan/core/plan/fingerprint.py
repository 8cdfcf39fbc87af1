"""What a plan means, whatever its steps are called: plans with one print are the same plan again (§9).

A step's label is made of its tools, its parameters and what it waits for; a step that it refers to stands in it as
that step's own label. So two plans that differ in nothing but ids have one print, and any other tool, parameter or
edge makes another.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Collection, Mapping

from replan.core.calls.inside import in_order, needs_inside, own_action
from replan.core.ids import call_content, canonical, digest
from replan.core.plan.graph import Graph
from replan.core.references.refs import Reference, rewritten
from replan.core.types import JsonObject, Plan, Step, StepId


def prints_of(
    plan: Plan,
    succeeded: Collection[StepId] = (),
    known: Mapping[StepId, str] | None = None,
    done: Collection[StepId] = (),
) -> tuple[str, str]:
    """The print of the whole plan, and of what of it has not succeeded (the same where all has).

    `known`: labels of steps that earlier plans had, by which references to them are understood. `done`: those of them
    that succeeded; a step that is to do the same once more (`repeat`) is another one each time. One that stands for another one
    (`instead_of`) is so where that is not the same call: the plan is judged otherwise.
    """
    labels = labels_of(plan, known or {})
    before = (
        Counter(known[name] for name in done if name in known and name not in labels) if known else Counter()
    )
    for step in plan.steps:
        if step.repeat or any(action.repeat for action in step.actions):
            label = labels[step.step_id]
            labels[step.step_id] = digest(f"again\x00{label}\x00{before[label]}")
        label = labels[step.step_id]
        if failed := {(known or {}).get(name, name) for name in step.instead_of} - {label}:
            labels[step.step_id] = digest("instead\x00" + canonical([label, *sorted(failed)]))
    left = [labels[step.step_id] for step in plan.steps if step.step_id not in succeeded]
    whole = digest("whole\x00" + canonical(sorted(labels.values())))
    return whole, digest("open\x00" + canonical(sorted(left))) if left else whole


def labels_of(plan: Plan, known: Mapping[StepId, str]) -> dict[StepId, str]:
    """Each step's label, by its id."""
    steps = {step.step_id: step for step in plan.steps}
    owners = {action.action_id: step.step_id for step in plan.steps for action in step.actions}
    labels: dict[StepId, str] = {}
    names = ChainMap(labels, dict(known))
    for step_id in Graph.of(plan).topological():
        if (step := steps.get(step_id)) is not None:
            labels[step_id] = _label(step, names, owners)
    return labels


def _label(step: Step, labels: Mapping[StepId, str], owners: Mapping[str, StepId]) -> str:
    """What the step calls, with what, and after what. What it takes from others stands in its parameters."""
    taken: set[StepId] = set()
    inside: dict[str, str] = {}

    def named(value: object) -> object:
        return rewritten(value, reference)

    def reference(ref: Reference) -> str:
        if (own := own_action(step, ref)) is not None and own in inside:
            return f"${{inside {inside[own]}.{ref.path or ''}}}"
        owner = owners.get(ref.head, ref.head)
        taken.add(owner)
        return f"${{{labels[owner]}.{ref.action or ''}.{ref.path or ''}}}" if owner in labels else ref.raw

    needs = needs_inside(step)
    for action in in_order(step):
        content = call_content(action.tool, named(action.parameters))
        if first := sorted(inside.get(name, name) for name in needs.get(action.action_id, ())):
            content = digest("after\x00" + canonical([content, *first]))
        inside[action.action_id] = content
    parts: JsonObject = {
        "calls": sorted(inside.values())
        if step.actions
        else [call_content(step.tool, named(step.parameters))],
        "each": named(step.for_each or ""),
        "when": _NAME.sub(lambda found: labels.get(found.group(), found.group()), step.when or ""),
    }
    if step.allow_failed_items:
        parts["without"] = "failed items"
    parts["after"] = sorted(labels.get(need, need) for need in step.dependencies if need not in taken)
    return digest(canonical(parts))


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
