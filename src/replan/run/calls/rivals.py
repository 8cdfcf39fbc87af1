"""Other places of the plan that make, or are to make, a call that somebody proposes for one.

Who changes a call (a repair, a person) sees neither the items of a list that still wait for a slot nor what references come
to. A `once` call that another place means as well would be made twice, or stand for both: so it is not taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from replan.core.calls.site import Slot
from replan.core.ids import base_of
from replan.core.state.task import State, StepState, actions_of, is_meant_again
from replan.core.types import JsonObject, ToolSpec
from replan.ports import Tools
from replan.run.calls.build import outline
from replan.run.calls.repeats import places
from replan.run.session.outputs import Loaded

_MADE = frozenset({"succeeded", "running", "retrying", "unknown"})


def made_elsewhere(
    step: StepState, slot: Slot, tool: ToolSpec, parameters: JsonObject, state: State, tools: Tools
) -> str:
    """Which other place means this very call, in words; empty if none does, or where the plan means it again."""
    if tool.effect != "once" or is_meant_again(step.step, slot.action_id):
        return ""
    names = set(state.bases(tool, parameters))
    for other, at in _others(step, slot, tool, names, state, tools):
        words = at.words()
        return f"step {other.step.step_id!r}" + (f", {words}," if words else "")
    return ""


def _others(
    step: StepState, slot: Slot, tool: ToolSpec, names: set[str], state: State, tools: Tools
) -> Iterator[tuple[StepState, Slot]]:
    loaded = Loaded()
    for other in state.steps.values():
        for at, call in other.calls.items():
            elsewhere = other is not step or at != slot
            made = call.status in _MADE and not call.reused
            if elsewhere and made and base_of(call.key) in names:
                yield other, at
        if other.closed:
            continue
        for action in actions_of(other.step):
            for at, item in places(other, action, state, loaded):
                if (other is step and at == slot) or (at in other.calls and other.calls[at].status in _MADE):
                    continue
                try:
                    meant = outline(other, at, state, tools, loaded, item)
                except KeyError:  # an output that is kept apart: what the call comes to is not known here
                    continue
                if (
                    meant.fault is None
                    and meant.tool is tool
                    and not names.isdisjoint(state.bases(tool, meant.parameters))
                ):
                    yield other, at
