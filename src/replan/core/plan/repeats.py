"""Whether a plan that makes one call with an effect twice means it (docs/reference/plans.md, "The same effect twice").

`repeat: true` says so; a step that is written anew keeps it. Without it, only the order of the plan can: a call that does no more than set a state
(`cd temp`, `reboot`) is meant again where the plan puts another effect on the same thing between the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from replan.core.calls.telling import unique_text
from replan.core.ids import call_content
from replan.core.plan.graph import Graph
from replan.core.references.refs import meaning, rewritten
from replan.core.types import JsonObject, Step, StepId, ToolId, ToolSpec


class Deed(NamedTuple):
    """A call of the plan, as far as it is known: its tool, and what it is called with as one text."""

    tool: ToolSpec
    content: str

    @classmethod
    def of(cls, tool: ToolSpec, parameters: JsonObject) -> Deed:
        """A call with these parameters, references as they are meant."""
        written = rewritten(parameters, meaning)
        if tool.unique_by:
            return cls(tool, unique_text(tool, written))
        return cls(tool, call_content(tool.id, written, tool.parameters))


class Room:
    """How many steps may be looked at for what the order of a plan says; a plan that wants more has to say `repeat`."""

    __slots__ = ("left",)

    def __init__(self, steps: int = 400_000) -> None:
        self.left = steps


def meant_by_order(
    first: StepId,
    second: StepId,
    deed: Deed,
    graph: Graph,
    deeds: Callable[[StepId], Sequence[Deed]],
    room: Room | None = None,
) -> bool:
    """True if another effect stands between two like calls, so that the second is no slip of the pen.

    `deeds`: of a step.
    """
    tool = deed.tool
    properties = tool.parameters.get("properties")
    parameters = len(properties) if isinstance(properties, dict) else 0
    if parameters > 1 or first == second:
        return False
    order = graph.places()
    if order.get(first, 0) > order.get(second, 0):
        first, second = second, first
    between = _between(graph, first, second, order, room or Room())
    return any(
        other.content != deed.content
        and other.tool.effect != "reads"
        and (other.tool.id == tool.id if parameters else other.tool.source == tool.source)
        for step_id in between
        for other in deeds(step_id)
    )


def _between(
    graph: Graph, first: StepId, second: StepId, order: Mapping[StepId, int], room: Room
) -> set[StepId]:
    """The steps that stand on a way from the first to the second; only what lies between them in a topological order is looked at."""
    begin = order.get(first, 0)
    before: dict[StepId, None] = {}
    stack = [second]
    reached = False
    while stack:
        needs = graph.needs.get(stack.pop(), ())
        room.left -= 1 + len(needs)
        if room.left < 0:
            return set()
        for need in needs:
            if need == first:
                reached = True
            elif order.get(need, 0) > begin and need not in before:
                before[need] = None
                stack.append(need)
    if not reached:
        return set()
    after = set(graph.downstream([first], past=before.__contains__))
    return after.intersection(before)


Resolve = Callable[[str], ToolSpec | None]
"""The tool that is meant by this name."""


def marks(step: Step, resolve: Resolve) -> Counter[ToolId]:
    """How often the step says `repeat` of each tool."""
    if not step.actions:
        return Counter([_named(step.tool, resolve)] if step.repeat else [])
    return Counter(_named(one.tool, resolve) for one in step.actions if one.repeat or step.repeat)


def with_marks(new: Step, old: Step, resolve: Resolve) -> Step:
    """A step written anew that says `repeat` as often as it did before, whether it is one call now or several, and is in place of the same."""
    if old.instead_of or new.instead_of:
        new = new.model_copy(update={"instead_of": old.instead_of})
    left = marks(old, resolve)
    if not left:
        return new
    why = next(filter(None, (old.repeat_reason, *(one.repeat_reason for one in old.actions))), "")
    kept: JsonObject = {"repeat": True, "repeat_reason": why}
    if not new.actions:
        return new.model_copy(update=kept) if left[_named(new.tool, resolve)] else new
    actions = []
    for one in new.actions:
        again = left[_named(one.tool, resolve)] > 0
        left[_named(one.tool, resolve)] -= again
        actions.append(one.model_copy(update=kept) if again else one)
    return new.model_copy(update={"actions": tuple(actions), "repeat": False, "repeat_reason": ""})


def _named(name: str, resolve: Resolve) -> ToolId:
    tool = resolve(name)
    return tool.id if tool is not None else name
