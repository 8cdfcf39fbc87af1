"""Other places of the plan that make, or are to make, a call that somebody proposes for one.

Who changes a call (a repair, a person) sees neither the items of a list that still wait for a slot nor what references come
to. A `once` call that another place means as well would be made twice, or stand for both: so it is not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

from replan.core.calls.site import Slot
from replan.core.calls.told_alike import Told
from replan.core.ids import base_of
from replan.core.state.task import CallState, State, StepState, actions_of
from replan.core.types import JsonObject, ToolId, ToolSpec
from replan.core.words import beginning, text_of
from replan.ports import Tools
from replan.run.calls.outline import outline
from replan.run.calls.repeats import places
from replan.run.session.outputs import Loaded

_SHOWN = 160
"""Characters of parameters in a hint."""
_MADE = frozenset({"succeeded", "running", "retrying", "unknown"})


def made_elsewhere(
    step: StepState, slot: Slot, tool: ToolSpec, parameters: JsonObject, state: State, tools: Tools
) -> str:
    """Which other place means this call, over whatever session, in words; empty if none does, or where the plan has meant both alike."""
    if tool.effect != "once":
        return ""
    mine = _planned(step, slot, _item_of(step, slot, state), state, tools)
    proposed = _Proposed(tool, set(state.bases(tool, parameters)), Told.of(tool, parameters))
    for other, at, item, by, made in _others(step, slot, proposed, state, tools):
        theirs = _planned(other, at, item, state, tools) if mine is not None else None
        if mine is not None and theirs is not None and mine.is_like(theirs):
            continue  # the items of a list that are equal, say: each is one
        if by.id != tool.id and mine is not None and mine.told.is_like(Told.of(by, made)):
            continue  # the plan has chosen both
        words = at.words()
        place = f"step {other.step.step_id!r}" + (f", {words}," if words else "")
        if by.id != tool.id:
            return f"{place} (by {by.id!r}, which does the same)"
        if proposed.names.isdisjoint(state.bases(tool, made)):
            return f"{place} (with {beginning(text_of(made), _SHOWN)}, which is the same effect)"
        return place
    return ""


def planned_calls(step: StepState, state: State, tools: Tools) -> set[str]:
    """The names of every call that the step was planned for, as far as they can be told."""
    found = [one for action in actions_of(step.step) for one in places(step, action, state, Loaded())]
    planned = (_planned(step, at, item, state, tools) for at, item in found)
    return set().union(*(one.names for one in planned if one is not None))


class _Proposed(NamedTuple):
    """A call that somebody proposes."""

    tool: ToolSpec
    names: set[str]
    told: Told

    def is_made_by(self, by: ToolSpec, parameters: JsonObject, names: Callable[[], Collection[str]]) -> bool:
        """True if this call of that tool, which has these names, is it or does the same."""
        if by.id == self.tool.id and not self.names.isdisjoint(names()):
            return True
        if by.id == self.tool.id and self.tool.unique_by and not self.told.given:
            return False  # all its parameters tell it then
        return by.id in (self.tool.id, *self.tool.counterparts) and self.told.is_like(Told.of(by, parameters))


class _Planned(NamedTuple):
    """What a place was planned to call."""

    tool_id: ToolId
    told: Told
    names: set[str]

    def is_like(self, other: _Planned) -> bool:
        """True if nothing tells the two apart."""
        if not self.names.isdisjoint(other.names):
            return True
        return self.tool_id == other.tool_id and self.told.is_like(other.told)


def _others(
    step: StepState, slot: Slot, proposed: _Proposed, state: State, tools: Tools
) -> Iterator[tuple[StepState, Slot, Any, ToolSpec, JsonObject]]:
    """The other places that make such a call, or are to make it, with what they call for it."""
    loaded = Loaded()
    for other in state.steps.values():
        items = [one for action in actions_of(other.step) for one in places(other, action, state, loaded)]
        for at, item in [*items, *((at, None) for at in other.calls.keys() - {at for at, _ in items})]:
            call = other.calls.get(at)
            if other is step and at == slot:
                continue
            if call is not None and call.status in _MADE:
                by, made = tools.resolve(call.tool_id) or proposed.tool, call.parameters
                if not call.reused and proposed.is_made_by(by, made, partial(_base, call)):
                    yield other, at, item, by, made
            elif not other.closed and (meant := _meant(other, at, item, state, tools)) is not None:
                by, made = meant
                if proposed.is_made_by(by, made, partial(state.bases, by, made)):
                    yield other, at, item, by, made


def _base(call: CallState) -> list[str]:
    return [base_of(call.key)]


def _meant(
    other: StepState, at: Slot, item: Any, state: State, tools: Tools
) -> tuple[ToolSpec, JsonObject] | None:
    """What the place is to call, as far as that can be told by now."""
    try:
        meant = outline(other, at, state, tools, Loaded(), item)
    except KeyError:  # an output that is kept apart: what the call comes to is not known here
        return None
    return None if meant.fault is not None or meant.tool is None else (meant.tool, meant.parameters)


def _planned(step: StepState, slot: Slot, item: Any, state: State, tools: Tools) -> _Planned | None:
    """The call that the place was planned for; None where it cannot be told."""
    try:
        meant = outline(step, slot, state, tools, Loaded(), item)
        name = step.step.tool if slot.action_id is None else step.action(slot.action_id).tool
    except KeyError:
        return None
    tool = tools.resolve(name)
    if tool is None:
        return None
    return _Planned(tool.id, Told.of(tool, meant.planned), set(state.bases(tool, meant.planned)))


def _item_of(step: StepState, slot: Slot, state: State) -> Any:
    return next((item for at, item in places(step, slot.action_id, state, Loaded()) if at == slot), None)
