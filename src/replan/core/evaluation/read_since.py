"""What readings that were never made, or have failed for good, would have given: what the same ones have given to other steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from replan.core.calls.inside import in_order, own_action, with_what_it_uses
from replan.core.ids import canonical
from replan.core.references.refs import Reference, listed
from replan.core.references.resolve import resolve
from replan.core.state.progress import CallState, StepState
from replan.core.types import Action, JsonObject, ToolId
from replan.errors import UnresolvedReference

Lookup = Callable[[Reference], tuple[Any, str]]


class Readings:
    """The readings of a task, by what was read: as they were made, and as recovery has made others in their place."""

    def __init__(self, steps: Iterable[StepState]) -> None:
        self._made: dict[str, CallState] = {}
        self._mended: dict[str, CallState] = {}
        """By what has failed at the place of another one, which was made instead: whoever wanted the one was given the other."""
        for step, call in ((one, call) for one in steps for call in one.every_call()):
            if call.effect != "reads" or call.status != "succeeded":
                continue
            if call.output is None or call.output.artifact is not None:
                continue
            self._made[_named(call.tool_id, call.parameters)] = call
            for failed in step.healing.failures(call.slot) if step.healing is not None else ():
                self._mended[_named(failed.tool_id, failed.parameters)] = call

    def value(self, step: StepState, action: str | None, lookup: Lookup) -> Any:
        """What the step, or this action of it, would have given; `UnresolvedReference` where nobody has read the same."""
        wanted = step.step
        if wanted.when:
            raise _unread(step)
        if wanted.for_each is None:
            return self._of_one(step, action, lookup)
        items = listed(wanted.for_each) or resolve(wanted.for_each, lookup)
        if not isinstance(items, list):
            raise _unread(step)
        return [
            self._of_one(step, action, _within(place, resolve(item, lookup), lookup))
            for place, item in enumerate(items)
        ]

    def _of_one(self, step: StepState, action: str | None, lookup: Lookup) -> Any:
        if not step.step.actions:
            return self._read(step, step.step.tool, step.step.parameters, lookup)

        given: dict[str, Any] = {}

        def inside(ref: Reference) -> tuple[Any, str]:
            own = own_action(step.step, ref)
            return lookup(ref) if own is None else (one(step.action(own)), "the action")

        def one(made: Action) -> Any:
            if made.action_id not in given:  # many may use it, and those many others
                given[made.action_id] = self._read(step, made.tool, made.parameters, inside)
            return given[made.action_id]

        wanted = in_order(step.step) if action is None else with_what_it_uses(step.step, action)
        for each in wanted:  # so that none goes deeper than one other
            one(each)
        if action is not None:
            return given[action]
        return {each.action_id: given[each.action_id] for each in step.step.actions}

    def _read(self, step: StepState, tool_id: ToolId, parameters: JsonObject, lookup: Lookup) -> Any:
        name = _named(tool_id, resolve(parameters, lookup))
        call = self._made.get(name) or self._mended.get(name)
        # one that is given nothing may give anything: the same is what a plan reads that has left it out
        if call is None or call.output is None or not (parameters or 0 < step.gone <= call.plan):
            raise _unread(step)
        return call.output.value


def _within(place: int, item: Any, lookup: Lookup) -> Lookup:
    def found(ref: Reference) -> tuple[Any, str]:
        if ref.head in ("item", "index"):
            return (item if ref.head == "item" else place), "the item"
        return lookup(ref)

    return found


def _named(tool_id: ToolId, parameters: JsonObject) -> str:
    return canonical([tool_id, parameters])


def _unread(step: StepState) -> UnresolvedReference:
    return UnresolvedReference(step.step.step_id, where="this task", why="nobody has read the same")
