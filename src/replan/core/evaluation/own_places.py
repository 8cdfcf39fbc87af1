"""Whether a step has had, at whatever place of it, each effect that has failed there: it may have been made in other words, and its list may
have moved since."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from replan.core.evaluation.effects_had import Effects
from replan.core.failures.faults import DONE_ALREADY
from replan.core.state.progress import CallState, Slot, StepState


class _Failed(NamedTuple):
    """An effect that has failed at a place."""

    slot: Slot
    plan: int
    """The version of the plan in which it was tried last."""
    names: frozenset[str]
    """What it has in common with others of the same effect."""


def has_lost(step: StepState, effects: Effects) -> bool:
    """True if an effect of the step has failed, and what was done in its place has had none."""
    mine = step.healing
    if mine is None:
        return False
    wanted = {
        slot
        for slot in mine.slots()
        if any(
            effects.has_effect(one.tool_id) and one.error.kind not in DONE_ALREADY
            for one in mine.failures(slot)
        )
        and not effects.is_one_with_its_answer(step, slot)
    }
    had = {
        slot: call
        for slot, call in step.calls.items()
        if call.status == "succeeded"
        and call.effect != "reads"
        and not (slot in wanted and effects.is_anothers(call))
    }
    if mine.repairs == mine.repairs_before:
        return any(
            slot.item is None or slot.item not in step.left_out
            for slot in _without(step, wanted, had.values(), effects)
        )
    wanted -= {slot for slot, call in had.items() if _mended_before(step, slot, call)}
    anew = {slot for slot, call in had.items() if call.plan >= step.born and not call.reused}
    return len(wanted - anew) > len(anew - wanted)


def _mended_before(step: StepState, slot: Slot, call: CallState) -> bool:
    """True if this place had its effect before the step was written anew, and keeps it."""
    return call.reused and any(
        one.slot == slot and one.key == call.key and one.status == "succeeded" and not one.reused
        for one in step.former or ()
    )


def _without(
    step: StepState, wanted: Collection[Slot], had: Collection[CallState], effects: Effects
) -> set[Slot]:
    """The places of effects that were not had: neither to the letter, at whatever place, nor otherwise at their own."""
    before = [call for call in step.former or () if call.status == "succeeded" and call.effect != "reads"]
    keys = {call.key for call in had}
    made = [*had, *(call for call in before if not call.reused and call.key not in keys)]
    names = [effects.names_of(call) for call in made]
    free = dict.fromkeys(range(len(made)))
    tried: list[_Failed] = []
    """What has failed once more since, each for one before."""
    left: list[_Failed] = []

    def comes(one: _Failed) -> tuple[int, bool]:
        """The latest first; among them, what was had at its own place is not what another place, which means the same, is without."""
        at_its_own = (
            names[at] for at, call in enumerate(made) if call.slot == one.slot and call.plan >= one.plan
        )
        return -one.plan, all(found.isdisjoint(one.names) for found in at_its_own)

    for one in sorted(_failed(step, wanted, effects), key=comes):
        same = [at for at in free if not names[at].isdisjoint(one.names) and made[at].plan >= one.plan]
        again = next(
            (n for n, other in enumerate(tried) if other.plan > one.plan and other.names & one.names), None
        )
        if same:
            del free[next((at for at in same if made[at].slot == one.slot), same[0])]
        elif again is not None:
            tried[again] = one
        else:
            left.append(one)
            tried.append(one)
    at_own: dict[Slot, int] = {}
    for at in free:
        at_own[made[at].slot] = max(at_own.get(made[at].slot, 0), made[at].plan)
    return {one.slot for one in left if at_own.get(one.slot, -1) < one.plan}


def _failed(step: StepState, wanted: Collection[Slot], effects: Effects) -> Iterator[_Failed]:
    """Each effect that has failed, by the latest try of it at its place; one that was not called counts as tried at first."""
    latest: dict[tuple[Slot, int], CallState] = {}
    for call in step.every_call():
        if call.effect == "reads" or (call.fault is not None and call.fault.kind in DONE_ALREADY):
            continue
        if call.status == "failed":
            latest[call.slot, call.plan] = call
    keys = {call.key for call in latest.values()}
    for (slot, plan), call in latest.items():
        yield _Failed(slot, plan, effects.names_of(call))
    for slot in wanted:
        for one in step.healing.failures(slot)[-1:] if step.healing is not None else ():
            if one.call_key not in keys and not any(at == slot for at, _ in latest):
                yield _Failed(slot, 0, effects.names_tried(one))
