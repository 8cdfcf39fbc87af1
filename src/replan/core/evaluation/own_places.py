"""Whether a step has had, at whatever place of it, each effect that has failed there: it may have been made in other words, and its list may
have moved since."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replan.core.evaluation.effects_had import Effects, Lost
from replan.core.failures.faults import is_had_elsewhere
from replan.core.state.progress import CallState, Slot, StepState


class Tried(NamedTuple):
    """An effect that has failed at a place."""

    slot: Slot
    plan: int
    """The version of the plan in which it was tried last."""
    names: frozenset[str]
    """What it has in common with others of the same effect."""
    lost: Lost


def has_lost(step: StepState, effects: Effects) -> bool:
    """True if an effect of the step has failed, and what was done in its place has had none."""
    mine = step.healing
    if mine is None:
        return False
    wanted = {
        slot
        for slot in mine.slots()
        if any(
            effects.has_effect(one.tool_id) and not is_had_elsewhere(one.error) for one in mine.failures(slot)
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
    found = in_other_words(_failed(step, wanted, effects), with_former(step, had), effects)
    return {one.slot for one, call in found if call is None}


def with_former(step: StepState, had: Collection[CallState]) -> list[CallState]:
    """These effects of the step, and those that it has had before it came to stand as it does."""
    before = [call for call in step.former or () if call.status == "succeeded" and call.effect != "reads"]
    keys = {call.key for call in had}
    return [*had, *(call for call in before if not call.reused and call.key not in keys)]


def in_other_words(
    failed: Iterable[Tried], made: Sequence[CallState], effects: Effects
) -> list[tuple[Tried, CallState | None]]:
    """Those of them that none of these effects is to the letter, each with the effect at its own place; None: there is none.

    That may be one which was tried there before this one, and which this one was to take the place of.
    """
    left, had = _to_the_letter(failed, made, effects)
    at_own: dict[Slot, list[tuple[CallState, int]]] = {}
    for call, since in had:
        at_own.setdefault(call.slot, []).append((call, since))

    def found(one: Tried) -> CallState | None:
        there = at_own.get(one.slot, ())
        return next((call for call, since in there if call.plan >= one.plan > since), None)

    return [(one, found(one)) for one in left]


def _to_the_letter(
    failed: Iterable[Tried], made: Sequence[CallState], effects: Effects
) -> tuple[list[Tried], list[tuple[CallState, int]]]:
    """Those of them that none of these effects is to the letter, at whatever place; and each effect, with the version of the plan whose
    try it is, -1 where it is that of none.

    What has failed once more since, at another place too, is told of the later try alone.
    """
    names = [effects.names_of(call) for call in made]
    free = dict.fromkeys(range(len(made)))
    by_name: dict[str, list[int]] = {}
    by_slot: dict[Slot, list[int]] = {}
    for at, call in enumerate(made):
        by_slot.setdefault(call.slot, []).append(at)
        for name in names[at]:
            by_name.setdefault(name, []).append(at)
    tried: dict[str, deque[Tried]] = {}
    """By what they have in common: what stands for none before yet, the latest first."""
    left: list[Tried] = []
    taken: dict[int, int] = {}

    def comes(one: Tried) -> tuple[int, bool]:
        """The latest first; among them, what was had at its own place is not what another place, which means the same, is without."""
        at_its_own = (names[at] for at in by_slot.get(one.slot, ()) if made[at].plan >= one.plan)
        return -one.plan, all(found.isdisjoint(one.names) for found in at_its_own)

    def first(one: Tried) -> int | None:
        """The effect that is this one: rather one at its own place."""
        same = []
        for name in one.names:
            known = by_name.get(name, [])
            known[:] = [at for at in known if at in free]
            same += [at for at in known if made[at].plan >= one.plan]
        return min(same, key=lambda at: (made[at].slot != one.slot, at), default=None)

    for one in sorted(failed, key=comes):
        if (mine := first(one)) is not None:
            del free[mine]
            taken[mine] = one.plan
        elif (later := _latest(tried, one)) is None:
            left.append(one)
        else:
            for name in later.names:
                tried[name].remove(later)
        for name in one.names:
            tried.setdefault(name, deque()).append(one)
    return left, [(call, taken.get(at, -1)) for at, call in enumerate(made)]


def _latest(tried: Mapping[str, deque[Tried]], one: Tried) -> Tried | None:
    """The latest try among them that may be this one once more: none of its own plan is."""
    first = (known[0] for name in one.names if (known := tried.get(name)))
    return next((other for other in first if other.plan > one.plan), None)


def _failed(step: StepState, wanted: Collection[Slot], effects: Effects) -> Iterator[Tried]:
    """Each effect that has failed, by the latest try of it at its place; one that was not called counts as tried at first."""
    latest: dict[tuple[Slot, int], CallState] = {}
    for call in step.every_call():
        if call.effect == "reads" or is_had_elsewhere(call.fault):
            continue
        if call.status == "failed":
            latest[call.slot, call.plan] = call
    keys = {call.key for call in latest.values()}
    for (slot, plan), call in latest.items():
        yield Tried(slot, plan, effects.names_of(call), Lost.of(call.tool_id, call.parameters))
    for slot in wanted:
        for one in step.healing.failures(slot)[-1:] if step.healing is not None else ():
            if one.call_key not in keys and not any(at == slot for at, _ in latest):
                yield Tried(slot, 0, effects.names_tried(one), Lost.of(one.tool_id, one.parameters))
