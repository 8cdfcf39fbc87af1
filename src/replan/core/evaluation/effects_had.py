"""Which effects the steps of a task have had of their own, and which they were to have and have not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from replan.core.calls.told_alike import Told
from replan.core.evaluation.as_planned import NeverMade, calls_of, had_elsewhere, same_effect
from replan.core.events import StepReflected
from replan.core.failures.faults import is_had_elsewhere
from replan.core.ids import base_of
from replan.core.recovery.substitutes import is_declared
from replan.core.references.refs import listed
from replan.core.state.progress import CallState, Slot, StepState
from replan.core.state.task import State
from replan.core.types import CallKey, JsonObject, StepId, ToolId, ToolSpec
from replan.core.walk import scalars

Resolve = Callable[[ToolId], ToolSpec | None]
"""The tool of this name; None: it is not here (any more)."""


class Lost(NamedTuple):
    """One effect that was to be had: by which tool, and with what."""

    tool_id: ToolId
    values: frozenset[str]
    bases: frozenset[str] = frozenset()
    """What was tried for it, by content (`ids.call_base`), and what calls of the same effect have in common."""
    parameters: JsonObject = {}

    @property
    def is_known(self) -> bool:
        """True if something but its words tells which effect it was to be."""
        return any(not one.startswith("~") for one in self.bases)

    @classmethod
    def of(cls, tool_id: ToolId, parameters: JsonObject, bases: frozenset[str] = frozenset()) -> Lost:
        """The effect of a call that was to be made with these parameters."""
        return cls(tool_id, _values(parameters), bases, parameters)

    def shares(self, call: CallState) -> bool:
        """True if this call was made with something that the lost one was to be made with."""
        return not self.values.isdisjoint(_values(call.parameters))


class Effects:
    """What each step of the task has had, over all of its plans."""

    def __init__(self, state: State, resolve: Resolve) -> None:
        self._resolve = resolve
        self._people = state.recovery
        self.every = (*state.left_out, *state.steps.values())
        self.by_name: dict[StepId, StepState] = {step.step.step_id: step for step in self.every}
        self._never_made = NeverMade(state, resolve, self.by_name)
        self._conditional: set[StepId] | None = None
        self._origins: dict[CallKey, CallState] | None = None
        self._stands: dict[CallKey, list[StepState]] = {}
        """By the effect: the steps that were without it, and that it makes good."""

    def has_effect(self, name: ToolId) -> bool:
        """True if the tool has an effect; one that is not here any more may have had one."""
        tool = self._resolve(name)
        return tool is None or tool.effect != "reads"

    def by_same(self, planned: ToolId, called: ToolId) -> bool:
        """True if what the called tool does is what was planned: it is that tool, or is declared to do the same."""
        if planned == called:
            return True
        tool, other = self._resolve(planned), self._resolve(called)
        return tool is not None and other is not None and is_declared(tool, other)

    def is_agreed(self, call: CallState) -> bool:
        """True if a person has said yes to this very call, or has made it what it is."""
        if self._people is None:
            return False
        said = self._people.approvals.get(call.key)
        edited = self._people.edited.get((call.step_id, call.slot))
        return (said is not None and said.approved) or (edited is not None and edited.tool_id == call.tool_id)

    def origin(self, call: CallState) -> CallState:
        """The call that was really made, where this one has only its output."""
        if not call.reused:
            return call
        if self._origins is None:
            self._origins = {
                one.key: one
                for step in self.every
                for one in step.every_call()
                if one.status == "succeeded" and not one.reused
            }
        return self._origins.get(call.key, call)

    def is_anothers(self, call: CallState) -> bool:
        """True if nothing was called at this place: the output is that of a call which another place has made, and stands for."""
        made = self.origin(call)
        return (made.step_id, made.slot) != (call.step_id, call.slot)

    def own(self, step: StepState) -> list[CallState]:
        """The effects that the step has had itself, at whatever place of it: each is one, however often its output is used."""
        found: dict[CallKey, CallState] = {}
        for call in step.calls.values():
            if call.status != "succeeded" or call.effect == "reads":
                continue
            if self.origin(call).step_id == call.step_id and (call.key not in found or not call.reused):
                found[call.key] = call
        for call in _put_away(step):
            found.setdefault(call.key, call)
        return list(found.values())

    def came(self, call: CallState) -> int:
        """The version of the plan that the effect of this call came with: one that was had before stands for nothing of later plans."""
        return min(self.by_name[call.step_id].meant, self.origin(call).plan)

    def stand(self, key: CallKey, *steps: StepState) -> None:
        """This effect stands for one that each of these steps was without."""
        self._stands.setdefault(key, []).extend(steps)

    def may_stand_too(self, key: CallKey, steps: Sequence[StepState]) -> bool:
        """True if what the effect stands for already was given up before these steps were planned, or the other way round: then
        it may be one effect that several plans have tried in vain."""
        known = self._stands.get(key, ())
        return bool(known) and all(_follow(one, other) for one, other in product(known, steps))

    def lost(self, step: StepState) -> list[Lost]:
        """Each effect that the step was to have and has not, by the places of its calls."""
        items = None if step.step.for_each is None else self._items(step)
        places: list[int | None] = [None] if items is None else [*range(items)]
        found: list[Lost] = []
        before = self._before(step)
        taken: set[CallKey] = set()
        for item, (action_id, tool_id, parameters) in product(places, calls_of(step)):
            slot = Slot(action_id, item)
            call = step.calls.get(slot)
            if call is not None and call.effect != "reads":
                if call.status != "succeeded" and not is_had_elsewhere(call.fault):
                    found.append(Lost.of(call.tool_id, call.parameters, self._tried(step, call)))
            elif call is None and had_elsewhere(step, slot):
                continue
            elif call is not None and call.tool_id != tool_id and self.has_effect(tool_id):
                found.append(Lost.of(tool_id, parameters))
            elif call is None and self.has_effect(tool_id):
                planned = self._never_made.planned(step, slot, tool_id, parameters)
                if planned is not None and not _take(before, planned.names, taken):
                    found.append(Lost.of(tool_id, planned.parameters, planned.names))
        return found

    def _before(self, step: StepState) -> dict[str, list[CallState]]:
        """By what calls of one effect have in common: what the step has had before it was due once more, and was not made again then."""
        found: dict[str, list[CallState]] = {}
        for call in _put_away(step):
            for name in self.names_of(call):
                found.setdefault(name, []).append(call)
        return found

    def is_one_with_its_answer(self, step: StepState, slot: Slot) -> bool:
        """True if the place is answered with what another one has had, and its tool says that all it has tried is that one effect
        (`unique_by`)."""
        call = step.calls.get(slot)
        tool = self._resolve(call.tool_id) if call is not None and call.reused else None
        if call is None or tool is None or not tool.unique_by or step.healing is None:
            return False
        names = self.names_of(call)
        return all(not names.isdisjoint(self.names_tried(one)) for one in step.healing.failures(slot))

    def names_of(self, call: CallState) -> frozenset[str]:
        """What the call has in common with others of the same effect."""
        return self._names(base_of(call.key), call.tool_id, call.parameters)

    def names_tried(self, failed: StepReflected) -> frozenset[str]:
        """The same of a try that has failed."""
        return self._names(failed.base, failed.tool_id, failed.parameters)

    def _names(self, base: str, tool_id: ToolId, parameters: JsonObject) -> frozenset[str]:
        tool = self._resolve(tool_id)
        told = same_effect(tool, parameters) if tool is not None and tool.effect == "once" else None
        return frozenset(filter(None, [base, told]))

    def counterparts(self, name: ToolId) -> tuple[ToolId, ...]:
        """The tools that are declared to do the same as this one."""
        tool = self._resolve(name)
        return tool.counterparts if tool is not None else ()

    def does_it(self, lost: Lost, call: CallState) -> bool:
        """True if nothing tells this call, of a tool that does the same, from the lost one."""
        tool, other = self._resolve(lost.tool_id), self._resolve(call.tool_id)
        return Told.of(tool, lost.parameters).is_like(Told.of(other, call.parameters))

    def _tried(self, step: StepState, call: CallState) -> frozenset[str]:
        failed = step.healing.failures(call.slot) if step.healing is not None else []
        return self.names_of(call).union(one.base for one in failed if one.base)

    def of_items(self, step: StepState) -> list[Lost]:
        """The effects of the items that a finished step does without."""
        return self.lost(step) if step.status == "succeeded" and step.left_out else []

    def is_firm(self, step: StepState) -> bool:
        """True if the step was planned to have its effect whatever turns out: neither it nor what it needs has a condition, and its
        list, if it has one, names its items itself."""
        if self._conditional is None:
            self._conditional = _conditional(self.every)
        if step.step.step_id in self._conditional:
            return False
        return step.step.for_each is None or bool(listed(step.step.for_each))

    def _items(self, step: StepState) -> int | None:
        """How many items the step goes through, or would have; None where that cannot be told."""
        if step.items is not None:
            return step.items
        found = self._never_made.items(step)
        return None if found is None else len(found)

    def failed(self, step: StepState) -> list[Lost]:
        """Of a step that is done without the effect that it was for, that effect."""
        calls = [call for call in step.every_call() if call.effect != "reads" and call.status == "failed"]
        made = [Lost.of(call.tool_id, call.parameters) for call in calls]
        return made[-1:] or [Lost("", frozenset())]


def _conditional(steps: Sequence[StepState]) -> set[StepId]:
    """The steps with a condition, and all that need one of them."""
    needed_by: dict[StepId, list[StepId]] = {}
    for step in steps:
        for need in step.step.dependencies:
            needed_by.setdefault(need, []).append(step.step.step_id)
    found: set[StepId] = set()
    left = [step.step.step_id for step in steps if step.step.when]
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += needed_by.get(name, ())
    return found


def _put_away(step: StepState) -> list[CallState]:
    """The effects that the step has had as it stands, and that none of its calls is now: it was due once more, for what it lacked."""
    here = {call.key for call in step.calls.values()}
    had = (call for call in step.former or () if call.status == "succeeded" and call.effect != "reads")
    return [call for call in had if not call.reused and call.plan >= step.meant and call.key not in here]


def _take(before: Mapping[str, Sequence[CallState]], names: Collection[str], taken: set[CallKey]) -> bool:
    """Take one of these effects that is known by such a name; each is one."""
    known = (call.key for name in names for call in before.get(name, ()))
    key = next((key for key in known if key not in taken), None)
    if key is not None:
        taken.add(key)
    return key is not None


def _follow(one: StepState, other: StepState) -> bool:
    return 0 < one.gone <= other.meant or 0 < other.gone <= one.meant


def called_or_planned(step: StepState) -> list[ToolId]:
    """The tools that the step has called; those that it is planned with where it has called none."""
    called = [call.tool_id for call in step.calls.values()]
    planned = [step.step.tool] if step.step.tool else [action.tool for action in step.step.actions]
    return list(dict.fromkeys(called or planned))


def _values(parameters: JsonObject) -> frozenset[str]:
    return frozenset(scalars(parameters))
