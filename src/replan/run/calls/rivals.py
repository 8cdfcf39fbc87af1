"""Other places of the plan that make, or are to make, a call that somebody proposes for one.

Who changes a call (a repair, a person) sees neither the items of a list that still wait for a slot nor what references come
to. A `once` call that another place means as well would be made twice, or stand for both: so it is not taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replan.core.calls.site import Slot
from replan.core.ids import base_of
from replan.core.state.task import State, StepState, actions_of
from replan.core.types import JsonObject, ToolSpec
from replan.ports import Tools
from replan.run.calls.outline import outline
from replan.run.calls.repeats import places
from replan.run.session.outputs import Loaded

_MADE = frozenset({"succeeded", "running", "retrying", "unknown"})


def made_elsewhere(
    step: StepState, slot: Slot, tool: ToolSpec, parameters: JsonObject, state: State, tools: Tools
) -> str:
    """Which other place means this very call, in words; empty if none does, or where the plan has meant both alike."""
    if tool.effect != "once":
        return ""
    names = set(state.bases(tool, parameters))
    mine = _planned(step, slot, _item_of(step, slot, state), state, tools)
    for other, at, item in _others(step, slot, tool, names, state, tools):
        if mine and not mine.isdisjoint(_planned(other, at, item, state, tools)):
            continue  # the items of a list that are equal, say: each is one
        words = at.words()
        return f"step {other.step.step_id!r}" + (f", {words}," if words else "")
    return ""


def planned_calls(step: StepState, state: State, tools: Tools) -> set[str]:
    """The names of every call that the step was planned for, as far as they can be told."""
    found = [one for action in actions_of(step.step) for one in places(step, action, state, Loaded())]
    return set().union(*(_planned(step, at, item, state, tools) for at, item in found))


def _others(
    step: StepState, slot: Slot, tool: ToolSpec, names: set[str], state: State, tools: Tools
) -> Iterator[tuple[StepState, Slot, Any]]:
    loaded = Loaded()
    for other in state.steps.values():
        items = [one for action in actions_of(other.step) for one in places(other, action, state, loaded)]
        for at, item in [*items, *((at, None) for at in other.calls.keys() - {at for at, _ in items})]:
            call = other.calls.get(at)
            if other is step and at == slot:
                continue
            if call is not None and call.status in _MADE:
                if not call.reused and base_of(call.key) in names:
                    yield other, at, item
            elif not other.closed and _means(other, at, item, tool, names, state, tools):
                yield other, at, item


def _means(
    other: StepState, at: Slot, item: Any, tool: ToolSpec, names: set[str], state: State, tools: Tools
) -> bool:
    """True if the place is to make the call, as far as that can be told by now."""
    try:
        meant = outline(other, at, state, tools, Loaded(), item)
    except KeyError:  # an output that is kept apart: what the call comes to is not known here
        return False
    if meant.fault is not None or meant.tool is not tool:
        return False
    return not names.isdisjoint(state.bases(tool, meant.parameters))


def _planned(step: StepState, slot: Slot, item: Any, state: State, tools: Tools) -> set[str]:
    """The names of the call that the place was planned for; none where it cannot be told."""
    try:
        meant = outline(step, slot, state, tools, Loaded(), item)
        name = step.step.tool if slot.action_id is None else step.action(slot.action_id).tool
    except KeyError:
        return set()
    tool = tools.resolve(name)
    return set(state.bases(tool, meant.planned)) if tool is not None else set()


def _item_of(step: StepState, slot: Slot, state: State) -> Any:
    return next((item for at, item in places(step, slot.action_id, state, Loaded()) if at == slot), None)
