"""The five ways to make a plan anew (specification §8), as functions from plan and patch to plan.

Each gives the plan before it is checked, or raises `StrategyRefused` with the reason. Nothing here asks a model:
the new steps of `replan_from_step`, `add_remediation_steps` and `full_replan` are handed in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from replan.core.plan.graph import Graph
from replan.core.plan.index import references_of
from replan.core.recovery.reasons import is_a_reason
from replan.core.references.conditions import roots
from replan.core.reflection import Adjustment, Strategy
from replan.core.types import Plan, Step, StepId
from replan.core.words import some


class StrategyRefused(Exception):
    """The strategy cannot be carried out on this plan; the text says why."""


class Standing(NamedTuple):
    """Where the steps of a plan stand when it is made anew."""

    succeeded: frozenset[StepId]
    failed: frozenset[StepId]
    left_out: frozenset[StepId]
    """Skipped because of a failure or of a skipped input."""
    effects: frozenset[StepId] = frozenset()
    """Those that do more than read, as far as their tools are known."""
    repeated: frozenset[StepId] = frozenset()
    """The failed ones whose effect is had already: to make them again helps nobody, whatever is done before."""


def refusal(plan: Plan, standing: Standing, strategy: Strategy) -> str:
    """Why the strategy cannot be carried out on this plan; empty if it can, as far as is known beforehand."""
    try:
        match strategy.type:
            case "skip_steps":
                skip_steps(plan, standing, strategy.step_ids, strategy.reason)
            case "adjust_dependencies":
                adjust_dependencies(plan, standing, strategy.adjustments, strategy.reason)
            case "add_remediation_steps":
                to_be_helped(plan, standing, strategy)
            case "replan_from_step":
                kept_before(plan, standing, strategy.step_id)
    except StrategyRefused as refused:
        return str(refused)
    return ""


# ── code alone ────────────────────────────────────────────────────────────────


def skip_steps(plan: Plan, standing: Standing, step_ids: Sequence[StepId], reason: str = "") -> Plan:
    """The plan without these steps; what only waited for one waits for what that one waited for.

    An effect that was to follow one that is left out is had without it only for a `reason`.
    """
    gone = _known(plan, step_ids, "skip_steps")
    if all(name in standing.succeeded for name in gone):
        raise StrategyRefused("the steps to be skipped have succeeded already")
    rest = [step for step in plan.steps if step.step_id not in gone]
    if not rest:
        raise StrategyRefused("nothing would be left of the plan")
    owners = _owners(plan)
    for step in rest:
        if step.step_id not in standing.succeeded and (needed := refers_to(step, owners) & gone):
            raise StrategyRefused(f"step {step.step_id!r} needs the output of {_list(needed)}")
    _check_followers(plan, standing, gone, set(), reason)
    needs = {step.step_id: step.dependencies for step in plan.steps}
    steps = [_with(step, _bypassing(step.dependencies, gone, needs)) for step in rest]
    return plan.model_copy(update={"steps": tuple(steps)})


def adjust_dependencies(
    plan: Plan, standing: Standing, adjustments: Sequence[Adjustment], reason: str = ""
) -> Plan:
    """The plan with dependencies added and taken away; from an effect that has failed only for a `reason`."""
    if not adjustments:
        raise StrategyRefused("there is no adjustment")
    _known(plan, [one.step_id for one in adjustments], "adjust_dependencies")
    _known(
        plan,
        [name for one in adjustments for name in (*one.add, *one.remove)] or [plan.steps[0].step_id],
        "adjust",
    )
    owners = _owners(plan)
    steps = {step.step_id: step for step in plan.steps}
    for one in adjustments:
        step = steps[one.step_id]
        if cut := refers_to(step, owners) & set(one.remove):
            raise StrategyRefused(f"step {one.step_id!r} refers to {_list(cut)} and has to wait for it")
        _check_followers(plan, standing, set(one.remove), {one.step_id}, reason)
        if one.step_id in standing.succeeded and one.add:
            raise StrategyRefused(f"step {one.step_id!r} has succeeded already")
        wanted = [need for need in step.dependencies if need not in one.remove]
        steps[one.step_id] = _with(step, (*wanted, *(need for need in one.add if need not in wanted)))
    made = tuple(steps[step.step_id] for step in plan.steps)
    if made == plan.steps:
        raise StrategyRefused("the adjustments change nothing")
    if cycle := Graph.from_needs({step.step_id: step.dependencies for step in made}).cycle():
        raise StrategyRefused(f"the steps would form a cycle: {' → '.join(cycle)}")
    return plan.model_copy(update={"steps": made})


def _check_followers(
    plan: Plan, standing: Standing, gone: set[StepId], first: set[StepId], reason: str
) -> None:
    """`StrategyRefused` where an effect would no longer wait for one that was not had, and nothing says why that is not needed.

    `first`: the steps that wait for it no more; none: all that have waited.
    """
    lost = gone & standing.effects & (standing.failed | standing.left_out)
    if not lost or is_a_reason(reason):
        return
    graph = Graph.of(plan)
    after = {*first, *graph.downstream(first or lost)} - gone - standing.succeeded
    if followers := after & standing.effects:
        raise StrategyRefused(
            f"{_list(followers)} was to follow {_list(lost)}, whose effect was not had: say in `reason` why the user does not need that "
            "effect; if it is needed, leave both out, or have a new plan made (full_replan)"
        )


# ── with steps of a planner ───────────────────────────────────────────────────


def kept_before(plan: Plan, standing: Standing, start: StepId | None) -> tuple[StepId, ...]:
    """What stays when the plan is written anew from `start` on (None: from what failed on).

    All but `start`, what failed or was left out because of it, and everything that depends on one of these.
    """
    if start is not None:
        _known(plan, [start], "replan_from_step")
    broken = {*standing.failed, *standing.left_out, *([start] if start is not None else ())}
    gone = broken | set(Graph.of(plan).downstream(broken))
    return tuple(step.step_id for step in plan.steps if step.step_id not in gone)


def with_suffix(plan: Plan, kept: Collection[StepId], new: Sequence[Step]) -> Plan:
    """The kept steps, and the new ones after them."""
    names = frozenset(kept)
    prefix = [
        _with(step, tuple(need for need in step.dependencies if need in names))
        for step in plan.steps
        if step.step_id in names
    ]
    return plan.model_copy(update={"steps": (*prefix, *new)})


def to_be_helped(plan: Plan, standing: Standing, strategy: Strategy) -> tuple[StepId, ...]:
    """The failed steps that remediation steps go before."""
    if strategy.step_id is not None:
        _known(plan, [strategy.step_id], "add_remediation_steps")
        if strategy.step_id not in standing.failed:
            raise StrategyRefused(f"step {strategy.step_id!r} has not failed")
        if strategy.step_id in standing.repeated:
            text = "was not made since its effect is had already, and nothing that is done before it changes that: it is to be left out"
            raise StrategyRefused(f"step {strategy.step_id!r} {text}")
        return (strategy.step_id,)
    if not standing.failed - standing.repeated:
        raise StrategyRefused("no step has failed, so there is nothing to go before")
    return tuple(step.step_id for step in plan.steps if step.step_id in standing.failed - standing.repeated)


def with_remediation(plan: Plan, helped: Collection[StepId], new: Sequence[Step]) -> Plan:
    """The plan with new steps that have to be done before the helped ones, which may be restated among them.

    New steps that say they are in place of a helped one (`instead_of`) take its place: it is left out, and what waited for it waits for them.
    """
    restated = {step.step_id: step for step in new if step.step_id in helped}
    added = [step for step in new if step.step_id not in helped]
    if not added and not restated:
        raise StrategyRefused(
            "there is no step to be done before the failed one; one that is to be done in its place says `instead_of` with its id"
        )
    taken = _taken(plan, helped, added, restated)
    approved = {one for step in plan.steps if step.requires_approval for one in taken.get(step.step_id, ())}
    added = [
        _with(step, _in_place(step, step.dependencies, taken)).model_copy(
            update={"requires_approval": step.requires_approval or step.step_id in approved}
        )
        for step in added
    ]
    needed = {need for step in added for need in step.dependencies}
    in_place = {name for names in taken.values() for name in names}
    last = [name for step in added if (name := step.step_id) not in needed and name not in in_place]
    steps: list[Step] = []
    for step in plan.steps:
        if step.step_id in helped:
            steps += added  # before the first of them
            added = []
        if step.step_id in taken:
            continue
        wanted: Sequence[StepId] = step.dependencies
        made = restated.get(step.step_id, step)
        if step.step_id in helped:
            if step.requires_approval:
                made = made.model_copy(update={"requires_approval": True})
            wanted = [*step.dependencies, *made.dependencies, *last]
        steps.append(_with(made, _in_place(step, wanted, taken)))
    return plan.model_copy(update={"steps": tuple(steps)})


def _in_place(
    step: Step, wanted: Iterable[StepId], taken: Mapping[StepId, tuple[StepId, ...]]
) -> tuple[StepId, ...]:
    """What the step waits for, each that is gone replaced by those in its place."""
    names = (name for need in wanted for name in taken.get(need, (need,)))
    return tuple(dict.fromkeys(name for name in names if name != step.step_id))


def _taken(
    plan: Plan, helped: Collection[StepId], added: Sequence[Step], restated: Collection[StepId]
) -> dict[StepId, tuple[StepId, ...]]:
    """The helped steps whose place new ones take, with these."""
    found: dict[StepId, tuple[StepId, ...]] = {}
    for step in added:
        for name in step.instead_of:
            if name in helped:
                found[name] = (*found.get(name, ()), step.step_id)
    owners = _owners(plan)
    for name, by in found.items():
        if name in restated:
            raise StrategyRefused(
                f"step {name!r} is written again, and {_list(by)} says `instead_of` {name!r}: only one of the two"
            )
        rest = [step for step in (*plan.steps, *added) if step.step_id not in found]
        if who := next((step.step_id for step in rest if name in refers_to(step, owners)), None):
            raise StrategyRefused(
                f"step {who!r} needs the output of {name!r}, so no other step can take its place (`instead_of`)"
            )
    return found


def due_again(plan: Plan, standing: Standing, strategy: Strategy) -> tuple[StepId, ...]:
    """The steps of a changed plan that had come to an end and begin again.

    Of those that failed only the ones that the change was for: the helped ones, or those that now wait for others. What
    was left out because of a failure is due too, unless another failed step still stands before it.
    """
    mine = [step.step_id for step in plan.steps]
    failed = [name for name in mine if name in standing.failed]
    match strategy.type:
        case "add_remediation_steps" if strategy.step_id is not None:
            meant = {strategy.step_id}
        case "adjust_dependencies":
            adjusted = [one.step_id for one in strategy.adjustments]
            meant = {*adjusted, *Graph.of(plan).downstream(adjusted)}
        case "skip_steps":
            meant = set()
        case _:
            meant = set(failed)
    still = [name for name in failed if name not in meant]
    held_up = set(Graph.of(plan).downstream(still))
    return tuple(
        name
        for name in mine
        if (name in failed and name in meant) or (name in standing.left_out and name not in held_up)
    )


# ── reading a plan ────────────────────────────────────────────────────────────


def refers_to(step: Step, owners: Mapping[str, StepId]) -> set[StepId]:
    """The steps whose output this one uses: in its parameters, its list or its condition."""
    heads = [ref.head for ref in references_of(step)]
    heads += [root for root, _ in roots(step.when)] if step.when is not None else []
    return {owners.get(head, head) for head in heads}


def _owners(plan: Plan) -> dict[str, StepId]:
    return {action.action_id: step.step_id for step in plan.steps for action in step.actions}


def _known(plan: Plan, names: Sequence[StepId], what: str) -> set[StepId]:
    has = {step.step_id for step in plan.steps}
    if strange := [name for name in names if name not in has]:
        raise StrategyRefused(
            f"{what} names {_list(strange)}, which the plan does not have; it has: {_list(has)}"
        )
    if not names:
        raise StrategyRefused(f"{what} names no step")
    return set(names)


def _bypassing(
    wanted: Sequence[StepId], gone: Collection[StepId], needs: Mapping[StepId, Sequence[StepId]]
) -> tuple[StepId, ...]:
    """The dependencies, each that is gone replaced by its own."""
    out: dict[StepId, None] = {}
    stack = list(reversed(wanted))
    seen: set[StepId] = set()
    while stack:
        name = stack.pop()
        if name not in gone:
            out[name] = None
        elif name not in seen:
            seen.add(name)
            stack.extend(reversed(needs.get(name, ())))
    return tuple(out)


def _with(step: Step, dependencies: tuple[StepId, ...]) -> Step:
    return (
        step if step.dependencies == dependencies else step.model_copy(update={"dependencies": dependencies})
    )


def _list(names: Collection[StepId]) -> str:
    return some([repr(name) for name in sorted(names)], 5)
