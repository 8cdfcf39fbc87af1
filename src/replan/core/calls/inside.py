"""The order inside a step: an action may use what another action of the same step has given, of the same item.

So a step over a list can do several things with each item, one after the other, while the items go on side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replan.core.references.refs import Reference, references
from replan.core.types import Action, ActionId, JsonObject, Step

Needs = Mapping[ActionId | None, Sequence[ActionId]]


def own_action(step: Step, ref: Reference) -> ActionId | None:
    """The action of this very step that is referred to; None for anything else."""
    name = ref.action if ref.head == step.step_id else ref.head
    return name if name is not None and any(one.action_id == name for one in step.actions) else None


def needs_inside(step: Step) -> Needs:
    """For each action that waits for others of its step: those. Empty for nearly every step."""
    found: dict[ActionId | None, tuple[ActionId, ...]] = {}
    if len(step.actions) < 2:
        return found
    for action in step.actions:
        used = (own_action(step, ref) for ref in references(action.parameters))
        needs = dict.fromkeys([*action.dependencies, *(one for one in used if one is not None)])
        if needs:
            found[action.action_id] = tuple(needs)
    return found


def uses_item(step: Step, parameters: JsonObject) -> bool:
    """True if something in the parameters comes from the item, also by way of other actions of the step."""
    waiting, seen = [parameters], set[ActionId]()
    while waiting:
        for ref in references(waiting.pop()):
            if ref.head in ("item", "index"):
                return True
            own = own_action(step, ref)
            if own is not None and own not in seen:
                seen.add(own)
                waiting += [one.parameters for one in step.actions if one.action_id == own]
    return False


def inside_violations(step: Step) -> Iterator[str]:
    """What is wrong with the order inside a step."""
    names = [action.action_id for action in step.actions]
    for action in step.actions:
        where = f"step {step.step_id!r}, action {action.action_id!r}"
        for name in action.dependencies:
            if name == action.action_id:
                yield f"{where} depends on itself"
            elif name not in names:
                yield f"{where} depends on {name!r}, which is no action of its step (there are: {', '.join(names)}); a step is a dependency of the step"
        if any(own_action(step, ref) == action.action_id for ref in references(action.parameters)):
            yield f"{where} refers to itself"
    if cycle := _cycle(step.actions, needs_inside(step)):
        yield f"step {step.step_id!r}: its actions wait for each other: {' → '.join(cycle)}"


def _cycle(actions: Sequence[Action], needs: Needs) -> list[ActionId]:
    """Actions that wait for each other, longer than one; empty if none do."""
    left = {
        one.action_id: {name for name in needs.get(one.action_id, ()) if name != one.action_id}
        for one in actions
    }
    while free := [name for name, wanted in left.items() if not wanted & left.keys()]:
        for name in free:
            del left[name]
    if not left:
        return []
    path = [next(iter(left))]
    while True:
        following = next(name for name in sorted(left[path[-1]]) if name in left)
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)
