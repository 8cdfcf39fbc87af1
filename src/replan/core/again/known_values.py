"""What the words of a plan come to before anything of it runs: what is done has given its output already."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from replan.core.calls.inside import own_action
from replan.core.calls.site import Slot
from replan.core.references.meter import Meter, opened
from replan.core.references.refs import Reference, has_references, listed
from replan.core.references.resolve import resolve
from replan.core.state.progress import Output, StepState, compose
from replan.core.state.task import State
from replan.core.types import JsonObject, Step, ToolSpec
from replan.errors import UnresolvedReference

UNKNOWN = object()
"""An item that nobody can tell yet."""


@dataclass(slots=True)
class KnownValues:
    """The values of references, as far as done steps and the metadata tell them by now."""

    state: State
    new: Collection[str]
    """The steps and actions that are still to run."""
    lasting: bool
    """None of them adds to the metadata."""
    _meter: Meter = field(default_factory=Meter)

    def parameters(
        self, step: Step, written: JsonObject, tool: ToolSpec, item: Any, index: int | None
    ) -> JsonObject:
        """The parameters of a call, those from the metadata included; `UnresolvedReference` where they are not all known."""
        found: JsonObject = self._of(written, item, index, step)
        for name in tool.parameters.get("required", ()):
            if name not in found:
                metadata = self.state.metadata if self.lasting and not self.state.hides else {}
                if name not in metadata or name not in tool.from_metadata:
                    raise _unknown(name)
                found = {**found, name: metadata[name]}
        return found

    def items(self, step: Step) -> list[Any] | None:
        """The items of its list, `UNKNOWN` for one that is not known; None where it has no list, or nobody can tell how long it is."""
        if step.for_each is None:
            return None
        written = listed(step.for_each)
        if written is not None:
            return [self._or_unknown(item) for item in written]
        found = opened(self._or_unknown(step.for_each))
        return found if isinstance(found, list) else None

    def _or_unknown(self, written: Any) -> Any:
        try:
            return self._of(written, UNKNOWN, None)
        except UnresolvedReference:
            return UNKNOWN

    def _of(self, written: Any, item: Any, index: int | None, step: Step | None = None) -> Any:
        if not has_references(written):
            return written
        if self.state.hides or self.state.files:
            raise _unknown("a value that is not shown")

        def lookup(ref: Reference) -> tuple[Any, str]:
            if ref.head == "index" and index is not None:
                return index, "the index"
            if ref.head == "item" and item is not UNKNOWN:
                return item, "the item"
            if step is not None and (own := own_action(step, ref)) is not None:
                return self._of_own(ref, step, Slot(own, index)), own
            return self._output(ref), ref.head

        return resolve(written, lookup, self._meter)

    def _of_own(self, ref: Reference, step: Step, slot: Slot) -> Any:
        """What another action of the same step has given, if that is done and the step calls what it called then."""
        known = self.state.steps.get(step.step_id)
        made = known.calls.get(slot) if known is not None and known.calls_as(step) else None
        if made is None or made.status != "succeeded" or made.output is None:
            raise _unknown(ref.raw)
        return _value(made.output)

    def _output(self, ref: Reference) -> Any:
        if ref.head == "metadata" and self.lasting:
            return self.state.metadata
        step = self.state.named(ref.head) if ref.head not in self.new else None
        if step is None or step.status != "succeeded":
            raise _unknown(ref.raw)
        names = [one.action_id for one in step.step.actions]
        action = ref.action or (ref.head if ref.head != step.step.step_id else None)
        if action is not None and action not in names:
            raise _unknown(ref.raw)
        value = _output_of(step)
        if action is None:
            return value
        return [one[action] for one in value] if step.items is not None else value[action]


def _output_of(step: StepState) -> Any:
    return compose(step, _value)


def _value(output: Output) -> Any:
    if output.artifact is not None or output.masked or output.files:
        raise _unknown("an output that is kept apart")
    return output.value


def _unknown(what: str) -> UnresolvedReference:
    return UnresolvedReference(what, where="what is known by now")
