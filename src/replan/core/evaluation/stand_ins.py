"""Effects that another tool has had in a step in place of the one that was planned there.

Whether that is the same thing, code knows only where it is declared (`substitutes`) or where a person has agreed to the call; else
whoever judges the round says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.evaluation.effects_had import Effects, Lost
from replan.core.failures.faults import DONE_ALREADY
from replan.core.report.explain import step_words
from replan.core.state.progress import Slot, StepState


def by_other_tools(step: StepState, effects: Effects) -> list[Lost]:
    """The effects of a finished step that failed, and in whose place only another tool has had one."""
    mine = step.healing
    if mine is None:
        return []
    planned: dict[Slot, Lost] = {}
    for slot in mine.slots():
        for one in mine.failures(slot) if not effects.is_one_with_its_answer(step, slot) else ():
            if effects.has_effect(one.tool_id) and one.error.kind not in DONE_ALREADY:
                planned[slot] = Lost.of(one.tool_id, one.parameters)
                break
    had = {call.slot: call for call in effects.own(step)} if planned else {}
    left = {}
    for slot, lost in planned.items():
        call = had.pop(slot, None)
        if call is None and slot.item is not None and slot.item in step.left_out:
            continue  # the plan does without it
        if call is None or not (effects.by_same(lost.tool_id, call.tool_id) or effects.is_agreed(call)):
            left[slot] = lost
    if mine.repairs > mine.repairs_before:  # written anew, it may have other places
        anew = [call for call in had.values() if call.plan >= step.born and not call.reused]
        for slot, lost in list(left.items()):
            if same := [
                one for one in anew if effects.by_same(lost.tool_id, one.tool_id) or effects.is_agreed(one)
            ]:
                anew.remove(same[0])
                del left[slot]
    return list(left.values())


def in_words(step: StepState, lost: Sequence[Lost], effects: Effects) -> str:
    """What became of the step."""
    called = [call.tool_id for call in effects.own(step)]
    planned, had = (
        ", ".join(dict.fromkeys(map(repr, names))) for names in ([one.tool_id for one in lost], called)
    )
    return f"{step_words(step)} was to have the effect of {planned}, which failed, and has had that of {had} in its place"
