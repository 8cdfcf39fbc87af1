"""Effects that another tool has had in a step in place of the one that was planned there.

Whether that is the same thing, code knows only where it is declared (`substitutes`) or where a person has agreed to the call; else
whoever judges the round says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replan.core.evaluation.effects_had import Effects, Lost
from replan.core.evaluation.own_places import Tried, in_other_words, with_former
from replan.core.failures.faults import is_had_elsewhere
from replan.core.report.explain import step_words
from replan.core.state.progress import Slot, StepState
from replan.core.state.step_recovery import Healing
from replan.core.types import CallKey


def by_other_tools(step: StepState, effects: Effects) -> list[Lost]:
    """The effects of a finished step that failed, and in whose place only another tool has had one."""
    mine = step.healing
    if mine is None:
        return []
    planned = list(_planned(step, mine, effects))
    had = effects.own(step) if planned else []
    still = []
    used: set[CallKey] = set()
    for one, call in reversed(in_other_words(planned, with_former(step, had), effects)):  # the earliest first
        if call is None:
            if one.slot.item is None or one.slot.item not in step.left_out:  # else the plan does without it
                still.append(one.lost)
        elif call.key not in used:
            used.add(call.key)
            if not (effects.by_same(one.lost.tool_id, call.tool_id) or effects.is_agreed(call)):
                still.append(one.lost)
    if mine.repairs > mine.repairs_before:  # written anew, it may have other places
        anew = [call for call in had if call.plan >= step.born and not call.reused and call.key not in used]
        for lost in list(still):
            same = [
                one for one in anew if effects.by_same(lost.tool_id, one.tool_id) or effects.is_agreed(one)
            ]
            if same:
                anew.remove(same[0])
                still.remove(lost)
    return still


def _planned(step: StepState, mine: Healing, effects: Effects) -> Iterator[Tried]:
    """What each plan has called first at each place, where that was to have an effect and has failed."""
    made: dict[tuple[Slot, CallKey | None], int] = {}
    for call in reversed(step.every_call()):
        made[call.slot, call.key] = call.plan
    for slot in mine.slots():
        if effects.is_one_with_its_answer(step, slot):
            continue
        first: dict[int, Tried] = {}
        plan = 0
        for one in mine.failures(slot):
            if not effects.has_effect(one.tool_id) or is_had_elsewhere(one.error):
                continue
            plan = max(plan, made.get((slot, one.call_key), plan))
            names = effects.names_tried(one)
            if (known := first.get(plan)) is None:
                first[plan] = Tried(slot, plan, names, Lost.of(one.tool_id, one.parameters))
            elif effects.by_same(known.lost.tool_id, one.tool_id):
                first[plan] = known._replace(names=known.names | names)
        yield from first.values()


def in_words(step: StepState, lost: Sequence[Lost], effects: Effects) -> str:
    """What became of the step."""
    called = [call.tool_id for call in effects.own(step)]
    planned, had = (
        ", ".join(dict.fromkeys(map(repr, names))) for names in ([one.tool_id for one in lost], called)
    )
    return f"{step_words(step)} was to have the effect of {planned}, which failed, and has had that of {had} in its place"
