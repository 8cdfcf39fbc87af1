"""How many of what others of a family have had a plan is yet to have by itself: each place in it that states such a call has one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from replan.core.again.had import Had
from replan.core.calls.telling import unique_text
from replan.core.state.progress import StepState
from replan.core.types import CallKey, StepId, ToolId, ToolSpec


def yet_to_have(effects: Sequence[Had], rooms: Callable[[Had], Mapping[StepId, int]]) -> set[CallKey]:
    """Those of these effects, nothing of which tells one from another, that places of the plan are left for; the first ones first.

    `rooms`: how many such a one steps of the plan are yet to have.
    """
    used: Counter[tuple[StepId, ToolId]] = Counter()
    found: set[CallKey] = set()
    for one in effects:
        places = ((name, one.call.tool_id, room) for name, room in rooms(one).items())
        place = next(((name, tool) for name, tool, room in places if used[name, tool] < room), None)
        if place is not None:
            used[place] += 1
            found.add(one.call.effect_key)
    return found


def room(step: StepState, stated: int, tool: ToolSpec, text: str) -> int:
    """How many of the calls of this text that the step states it is yet to have: those that have theirs are none."""
    had = sum(
        call.status in ("succeeded", "unknown")
        and (call.tool_id != tool.id or unique_text(tool, call.parameters) == text)
        for call in step.calls.values()
    )
    return stated - had
