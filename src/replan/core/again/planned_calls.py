"""The calls that the new steps of a plan make, as far as their words and what is done tell them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from replan.core.again.known_values import UNKNOWN, KnownValues
from replan.core.calls.site import ONLY, Slot
from replan.core.calls.telling import unique_text
from replan.core.plan.constant import ConstantCall
from replan.core.references.refs import Reference, has_references, listed, whole
from replan.core.state.task import State, ids_of
from replan.core.state.written import words_of
from replan.core.types import JsonObject, Step, StepId, ToolSpec
from replan.errors import UnresolvedReference

_MOST_ITEMS = 1_000
"""Of one list; those after them are looked at when they are called."""
_MOST_READ = 5_000
"""The same of all lists of a plan that done steps have given."""


class Call(NamedTuple):
    """A call that a step of the plan makes."""

    step: Step
    slot: Slot
    tool: ToolSpec
    values: JsonObject
    """The parameters that are written as values; those of an item that is a value among them."""
    written: JsonObject
    """All of them, as they are written; an item that is a value is put in."""
    known: JsonObject | None
    """All that it is called with; None where that is not known yet, or nobody has called its tool or another that does the same."""
    base: str
    """What it calls; empty where that is not known."""
    again: bool
    """It says `repeat`."""


@dataclass(slots=True)
class PlannedCalls:
    """What each of the new steps calls."""

    state: State
    new: Collection[Step]
    constants: Mapping[StepId, ConstantCall]
    resolve: Callable[[str], ToolSpec | None]
    _known: KnownValues = field(init=False)
    _room: int = field(default=_MOST_READ, init=False)
    """Items of lists that are read and not written; how many may still be looked at."""

    def __post_init__(self) -> None:
        new = {name for step in self.new for name in ids_of(step)}
        tools = [tool for step in self.new for tool in self._tools(step)]
        lasting = not any(tool is None or tool.output_params for tool in tools)
        self._known = KnownValues(self.state, new, lasting)

    def _tools(self, step: Step) -> list[ToolSpec | None]:
        return [self.resolve(one.tool) for one in step.actions or (step,)]

    def of(self, step: Step, *, readings: bool = False) -> Iterator[Call]:
        """Its effects, those of a list each by itself as far as its items are known. `readings`: those too."""
        if (found := self.constants.get(step.step_id)) is not None:
            base = self.state.constant_base(found)
            values = found.parameters
            yield Call(step, ONLY, found.tool, values, values, values, base, step.repeat)
            return
        written = listed(step.for_each) if step.for_each is not None else None
        items = self._items(step, written)
        written = items if written is None else written
        places = [None] if items is None else range(min(len(items), _MOST_ITEMS))
        for one in step.actions or (step,):
            tool = self.resolve(one.tool)
            if tool is None or (tool.effect == "reads" and not readings):
                continue
            action_id = None if one is step else one.action_id  # type: ignore[union-attr]
            for at in places:
                slot = Slot(action_id, at)
                if items is None or written is None or at is None:
                    yield self._call(step, slot, tool, None, UNKNOWN)
                else:
                    yield self._call(step, slot, tool, written[at], items[at])

    def _items(self, step: Step, written: list[Any] | None) -> list[Any] | None:
        """The items of the step's list, where they are written, or known and the list is called with something that was called before."""
        is_read = written is None and step.for_each is not None
        if is_read and (self._room <= 0 or not any(map(self._was_called, self._tools(step)))):
            return None
        items = self._known.items(step)
        if is_read and items is not None:
            self._room -= len(items)
        return items

    def _call(self, step: Step, slot: Slot, tool: ToolSpec, item_in_words: Any, item: Any) -> Call:
        """`item_in_words`: the item as the plan writes it; `item`: what it is."""
        words = words_of(step, slot)
        written = {name: with_item(one, item_in_words) for name, one in words.items()}
        values = {name: value for name, value in written.items() if not has_references(value)}
        needed = tool.parameters.get("required", ())
        literal = len(values) == len(words) and all(name in values for name in needed)
        known = values if literal else self._come_to(step, words, slot, tool, item)
        base = "" if known is None else self.state.base(tool, known)
        again = step.repeat or any(one.repeat for one in step.actions if one.action_id == slot.action_id)
        return Call(step, slot, tool, values, written, known, base, again)

    def _come_to(
        self, step: Step, words: JsonObject, slot: Slot, tool: ToolSpec, item: Any
    ) -> JsonObject | None:
        """What a call comes to that refers to nothing but what is known by now."""
        if not self._was_called(tool):
            return None
        try:
            return self._known.parameters(step, words, tool, item, slot.item)
        except UnresolvedReference:
            return None

    def _was_called(self, tool: ToolSpec | None) -> bool:
        """True if it was called before, or another tool that does the same."""
        return tool is not None and not self.state.made.keys().isdisjoint((tool.id, *tool.counterparts))


def stated_by(
    steps: Collection[Step], state: State, resolve: Callable[[str], ToolSpec | None]
) -> dict[str, Counter[StepId]]:
    """By what tells effects apart (`core.calls.telling.unique_text`): how often each step states it, as far as its values are known."""
    found: dict[str, Counter[StepId]] = {}
    calls = PlannedCalls(state, steps, {}, resolve)
    for step in steps:
        for call in calls.of(step):
            told = call.written if call.known is None else call.known
            found.setdefault(unique_text(call.tool, told), Counter())[step.step_id] += 1
    return found


def with_item(written: Any, item: Any) -> Any:
    """The value with the item put in where it is a value; as it is written else."""
    if item is None or has_references(item):
        return written
    if isinstance(written, str):
        return _of_item(ref, item, written) if (ref := whole(written)) is not None else written
    if isinstance(written, dict):
        return {name: with_item(one, item) for name, one in written.items()}
    if isinstance(written, list):
        return [with_item(one, item) for one in written]
    return written


def _of_item(ref: Reference, item: Any, written: str) -> Any:
    if ref.head != "item":
        return written
    if not ref.path:
        return item
    return item.get(ref.path, written) if isinstance(item, dict) else written
