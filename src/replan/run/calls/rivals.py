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
from replan.core.references.refs import has_references
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
    proposed = _Proposed(tool, parameters, set(state.bases(tool, parameters)), Told.of(tool, parameters))
    for other, at, item, by, made, open_ in _others(step, slot, proposed, state, tools):
        theirs = _planned(other, at, item, state, tools) if mine is not None else None
        if mine is not None and theirs is not None and mine.is_like(theirs):
            continue  # the items of a list that are equal, say: each is one
        if mine is not None and proposed.is_chosen_beside(mine, by, made, open_):
            continue
        if by.id == tool.id and proposed.is_known_in_time(made, open_):
            continue
        words = at.words()
        place = f"step {other.step.step_id!r}" + (f", {words}," if words else "")
        if by.id != tool.id:
            return f"{place} (by {by.id!r}, which does the same)"
        if open_:
            return f"{place} (with {beginning(text_of(made), _SHOWN)}, which may come to the same effect)"
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
    parameters: JsonObject
    names: set[str]
    told: Told

    def is_made_by(
        self,
        by: ToolSpec,
        parameters: JsonObject,
        names: Callable[[], Collection[str]],
        open_: Collection[str] = (),
    ) -> bool:
        """True if this call of that tool, which has these names, is it or does the same. `open_`: what of it is not known yet, and may
        come to anything."""
        if by.id == self.tool.id and not open_ and not self.names.isdisjoint(names()):
            return True
        if by.id == self.tool.id and self.tool.unique_by and not self.told.given:
            return False  # all its parameters tell it then
        theirs = _told(by, parameters, open_)
        return self._does_the_same(by.id) and self.told.is_like(theirs, theirs.open)

    def is_chosen_beside(
        self, planned: _Planned, by: ToolSpec, parameters: JsonObject, open_: Collection[str]
    ) -> bool:
        """True if the plan has chosen this effect beside that of another place, which calls `by`: by another of the tools that do the same,
        or with the very values that the other place is yet to learn."""
        if not self._does_the_same(planned.tool_id):
            return False
        theirs = _told(by, parameters, open_)
        if by.id != self.tool.id and planned.told.is_like(theirs):
            return True
        return bool(theirs.open) and all(
            name in self.told.keys and self.told.keys[name] == planned.told.keys.get(name)
            for name in theirs.open
        )

    def is_known_in_time(self, made: JsonObject, open_: Collection[str]) -> bool:
        """True if a call of the same tool, of which this much is open, can come to no other call for the same effect: all that does not tell its
        calls apart is the same in both. Once its values are known it is this very call, which is made once, or another effect."""
        silent = {*self.parameters, *made} - {name.partition(".")[0] for name in self.told.names}
        return bool(open_) and all(
            name not in open_ and self.parameters.get(name) == made.get(name) for name in silent
        )

    def _does_the_same(self, tool_id: ToolId) -> bool:
        return tool_id in (self.tool.id, *self.tool.counterparts)


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
) -> Iterator[tuple[StepState, Slot, Any, ToolSpec, JsonObject, Collection[str]]]:
    """The other places that make such a call, or are or may be to make it, with what they call for it and what of that is not known yet."""
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
                    yield other, at, item, by, made, ()
            elif not other.closed and (meant := _meant(other, at, item, state, tools)) is not None:
                by, made, open_ = meant
                if proposed.is_made_by(by, made, partial(state.bases, by, made), open_):
                    yield other, at, item, by, made, open_


def _base(call: CallState) -> list[str]:
    return [base_of(call.key)]


def _meant(
    other: StepState, at: Slot, item: Any, state: State, tools: Tools
) -> tuple[ToolSpec, JsonObject, Collection[str]] | None:
    """What the place is to call, as far as that can be told by now, and which parameters cannot; None where it calls nothing."""
    try:
        meant = outline(other, at, state, tools, Loaded(), item)
    except KeyError:  # an output that is kept apart: what the call comes to is not known here
        return _as_written(other, at, tools)
    if meant.tool is None:
        return None
    open_ = _open(meant.parameters)
    return None if meant.fault is not None and not open_ else (meant.tool, meant.parameters, open_)


def _as_written(
    step: StepState, slot: Slot, tools: Tools
) -> tuple[ToolSpec, JsonObject, Collection[str]] | None:
    """The call of a place as its plan writes it, or as recovery has changed it."""
    one = step.step if slot.action_id is None else step.action(slot.action_id)
    changed = step.healing.overrides.get(slot) if step.healing is not None else None
    name, parameters = one.tool, one.parameters
    if changed is not None:
        kept = {} if changed.whole else parameters
        parameters = {key: kept[key] for key in kept if key not in changed.without} | changed.parameters
        name = changed.tool_id or name
    tool = tools.resolve(name)
    return None if tool is None else (tool, parameters, _open(parameters))


def _open(parameters: JsonObject) -> frozenset[str]:
    """The parameters that refer to something."""
    return frozenset(name for name, value in parameters.items() if has_references(value))


def _told(tool: ToolSpec, parameters: JsonObject, open_: Collection[str]) -> Told:
    known = {name: value for name, value in parameters.items() if name not in open_} if open_ else parameters
    return Told.of(tool, known, open_)


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
