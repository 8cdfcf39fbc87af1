"""Whether a call that a later plan marks with `repeat` is one of several like ones, as far as can be told by now.

What the calls of a plan come to shows when their references are read: a literal, a reference and an item of a list may
be one call. What cannot be read yet counts as alike where nothing in it says otherwise: an effect that is not made
once more can still be asked for, one that is made twice cannot be taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from replan.core.again.like_calls import is_meant_again
from replan.core.calls.site import Slot
from replan.core.ids import call_content
from replan.core.references.refs import has_references
from replan.core.state.task import State, StepState, actions_of
from replan.core.types import ActionId, JsonObject, ToolSpec
from replan.ports import Tools
from replan.run.calls.build import CannotCall
from replan.run.calls.outline import outline
from replan.run.calls.readiness import items_of
from replan.run.session.outputs import Loaded


@dataclass(slots=True)
class Marked:
    """The calls of one place in the plan that says `repeat`."""

    known: Counter[str] = field(default_factory=Counter)
    """By what identifies their content."""
    open: list[tuple[ToolSpec, JsonObject]] = field(default_factory=list)
    """Those with parameters that cannot be read yet."""
    lasting: bool = True
    """They will not be others later."""


def is_one_of_several(
    step: StepState,
    slot: Slot,
    base: str,
    parameters: JsonObject,
    state: State,
    tools: Tools,
    loaded: Loaded,
    *,
    left_out: bool = False,
) -> bool:
    """True if the plan that brought the step marks this call elsewhere too, or another one by the same mark. `left_out`: also where a later plan
    has left that out."""
    mine: list[Marked] = []
    others: list[Marked] = []
    steps = state.every_step() if left_out else state.steps.values()
    for one in steps:
        for action in actions_of(one.step) if one.born == step.born else ():
            if is_meant_again(one.step, action):
                by_this_mark = one is step and (step.step.repeat or action == slot.action_id)
                found = _marked(one, action, state, tools, loaded)
                (mine if by_this_mark else others).append(found)
    calls = {base}.union(*(one.known for one in mine))
    if any(sum(one.known[call] for one in (*mine, *others)) > 1 for call in calls):
        return True
    unread = [call for one in (*mine, *others) for call in one.open]
    return any(_may_be(parameters, tool, other, base, state) for tool, other in unread)


def has_rest(step: StepState, action_id: ActionId | None, state: State, tools: Tools, loaded: Loaded) -> bool:
    """True if not all that the step's list asks for had been done before it; what it has made itself had not."""
    for slot, item in places(step, action_id, state, loaded):
        own = step.calls.get(slot)
        if own is not None and not own.reused:
            return True
        try:
            meant = outline(step, slot, state, tools, loaded, item)
        except KeyError:  # an output that is kept apart
            return True
        if meant.tool is None or meant.fault is not None:
            return True
        names = state.bases(meant.tool, meant.parameters)
        if not state.ledger.is_done(state.known_base(names, meant.tool, meant.parameters)):
            return True
    return False


def _may_be(parameters: JsonObject, tool: ToolSpec, other: JsonObject, base: str, state: State) -> bool:
    """True if the other call, whose references are not read yet, may come to this one."""
    if base not in state.bases(tool, parameters):
        return False
    told = {name: value for name, value in other.items() if not has_references(value)}
    schema = tool.parameters
    return call_content(tool.id, {**parameters, **told}, schema) == call_content(tool.id, parameters, schema)


def _marked(
    step: StepState, action_id: ActionId | None, state: State, tools: Tools, loaded: Loaded
) -> Marked:
    cached = step.marked.get(action_id) if step.marked is not None else None
    if cached is not None and cached[0] is step.step:
        found: Marked = cached[1]
        return found
    found = Marked()
    for slot, item in places(step, action_id, state, loaded):
        written = step.step.parameters if action_id is None else step.action(action_id).parameters
        try:
            meant = outline(step, slot, state, tools, loaded, item)
        except KeyError:  # an output that is kept apart, and that only its own step has loaded
            found.lasting = False
            name = step.step.tool if action_id is None else step.action(action_id).tool
            if (tool := tools.resolve(name)) is not None:
                found.open.append((tool, written))
            continue
        if meant.tool is None:
            continue
        if meant.fault is None:
            found.known[state.base(meant.tool, meant.parameters)] += 1
            found.lasting &= meant.parameters.keys() <= written.keys()  # metadata may change
        else:
            found.open.append((meant.tool, meant.parameters))
    if found.lasting and not found.open:
        step.marked = {**(step.marked or {}), action_id: (step.step, found)}
    return found


def places(
    step: StepState, action_id: ActionId | None, state: State, loaded: Loaded
) -> Iterator[tuple[Slot, Any]]:
    try:
        items = items_of(step, state, loaded)
    except (CannotCall, KeyError):
        items = None  # a list that is not there yet: its items are open
    if items is None:
        yield Slot(action_id), None
    else:
        for index, item in enumerate(items):
            yield Slot(action_id, index), item
