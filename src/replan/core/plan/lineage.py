"""Which step of a new plan takes the place of which that it leaves out: what one has tried, the other knows."""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.types import JsonObject, Step, StepId

_MOST_PAIRS = 10_000
"""Of one tool; beyond that they are taken in plan order."""


def replacements(
    new: Sequence[Step], gone: Sequence[Step], *, same_call: bool = False
) -> dict[StepId, StepId]:
    """New step → the one whose place it takes; each at most once. `same_call`: only one that makes the same call.

    It calls the same tools. Of several that do, the one that it says it is in place of (`instead_of`); else the likeliest: the same name or
    expected output, then most parameters in common, then plan order. So an unlike step of the same tool is a replacement too, where nothing
    liker is there.
    """
    found: dict[StepId, StepId] = {}
    olds = _by_tools(gone)
    for tools, steps in _by_tools(new).items():
        before = olds.get(tools, [])
        if not before or not tools:
            continue
        if not same_call and (said := in_place_of(steps, before)):
            found.update(said)
            steps = [one for one in steps if one.step_id not in said]
            before = [old for old in before if old.step_id not in said.values()]
        if same_call:
            found.update(_of_one_call(steps, before))
            continue
        if len(steps) * len(before) > _MOST_PAIRS:
            found.update((one.step_id, old.step_id) for one, old in zip(steps, before, strict=False))
            continue
        ranked = sorted(
            (-_likeness(one, old), at, n) for at, one in enumerate(steps) for n, old in enumerate(before)
        )
        taken_new: set[int] = set()
        taken_old: set[int] = set()
        for _, at, n in ranked:
            if at not in taken_new and n not in taken_old:
                taken_new.add(at)
                taken_old.add(n)
                found[steps[at].step_id] = before[n].step_id
    return found


def in_place_of(new: Sequence[Step], gone: Sequence[Step]) -> dict[StepId, StepId]:
    """New step → the one of the same tools that it says it is in place of; each at most once."""
    found: dict[StepId, StepId] = {}
    olds = {old.step_id: _tools(old) for old in gone}
    for one in new:
        named = (name for name in one.instead_of if olds.get(name) == _tools(one))
        if (old := next(named, None)) is not None:
            found[one.step_id] = old
            del olds[old]
    return found


def _of_one_call(new: Sequence[Step], gone: Sequence[Step]) -> dict[StepId, StepId]:
    left, found = list(gone), dict[StepId, StepId]()
    for one in new:
        same = (old for old in left if _call(one) == _call(old))
        if (old := next(same, None)) is not None:
            found[one.step_id] = old.step_id
            left.remove(old)
    return found


def _call(step: Step) -> tuple[object, ...]:
    called = tuple((action.tool, action.parameters) for action in step.actions)
    return step.tool, step.parameters, step.for_each, called


def _by_tools(steps: Sequence[Step]) -> dict[tuple[str, ...], list[Step]]:
    found: dict[tuple[str, ...], list[Step]] = {}
    for step in steps:
        found.setdefault(_tools(step), []).append(step)
    return found


def _tools(step: Step) -> tuple[str, ...]:
    tools = sorted(action.tool for action in step.actions) if step.actions else [step.tool]
    return tuple(filter(None, tools))


def _likeness(one: Step, other: Step) -> float:
    purpose = _same(one.name, other.name) or _same(one.expected_output, other.expected_output)
    mine, theirs = _parameters(one), _parameters(other)
    shared = sum(1 for name, value in mine.items() if name in theirs and theirs[name] == value)
    return 2.0 * purpose + shared / max(1, len(mine.keys() | theirs.keys()))


def _same(one: str, other: str) -> bool:
    return bool(one.strip()) and one.split() == other.split()


def _parameters(step: Step) -> JsonObject:
    if not step.actions:
        return step.parameters
    return {
        f"{action.tool}.{name}": value for action in step.actions for name, value in action.parameters.items()
    }
