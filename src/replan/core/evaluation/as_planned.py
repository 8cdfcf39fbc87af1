"""What calls that were never made would have called, and which of them would have had no effect: it was had before their plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from replan.core.again.like_calls import is_meant_again
from replan.core.calls.inside import own_action
from replan.core.calls.names import bases
from replan.core.calls.site import Slot
from replan.core.calls.telling import Telling, unique_text
from replan.core.calls.told_alike import Told
from replan.core.evaluation.read_since import Lookup, Readings
from replan.core.failures.faults import is_had_elsewhere
from replan.core.ids import canonical, digest
from replan.core.references.refs import Reference, listed
from replan.core.references.resolve import resolve
from replan.core.secrets import is_mask
from replan.core.state.progress import CallState, StepState, artifacts_of, compose
from replan.core.state.restated import by_readings
from replan.core.state.task import State
from replan.core.state.written import Form
from replan.core.types import CallKey, JsonObject, StepId, ToolId, ToolSpec
from replan.core.walk import texts_in
from replan.errors import UnresolvedReference

_DEEP = 20
"""Readings that go by one another, as far as they are followed."""
_UNKNOWN = "${?}"
"""Stands for what is not known."""


def same_effect(tool: ToolSpec, parameters: JsonObject) -> str | None:
    """The same for all calls of the tool that nothing tells apart, a session made anew included; None where that cannot be seen."""
    if any(map(is_mask, texts_in(Telling.of(tool).parts(parameters)))):
        return None
    return f"={digest(unique_text(tool, parameters))}"


class AsPlanned(NamedTuple):
    """A call as it would have been made."""

    parameters: JsonObject
    """With the references filled in that can be."""
    names: frozenset[str]
    """What it has in common with calls of the same effect; nothing, where that cannot be told."""


class NeverMade:
    """The calls of a task that were planned and never made."""

    def __init__(
        self,
        state: State,
        tool_of: Callable[[ToolId], ToolSpec | None],
        steps: Mapping[StepId, StepState],
    ) -> None:
        """`steps`: all of the task."""
        self._state = state
        self._tool_of = tool_of
        self._steps = steps
        self._found: dict[tuple[StepId, Slot], AsPlanned | None] = {}
        self._taken: set[tuple[CallKey, int]] = set()
        self._behind: dict[StepId, bool] = {}
        self._refused: dict[StepId, bool] = {}
        self._acting: dict[StepId, bool] = {}
        self._readings: Readings | None = None
        self._answered: dict[CallKey, int] | None = None
        """By the call: the latest version of the plan whose step was given what it has had."""

    def items(self, step: StepState) -> list[Any] | None:
        """What the list of the step goes through, as far as the log itself has it."""
        wanted = step.step.for_each or ""
        found = listed(wanted)
        if found is None:
            try:
                found = resolve(wanted, self._given(step))
            except UnresolvedReference:
                return None
        return found if isinstance(found, list) else None

    def planned(
        self, step: StepState, slot: Slot, tool_id: ToolId, parameters: JsonObject
    ) -> AsPlanned | None:
        """What it would have been; None where it would have had no effect."""
        place = step.step.step_id, slot
        if place not in self._found:
            self._found[place] = self._look(step, slot, tool_id, parameters)
        return self._found[place]

    def _look(self, step: StepState, slot: Slot, tool_id: ToolId, parameters: JsonObject) -> AsPlanned | None:
        tool = self._tool_of(tool_id)
        filled = self._filled(step, slot, tool, parameters) if tool is not None else None
        if tool is None or tool.effect != "once":
            return AsPlanned(parameters, frozenset())
        forms = self._state.restated.forms_of(step.step, slot, step.meant, tool, parameters)
        if filled is None:
            return AsPlanned(parameters, _as_written(step, tool, forms, parameters))
        found, known = filled
        if not is_meant_again(step.step, slot.action_id):
            anew = (
                not tool.unique_by
                and not by_readings(forms, Telling.of(tool).parts(parameters), tool)  # it was not known which
                and self._may_be_meant_anew(step)
            )
            for call in self._had(step, tool, known):
                if anew and not self._was_answered(call, step.gone):
                    continue
                if (call.key, step.meant) not in self._taken:
                    self._taken.add((call.key, step.meant))
                    return None
        names = set(filter(None, [same_effect(tool, known)]))
        if len(known) == len(found):
            names.update(bases(self._state.seal_key, self._state.keyed_by, tool, found))
        return AsPlanned(found, frozenset(names))

    def _had(self, step: StepState, tool: ToolSpec, known: JsonObject) -> Iterator[CallState]:
        """The effects of plans before that of the step which it would have had over again, as far as values tell: it would not have been made."""
        mine = unique_text(tool, known)
        made = (
            call for call in self._state.made.get(tool.id, ()) if unique_text(tool, call.parameters) == mine
        )
        told = Told.of(tool, known)
        others = (self._state.made_like(name, self._tool_of(name), told) for name in tool.counterparts)
        for call in chain(made, (call for found in others for call, _ in found)):
            meant = min(call.plan, self._steps[call.step_id].meant)  # one that was kept was made later
            if call.status == "succeeded" and not call.reused and meant < step.meant:
                yield call

    def _was_answered(self, call: CallState, since: int) -> bool:
        """True if a step that came with this version of the plan, or later, was given what this call has had."""
        if self._answered is None:
            self._answered = {}
            for step in self._steps.values():
                for one in step.calls.values():
                    if one.reused and one.status == "succeeded":
                        self._answered[one.key] = max(self._answered.get(one.key, 0), step.meant)
        return 0 < since <= self._answered.get(call.key, 0)

    def _may_be_meant_anew(self, step: StepState) -> bool:
        """True if it was to come after an effect that its plan was to have, for which it may be meant once more, and nothing before it
        was refused as done: that says so of all behind it."""
        return self._look_before(step, self._behind, self._acts) and not self._look_before(
            step, self._refused, _was_refused
        )

    def _look_before(
        self, step: StepState, known: dict[StepId, bool], holds: Callable[[StepState], bool]
    ) -> bool:
        """True if it holds of a step that this one waits for and that its plan has brought."""
        left = [step]
        while left:  # a chain may be long
            one = left[-1]
            name = one.step.step_id
            before = [self._steps[need] for need in one.step.dependencies if need in self._steps]
            before = [other for other in before if other.meant >= step.meant]
            new = [other for other in before if other.step.step_id not in known]
            if name not in known and new:
                known[name] = False  # as long as it is not known
                left += new
                continue
            left.pop()
            known[name] = any(holds(other) or known[other.step.step_id] for other in before)
        return known[step.step.step_id]

    def _acts(self, step: StepState) -> bool:
        """True if the step has had an effect of its plan, or would have had one."""
        name = step.step.step_id
        if name not in self._acting:
            made = (call for call in step.every_call() if call.effect != "reads" and not call.reused)
            self._acting[name] = any(call.plan >= step.meant for call in made) or (
                step.status != "succeeded" and any(self._would_act(step, *call) for call in calls_of(step))
            )
        return self._acting[name]

    def _would_act(
        self, step: StepState, action: str | None, tool_id: ToolId, parameters: JsonObject
    ) -> bool:
        tool = self._tool_of(tool_id)
        if tool is not None and tool.effect == "reads":
            return False
        items = [None] if step.step.for_each is None else self.items(step)
        if tool is None or tool.effect != "once" or items is None:
            return True
        slots = [Slot(action, None if step.step.for_each is None else at) for at in range(len(items))]
        for slot in slots:
            if slot not in step.calls and not had_elsewhere(step, slot):
                found = self._filled(step, slot, tool, parameters)
                if found is None or next(self._had(step, tool, found[1]), None) is None:
                    return True
        return False

    # ── what references come to ──

    def _given(self, step: StepState) -> Lookup:
        return lambda ref: self._lookup(ref, step.meant)

    def _filled(
        self, step: StepState, slot: Slot, tool: ToolSpec, written: JsonObject
    ) -> tuple[JsonObject, JsonObject] | None:
        """The parameters with their references filled in, and those of them that are known; None where one is not that tells it from others."""
        item = None
        if slot.item is not None:
            items = self.items(step)
            if items is None or slot.item >= len(items):
                return None
            try:
                item = resolve(items[slot.item], self._given(step))
            except UnresolvedReference:
                return None

        def lookup(ref: Reference) -> tuple[Any, str]:
            if ref.head in ("item", "index") and slot.item is not None:
                return (item if ref.head == "item" else slot.item), "the item"
            if (own := own_action(step.step, ref)) is not None:
                made = step.calls.get(Slot(own, slot.item))
                if made is None or made.output is None or made.output.artifact is not None:
                    raise UnresolvedReference(ref.raw, where="this task", why="it has no output at hand")
                return made.output.value, "the action"
            return self._lookup(ref, step.meant)

        required = tool.parameters.get("required", ())
        metadata = self._state.metadata
        found: JsonObject = {
            name: metadata[name] for name in required if name in metadata and name not in written
        }
        known = dict(found)
        for name, value in written.items():
            try:
                known[name] = found[name] = resolve(value, lookup)
            except UnresolvedReference:
                found[name] = value
        told = Telling.of(tool).parts({name: known.get(name, _UNKNOWN) for name in found})
        if any(_UNKNOWN in text or is_mask(text) for text in texts_in(told)):
            return None
        return found, known

    def _lookup(self, ref: Reference, meant: int, depth: int = 0) -> tuple[Any, str]:
        """What a step that came with this version of the plan would have been given."""
        if ref.head == "metadata":
            return self._state.metadata, "the metadata"
        if ref.head == "task":
            return {"description": self._state.description, "id": self._state.keyed_by}, "the task"
        step, action = self._steps.get(ref.head), ref.action
        if step is None:
            step, action = self._state.step_of_action(ref.head), ref.head
        if step is None:
            step, action = self._state.previous.get(ref.head), None
        if step is None or depth > _DEEP:
            raise UnresolvedReference(ref.raw, where="this task", why="it has no output at hand")
        in_part = step.status == "failed" and not 0 < step.gone <= meant
        """It waited for the whole list: only what was planned when that had failed goes by what there is of it."""
        if step.has_output and not in_part and not artifacts_of(step):
            value = compose(step, lambda output: output.value)
            if action is not None:
                value = [one[action] for one in value] if step.items is not None else value[action]
            return value, f"the output of {ref.head!r}"
        if self._readings is None:
            self._readings = Readings(self._steps.values())
        given = self._readings.value(step, action, lambda ref: self._lookup(ref, meant, depth + 1))
        return given, f"what {ref.head!r} reads"


def _as_written(
    step: StepState, tool: ToolSpec, forms: Mapping[str, Form], written: JsonObject
) -> frozenset[str]:
    """The same for all calls that are written alike, where nobody knows what they come to: what a later plan has tried in vain once more."""
    if step.step.for_each is not None and listed(step.step.for_each) is None:
        return frozenset()
    told = {
        name: [one.key, one.text, sorted([tools, *sorted(paths)] for tools, paths in one.paths.items())]
        if (one := forms.get(name)) is not None
        else canonical(value)
        for name, value in Telling.of(tool).parts(written).items()
    }
    return frozenset([f"~{digest(canonical([tool.id, told]))}"])


def _was_refused(step: StepState) -> bool:
    return step.status == "failed" and is_had_elsewhere(step.fault)


def calls_of(step: StepState) -> list[tuple[str | None, ToolId, JsonObject]]:
    """What each place of the step calls, as it is planned: its action, its tool and its parameters."""
    planned: list[tuple[str | None, ToolId, JsonObject]] = [
        (action.action_id, action.tool, action.parameters) for action in step.step.actions
    ]
    if step.step.tool:
        planned.append((None, step.step.tool, step.step.parameters))
    return planned


def had_elsewhere(step: StepState, slot: Slot) -> bool:
    """True if the call was not made because the very same effect is another place's."""
    failed = step.healing.failures(slot) if step.healing is not None else []
    only = step.fault if not step.step.actions and step.step.for_each is None else None
    fault = failed[-1].error if failed else only
    return is_had_elsewhere(fault)
