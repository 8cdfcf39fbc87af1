"""The order inside a step: an action may use what another action of the same step has given, of the same item.

So a step over a list can do several things with each item, one after the other, while the items go on side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from replan.core.references.refs import Reference, references
from replan.core.types import Action, ActionId, JsonObject, Step
from replan.core.words import some

Needs = Mapping[ActionId | None, Sequence[ActionId]]
_OF_ITEM = ("item", "index")


def own_action(step: Step, ref: Reference) -> ActionId | None:
    """The action of this very step that is referred to; None for anything else."""
    name = _meant(step, ref)
    return name if any(one.action_id == name for one in step.actions) else None


def _meant(step: Step, ref: Reference) -> str | None:
    """The name that an action of the step has to have to be what is referred to."""
    return ref.action if ref.head == step.step_id else ref.head


def _used(step: Step, parameters: JsonObject, names: Set[ActionId]) -> Iterator[ActionId]:
    """`own_action` of each reference in the parameters. `names`: all actions."""
    for ref in references(parameters):
        if (name := _meant(step, ref)) is not None and name in names:
            yield name


def needs_inside(step: Step) -> Needs:
    """For each action that waits for others of its step: those. Empty for nearly every step."""
    found: dict[ActionId | None, tuple[ActionId, ...]] = {}
    if len(step.actions) < 2:
        return found
    names = _names(step)
    for action in step.actions:
        used = _used(step, action.parameters, names)
        if needs := dict.fromkeys([*action.dependencies, *used]):
            found[action.action_id] = tuple(needs)
    return found


def are_beside(step: Step, one: ActionId | None, other: ActionId | None) -> bool:
    """True if these are two actions of the step, and neither comes after the other, also by way of others."""
    known = one != other and {one, other} <= _names(step)
    return known and other not in before_inside(step, one) and one not in before_inside(step, other)


def before_inside(step: Step, action_id: ActionId | None) -> Set[ActionId]:
    """All actions of the step that this one comes after, also by way of others."""
    found: set[ActionId] = set()
    needs, waiting = needs_inside(step), [action_id]
    while waiting:
        new = {*needs.get(waiting.pop(), ())} - found
        found |= new
        waiting += new
    return found


def uses_item(step: Step) -> set[ActionId | None]:
    """The calls of the step, None for its only one, that something of the item comes to, also by way of other actions of it."""
    calls = [*((one.action_id, one.parameters) for one in step.actions), (None, step.parameters)]
    names = _names(step)
    found: set[ActionId | None] = set()
    users: dict[ActionId, list[ActionId | None]] = {}
    for name, parameters in calls:
        if any(ref.head in _OF_ITEM for ref in references(parameters)):
            found.add(name)
        for own in _used(step, parameters, names):
            users.setdefault(own, []).append(name)
    waiting = list(found)
    while waiting:
        used = waiting.pop()
        new = [name for name in users.get(used, ()) if name not in found] if used is not None else []
        found.update(new)
        waiting += new
    return found


def in_order(step: Step) -> list[Action]:
    """The actions of the step, each after those that it needs; those that wait for each other come last."""
    first, last = _ordered(step, needs_inside(step))
    return [*first, *last]


def with_what_it_uses(step: Step, action_id: ActionId) -> list[Action]:
    """The action and all that it uses of its step, also by way of others, each after what it uses itself."""
    parameters = {one.action_id: one.parameters for one in step.actions}
    found, waiting = {action_id}, [action_id]
    while waiting:
        new = {*_used(step, parameters[waiting.pop()], parameters.keys())} - found
        found |= new
        waiting += new
    return [one for one in in_order(step) if one.action_id in found]


def _ordered(step: Step, needs: Needs) -> tuple[list[Action], list[Action]]:
    """Those that come in an order, each after those that it needs, and those that never do."""
    names = _names(step)
    wanted = {one: [need for need in needs.get(one, ()) if need in names] for one in names}
    missing = {one: len(found) for one, found in wanted.items()}
    users: dict[ActionId, list[Action]] = {}
    for one in step.actions:
        for need in wanted[one.action_id]:
            users.setdefault(need, []).append(one)
    found = [one for one in step.actions if not missing[one.action_id]]
    for one in found:
        for user in users.get(one.action_id, ()):
            missing[user.action_id] -= 1
            if not missing[user.action_id]:
                found.append(user)
    return found, [one for one in step.actions if missing[one.action_id] > 0]


def inside_violations(step: Step) -> Iterator[str]:
    """What is wrong with the order inside a step."""
    names = _names(step)
    for action in step.actions:
        where = f"step {step.step_id!r}, action {action.action_id!r}"
        for name in action.dependencies:
            if name == action.action_id:
                yield f"{where} depends on itself"
            elif name not in names:
                yield f"{where} depends on {name!r}, which is no action of its step (there are: {some([one.action_id for one in step.actions], 20)}); a step is a dependency of the step"
        if action.action_id in _used(step, action.parameters, names):
            yield f"{where} refers to itself"
    if cycle := _cycle(step):
        yield f"step {step.step_id!r}: its actions wait for each other: {' → '.join(cycle)}"


def _names(step: Step) -> Set[ActionId]:
    return {one.action_id for one in step.actions}


def _cycle(step: Step) -> list[ActionId]:
    """Actions that wait for each other, longer than one; empty if none do."""
    needs = {name: [one for one in wanted if one != name] for name, wanted in needs_inside(step).items()}
    left = {one.action_id: None for one in _ordered(step, needs)[1]}
    path: dict[ActionId, int] = {}
    at = next(iter(left), None)
    while at is not None and at not in path:
        path[at] = len(path)
        at = min((name for name in needs.get(at, ()) if name in left), default=None)
    return [] if at is None else [*list(path)[path[at] :], at]
