"""The ladder of a step's recovery (specification §6): which rungs are still open, and what is done by default.

Each rung is charged before it is tried and repeats are taken from the choices, so what is left shrinks until
nothing but the overall reflection is.
"""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.calls.site import Slot
from replan.core.failures.faults import DONE_ALREADY
from replan.core.recovery.guard import must_stop
from replan.core.recovery.said_no import was_said_before
from replan.core.reflection import ActionType, SuggestedAction
from replan.core.state.step_recovery import Healing
from replan.core.state.task import State

MOST_RETRIES = 8
"""Tries of layer 1 for one call, where no older limit says less: beyond that something else is wrong."""
MOST_REPAIRS = 3
"""Times that one step is written anew, where no older limit says less."""
MOST_SETTLED = 2
"""Times that one call in doubt may be said not to have happened, and be made again."""
MOST_READINGS = 3
"""Readings to find out about one call in doubt."""

SAFEST: tuple[ActionType, ...] = ("repair_step", "replan", "trigger_overall_reflection")
"""What a proposal that will not do is replaced by: the first of these that is open."""


# ── what is open ──────────────────────────────────────────────────────────────


def open_actions(state: State, mine: Healing, slot: Slot) -> tuple[ActionType, ...]:
    """What may still be done about the latest failure of a call, which `mine` counts.

    Only `trigger_overall_reflection` left: there is nothing to ask a model about.
    """
    if (latest := mine.latest(slot)) is not None and was_said_before(state, latest):
        return (
            "trigger_overall_reflection",
        )  # a person has said no, and no other words of this step change that
    open_: list[ActionType] = []
    if layer_1_open(state, mine, slot):
        open_ += ["retry_with_params", "retry_with_tool"]
    if layer_2_open(state, mine):
        open_.append("repair_step")
    if open_ and state.reflects and not must_stop(state):
        open_.append("replan")
    if latest is not None and latest.error.kind in DONE_ALREADY and layer_2_open(state, mine):
        open_.remove("repair_step")
    return (*open_, "trigger_overall_reflection")


def layer_1_open(state: State, mine: Healing, slot: Slot) -> bool:
    """True if the call may be tried in another way: no error was seen twice, and the tries are not used up."""
    limit = state.policy.older.max_step_retries
    return not mine.repeated(slot) and mine.retries(slot) < (MOST_RETRIES if limit is None else limit)


def layer_2_open(state: State, mine: Healing) -> bool:
    """True if the step may be written anew: the last time changed something, and the times are not used up."""
    limit = state.policy.older.max_single_step_repairs
    return not mine.unmended() and mine.repairs < (MOST_REPAIRS if limit is None else limit)


def doubt_actions(mine: Healing, slot: Slot, *, readers: bool) -> tuple[ActionType, ...]:
    """What may be done about a call of which nobody knows whether it took effect: find out, say, or give up."""
    readings = mine.readings.get(slot, [])
    open_: list[ActionType] = []
    if mine.settled(slot) >= MOST_SETTLED:
        return ("trigger_overall_reflection",)
    if readers and len(readings) < MOST_READINGS:
        open_.append("verify_outcome")
    if any(reading.output for reading in readings):
        open_.append("settle_outcome")
    return (*open_, "trigger_overall_reflection")


def too_many_in_a_row(state: State, mine: Healing, slot: Slot) -> bool:
    """True if the older limit on failed tries in a row says that the plan is to be made anew."""
    limit = state.policy.older.consecutive_failure_threshold
    return limit is not None and state.reflects and len(mine.failures(slot)) >= max(1, limit)


# ── what is done ──────────────────────────────────────────────────────────────


def safest(allowed: Sequence[ActionType], words: str = "") -> SuggestedAction:
    """What is done where no proposal will do: the first of repair, replan and overall reflection that is open."""
    kind = next(name for name in SAFEST if name in allowed)
    key = {"repair_step": "hint", "replan": "advice"}.get(kind, "summary")
    return SuggestedAction(type=kind, data={key: words} if words else {})
