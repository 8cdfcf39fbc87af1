"""Ids for new steps that have taken ones which are used already: a clash of names is code's to solve."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from replan.core.plan.index import references_of
from replan.core.references.conditions import roots
from replan.core.references.refs import changed
from replan.core.types import Action, Step, StepId

_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|`(?:[^`\\]|\\.)*+`?)""", re.DOTALL)
"""What is not closed goes to the end."""
_BEGINNING = re.compile(r"(?<![\w.\-])[A-Za-z_][\w\-]*")
"""A name at the beginning of a path."""
_OF_ACTION = re.compile(r"([${]\{\s*+)([A-Za-z_][\w\-]*+)(\s*+\.\s*+actions\s*+\.\s*+)([A-Za-z_][\w\-]*+)")
"""An action by way of its step, at the beginning of a reference."""


_NONE: Mapping[StepId, Collection[str]] = {}


def with_free_ids(
    new: Sequence[Step], taken: Collection[str], as_before: Mapping[StepId, Collection[str]] = _NONE
) -> list[Step]:
    """The steps, those and their actions whose id is taken under a free one, and what refers to them with them.

    A name means what these steps give it, wherever they do; within the step that has it, it can only mean the older one. Actions of several
    of them that have one id get free ones, but for those that another step may mean. A step that stands `as_before` keeps what it had of its own.
    """
    new = _with_own_actions(new, taken, as_before)
    own = [name for step in new for name in _ids(step)]
    keep = {name for step in new for name in _ids(step) if name in as_before.get(step.step_id, ())}
    clashes = [name for name in dict.fromkeys(own) if name in taken and name not in keep]
    if not clashes:
        return new
    free = _free({*taken, *own})
    names = {name: next(free) for name in clashes}
    return [_renamed(step, names) for step in new]


def _with_own_actions(
    new: Sequence[Step], taken: Collection[str], as_before: Collection[StepId]
) -> list[Step]:
    counts = Counter(name for step in new for name in _ids(step))
    if max(counts.values(), default=0) < 2:
        return list(new)
    meant = {head for step in new for head in {*_heads(step)}.difference(_ids(step))}
    """What a step means that is no part of it."""
    free = _free({*taken, *counts})

    open_ = [step.step_id not in as_before and meant.isdisjoint(_ids(step)) for step in new]
    kept = {step.step_id for step in new}
    kept.update(name for step, is_open in zip(new, open_, strict=True) if not is_open for name in _ids(step))
    found = list[Step]()
    for step, is_open in zip(new, open_, strict=True):
        mine = Counter(_ids(step))
        clashes = [
            one.action_id for one in step.actions if one.action_id in kept and mine[one.action_id] == 1
        ]
        names = {name: next(free) for name in clashes} if is_open else {}
        found.append(_renamed(step, names) if names else step)
        kept.update(mine)
    return found


def _heads(step: Step) -> Iterator[str]:
    """The steps and actions that it waits for, refers to or goes by in its condition."""
    yield from step.dependencies
    yield from (ref.head for ref in references_of(step))
    yield from (name for name, _ in roots(step.when or "''"))


def renamed(written: Sequence[Step], steps: Sequence[Step]) -> dict[str, str]:
    """The ids that these steps have by now, each with that under which it was written, where that is another."""
    pairs = zip(written, steps, strict=True)
    return {
        new: old
        for one, other in pairs
        for old, new in zip(_ids(one), _ids(other), strict=True)
        if old != new
    }


def _ids(step: Step) -> Iterator[str]:
    yield step.step_id
    for action in step.actions:
        yield action.action_id


def _free(used: Collection[str]) -> Iterator[str]:
    """`step_N`, from the first number after all that are used."""
    numbers = [int(name[5:]) for name in used if re.fullmatch(r"step_\d{1,9}", name)]
    number = max(numbers, default=0)
    while True:
        number += 1
        yield f"step_{number}"


def _renamed(step: Step, names: Mapping[str, str]) -> Step:
    mine = set(_ids(step))
    others = {old: new for old, new in names.items() if old not in mine}
    return step.model_copy(
        update={
            "step_id": names.get(step.step_id, step.step_id),
            "dependencies": tuple(others.get(need, need) for need in step.dependencies),
            "parameters": _in_value(step.parameters, others),
            "actions": tuple(_renamed_action(action, step, others, names) for action in step.actions),
            "for_each": _in_value(step.for_each, others),
            "when": step.when if step.when is None else _in_expression(step.when, others),
        }
    )


def _renamed_action(
    action: Action, step: Step, others: Mapping[str, str], names: Mapping[str, str]
) -> Action:
    """It may refer to the other actions of its step, also by way of that step; by its own name it can only mean the older one."""
    inside = {one.action_id for one in step.actions} - {action.action_id}
    beside = {old: names[old] for old in inside if old in names}
    heads = {**others, **beside}

    def of_step(found: re.Match[str]) -> str:
        opening, name, between, part = found.groups()
        if name != step.step_id or part not in inside:
            return found[0]
        return f"{opening}{names.get(name, name)}{between}{names.get(part, part)}"

    def reference(raw: str) -> str:
        return _in_expression(_OF_ACTION.sub(of_step, raw), heads)

    return action.model_copy(
        update={
            "action_id": names.get(action.action_id, action.action_id),
            "parameters": _changed(action.parameters, reference),
            "dependencies": tuple(beside.get(need, need) for need in action.dependencies),
        }
    )


def _in_value(value: Any, names: Mapping[str, str]) -> Any:
    """The value with the names changed in its references, at any depth; other text stays."""
    return _changed(value, lambda raw: _in_expression(raw, names)) if names else value


def _changed(value: Any, of: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {_changed(key, of): _changed(item, of) for key, item in value.items()}
    if isinstance(value, list):
        return [_changed(item, of) for item in value]
    return changed(value, of) if isinstance(value, str) else value


def _in_expression(text: str, names: Mapping[str, str]) -> str:
    """The expression with the names changed where they stand at the beginning of a path."""
    out: list[str] = []
    before = ""
    for part in _QUOTED.split(text):
        last, before = before, part.rstrip() or before
        if _QUOTED.fullmatch(part):
            quoted = part[0] == part[-1] == '"' and part[1:-1] in names and not last.endswith(".")
            out.append(f'"{names[part[1:-1]]}"' if quoted else part)
            continue
        out.append(_BEGINNING.sub(lambda found: names.get(found[0], found[0]), part))
    return "".join(out)
