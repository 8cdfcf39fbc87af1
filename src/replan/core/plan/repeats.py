"""Whether a plan that makes one call with an effect twice means it (docs/reference/plans.md, "The same effect twice").

`repeat: true` says so. Without it, only the order of the plan can: a call that does no more than set a state
(`cd temp`, `reboot`) is meant again where the plan puts another effect on the same thing between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from replan.core.ids import call_content
from replan.core.plan.graph import Graph
from replan.core.references.refs import meaning, rewritten
from replan.core.types import JsonObject, StepId, ToolSpec


class Deed(NamedTuple):
    """A call of the plan, as far as it is known: its tool, and what it is called with as one text."""

    tool: ToolSpec
    content: str

    @classmethod
    def of(cls, tool: ToolSpec, parameters: JsonObject) -> Deed:
        """A call with these parameters, references as they are meant."""
        return cls(tool, call_content(tool.id, rewritten(parameters, meaning), tool.parameters))


def meant_by_order(
    first: StepId, second: StepId, deed: Deed, graph: Graph, deeds: Mapping[StepId, Sequence[Deed]]
) -> bool:
    """True if another effect stands between two like calls, so that the second is no slip of the pen."""
    tool = deed.tool
    properties = tool.parameters.get("properties")
    parameters = len(properties) if isinstance(properties, dict) else 0
    if parameters > 1 or first == second:
        return False
    after = set(graph.downstream([first]))
    if second not in after:
        first, second = second, first
        after = set(graph.downstream([first]))
        if second not in after:
            return False
    between = after & _upstream(graph, second)
    return any(
        other.content != deed.content
        and other.tool.effect != "reads"
        and (other.tool.id == tool.id if parameters else other.tool.source == tool.source)
        for step_id in between
        for other in deeds.get(step_id, ())
    )


def _upstream(graph: Graph, step_id: StepId) -> set[StepId]:
    seen: set[StepId] = set()
    stack = list(graph.needs.get(step_id, ()))
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            stack.extend(graph.needs.get(one, ()))
    return seen
