"""Whether a call needs a person's yes before it is made, and why: by the settings, and by what has happened in the task."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from replan.core.again.like_calls import after_an_effect
from replan.core.again.sessions import Resolve, Sessions, sessions_of
from replan.core.calls.site import Slot, slot_of
from replan.core.ids import base_of, split_key
from replan.core.limits.policy import needs_approval
from replan.core.state.task import State, StepState
from replan.core.types import CallKey, Step, StepId, ToolSpec

_ROUNDS_UNASKED = 2
"""Rounds that may have one and the same effect where nobody is asked: the first, and one that means it once more."""
_PARTS_UNASKED = 10
"""The same of parts that go on from one another (`more`), each with another effect before it: run, mend, run again."""
_SAID_NO = "somebody has said no to an effect of this task, so each new one is asked for"
_GOT_NO_YES = "an effect of this task needed a yes and could not get one, so each new one needs one too"


class Asked(NamedTuple):
    """A yes that a call needs."""

    why: str = ""
    """What is said beside the call; empty where the settings want it."""


def asked_of(
    state: State, step: StepState, slot: Slot, tool: ToolSpec, key: CallKey, alike: Collection[str] = ()
) -> Asked | None:
    """The yes that this call needs; None if it needs none. `alike`: what else is the same effect, by what it calls.

    What a person was asked, and why, is not found out anew: only that process may have known it. What the settings alone want
    is, as they may be others by now; a person's answer holds in any case.
    """
    known = state.recovery
    before = known.asked.get(key) if known is not None else None
    if known is not None and before is not None and (before.why or key in known.approvals):
        return Asked(before.why)
    elsewhere = bool(state.ledger.elsewhere) and base_of(key) in state.ledger.elsewhere
    if (
        step.born == 1
        and state.recovery is None
        and step.healing is None
        and not (state.yes_left_out or elsewhere)
    ):
        return Asked() if needs_approval(state.policy, step.step, tool) else None  # nothing has happened yet
    if once_more(state, step, tool, key, alike) and (
        state.policy.interactive or needs_approval(state.policy, step.step, tool)
    ):
        why = reason_of(step.step, slot)
        return Asked(f"it is done already, and meant once more{f': {why}' if why else ''}")
    if is_after_a_no(state, step, slot, tool):
        said_no = state.recovery and any(not one.approved for one in state.recovery.approvals.values())
        return Asked(_SAID_NO if said_no else _GOT_NO_YES)
    if needs_approval(state.policy, step.step, tool) or _goes_round_a_yes(state, step, slot, tool):
        return Asked(_in_place(step, slot, tool))
    return None


def is_asked_for(state: State, key: CallKey, step_id: StepId, slot: Slot) -> bool:
    """True if a person was asked for this call, by a request that can be answered now, or has been.

    One that was for a step which a later plan has left out, or for another place of the step, nobody sees any more.
    """
    known = state.recovery
    asked = known.asked.get(key) if known is not None else None
    if known is None or asked is None or key in known.approvals:
        return asked is not None
    step = state.steps.get(asked.step_id)
    if step is None or step.closed:
        return False
    return asked.step_id != step_id or slot_of(asked.action_id, asked.index) == slot


def _in_place(step: StepState, slot: Slot, tool: ToolSpec) -> str:
    """What the call would stand in for, in words: the yes to it is one to that too. Empty if it is what was planned."""
    failed = step.healing.failures(slot) or step.healing.failures() if step.healing is not None else ()
    if tool.effect == "reads" or not failed or tool.id in (one.tool_id for one in failed):
        return ""
    return f"it takes the place of {failed[0].tool_id!r}, which the plan meant and which failed"


def _goes_round_a_yes(state: State, step: StepState, slot: Slot, tool: ToolSpec) -> bool:
    """True if a plan has wanted a person's yes for such a call, and a later one, or recovery, makes it without saying so."""
    if tool.id in state.ask_for and (step.born > 1 or _is_changed(step, slot)):
        return True
    return tool.effect != "reads" and 0 < state.yes_left_out <= step.born


def _is_changed(step: StepState, slot: Slot) -> bool:
    return step.healing is not None and slot in step.healing.overrides


def is_after_a_no(state: State, step: StepState, slot: Slot, tool: ToolSpec) -> bool:
    """True if the call would have an effect, and came up after one had not got its yes: in a later plan, a step that
    was written anew, or a call that recovery has changed."""
    known = state.recovery
    if known is None or not known.refused_in or tool.effect == "reads":
        return False
    return _is_changed(step, slot) or step.born > known.refused_in


def once_more(
    state: State, step: StepState, tool: ToolSpec, key: CallKey, alike: Collection[str] = ()
) -> bool:
    """True if a later plan makes an effect beyond those like it that are done."""
    if tool.effect != "once" or state.ledger.reusable(key, tool) is not None:
        return False
    base, number = split_key(key)
    if elsewhere := state.ledger.elsewhere.get(base):  # by another task of the family
        return number not in elsewhere
    return step.born > 1 and any(map(state.ledger.is_done, {base, *alike}))


def too_often(
    state: State, step: StepState, tool: ToolSpec, key: CallKey, alike: Collection[str], resolve: Resolve
) -> str:
    """Why the call is not made, where it makes a done effect once more and nobody is asked; empty if it is.

    A model's reason alone stands for one later round, which may mend what the first has counted wrongly; else each further
    one could have a reason of its own. Parts that go on from one another mend nothing: of them it stands for more, as long as
    something else was done since the last time, by this part or by one before. And of a login it stands as often as the session that it
    gave last has served for something, and no longer does.
    """
    if state.policy.interactive or not once_more(state, step, tool, key, alike):
        return ""
    acts = step.meant in state.continued and after_an_effect(state, step)
    part = step.meant if step.meant in state.continued else 0
    bases = {base_of(key), *alike}
    text = _beyond(state, tool, bases, part, acts=acts)
    return "" if text and sessions_of(state, resolve).served_and_ended(state, bases) else text


def planned_too_often(
    state: State, tool: ToolSpec, alike: Collection[str], resolve: Resolve, *, goes_on: bool, acts: bool
) -> str:
    """The same of a step that a plan means to bring. `goes_on`: it is a next part; `acts`: which may have an effect before that."""
    if state.policy.interactive or not any(map(state.ledger.is_done, alike)):
        return ""
    text = _beyond(state, tool, alike, state.plans + 1 if goes_on else 0, acts=acts)
    if text and Sessions.before(state.plans + 1, state, resolve).served_and_ended(state, alike):
        return ""
    return text


def _beyond(state: State, tool: ToolSpec, alike: Collection[str], part: int, *, acts: bool) -> str:
    """`part`: the version of the plan, where it goes on from another; else 0. `acts`: it has another effect before this one."""
    made = len({at for base in alike for at in state.ledger.rounds_of(base)} - {state.round})
    if made < _ROUNDS_UNASKED:
        return ""
    if made < _PARTS_UNASKED and (acts or (part and state.ledger.acted_since(alike, part))):
        return ""
    return (
        f"this very call of {tool.id!r} was made already, and once more in a later round: without a person who agrees no "
        "further round makes it again, whatever its reason; leave it out, and go by what was done"
    )


def reason_of(step: Step, slot: Slot) -> str:
    """Why the plan means this call again; empty where it does not say."""
    mine = (one.repeat_reason for one in step.actions if one.action_id == slot.action_id)
    return next(filter(None, mine), step.repeat_reason)
