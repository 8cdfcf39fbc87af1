"""Which of several like calls a place of the plan makes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count

from replan.core.calls.site import Place, Slot
from replan.core.failures.faults import DONE_ALREADY
from replan.core.ids import base_of, call_key, split_key
from replan.core.plan.index import references_of
from replan.core.state.progress import StepState
from replan.core.state.task import State
from replan.core.types import ActionId, CallKey, Step


def occurrence(
    state: State,
    base: str,
    place: Place,
    one_of_several: Callable[[], bool] = lambda: False,
    *,
    repeatable: bool = False,
) -> int:
    """Which of the like calls this place in the plan makes, from 1.

    The place keeps the number at once: another that asks before the call is recorded gets another number.
    `one_of_several`: whether the plan marks like calls beside this one with `repeat`. `repeatable`: whether the
    tool's effect is that.
    """
    others = base in state.ledger.elsewhere
    step = state.steps[place[0]] if state.recovery is not None or others else None
    changed = step is not None and step.healing is not None and place[1] in step.healing.overrides
    before = _made_before(state, base, place, step) if step is not None and not changed else None
    if before is not None:
        state.ledger.occupy(call_key(base, before), place)
        return before
    if step is None or (not changed and step.meant == 1 and not others):
        return state.ledger.occurrence(base, place)
    meant = step.meant
    only_answered = changed and is_only_answered(step, place[1])
    if not changed and is_meant_again(step.step, place[1].action_id):
        return _once_more(state, base, place, step, one_of_several)
    if repeatable and state.ledger.overwritten(base):
        return _once_more(state, base, place, step, lambda: False)

    goes_on = meant in state.continued

    def done(other: Place) -> bool:
        known = state.steps.get(other[0])
        call = known.calls.get(other[1]) if known is not None else None
        if known is None or call is None or call.status == "failed" or base_of(call.key) != base:
            return False
        if call.status != "succeeded" and call.effect == "reads":
            return False  # under way: another like reading does no harm
        if only_answered:
            return True
        if changed and call.effect != "reads" and _meant_both(state, place, other):
            return False
        if goes_on and not changed and call.effect == "once" and known.meant < meant:
            # one plan with the parts before: a second like call is refused, not answered; but a list may name again what is done, and
            # what is told of that is answered with it
            listed = place[1].item is not None or _goes_by_what_was_answered(state, step)
            return listed and not after_an_effect(state, step)
        return changed or known.meant < meant

    return state.ledger.later_occurrence(base, place, done, None if changed else place[0])


def after_an_effect(state: State, step: StepState) -> bool:
    """True if the step comes after an effect of its own part, for which its calls may be meant once more."""
    before = (state.steps.get(name) for name in state.graph().upstream(step.step.step_id))
    return any(
        call.effect != "reads" and not call.reused
        for one in before
        if one is not None and one.meant == step.meant
        for call in one.calls.values()
    )


def _goes_by_what_was_answered(state: State, step: StepState) -> bool:
    """True if it refers to effects of its own part, which was all done before."""
    heads = {ref.head for ref in references_of(step.step)}
    named = [state.named(head) for head in sorted(heads)]
    calls = [
        call
        for one in named
        if one is not None and one.meant == step.meant
        for call in one.calls.values()
        if call.effect != "reads"
    ]
    return bool(calls) and all(call.reused for call in calls)


def _meant_both(state: State, one: Place, other: Place) -> bool:
    """True if the plan means what both of these do: two items of a list, or two calls that say `repeat`."""
    if (one[0], one[1].action_id) == (other[0], other[1].action_id):
        return True
    return all(is_meant_again(state.steps[name].step, slot.action_id) for name, slot in (one, other))


def _made_before(state: State, base: str, place: Place, step: StepState) -> int | None:
    """The number of this very call as the step has made it already, before it was due again."""
    made = [
        call
        for call in step.former or ()
        if call.status == "succeeded" and not call.reused and call.plan >= step.meant
    ]
    if not made:
        return None
    made.sort(key=lambda call: call.slot != place[1])
    theirs = state.ledger.others(base, place).items()
    taken = {number for other, number in theirs if other[0] == place[0]}
    numbers = (split_key(call.key)[1] for call in made if base_of(call.key) == base)
    return next((number for number in numbers if number not in taken), None)


def _once_more(
    state: State, base: str, place: Place, step: StepState, one_of_several: Callable[[], bool]
) -> int:
    """The occurrence of a place that says `repeat` in a later plan."""
    if doubt := next((key for key in state.in_doubt if base_of(key) == base), None):
        return split_key(doubt)[1]  # first it has to be known what that one did

    def together(other: Place) -> bool:
        known = state.steps.get(other[0])
        return known is not None and known.meant == step.meant

    number = state.ledger.once_more(base, place, together, one_of_several)
    said = state.recovery.approvals if state.recovery is not None else {}
    free = next(
        at for at in count(number) if (one := said.get(call_key(base, at))) is None or one.parameters is None
    )
    if free != number:  # a person has made another call of that one, and was not asked about this one
        state.ledger.occupy(call_key(base, free), place)
    return free


def twin(state: State, base: str, number: int, place: Place) -> Place | None:
    """Another step or action of the plan that makes this very call too, and has begun; None if there is none.

    Items of one step are no twins, nor are calls that share a number: one stands for the other.
    """
    for other, theirs in state.ledger.others(base, place).items():
        step = state.steps.get(other[0])
        if step is None or _of_one_list(other, place) or theirs == number:
            continue
        call = step.calls.get(other[1])
        begun = call is not None and base_of(call.key) == base and call.status != "failed"
        if begun or _is_asked_for(state, call_key(base, theirs)):
            return other
    return None


def planned_twin(state: State, bases: Collection[str], place: Place) -> Place | None:
    """Another step or action of the plan that was to make the same call as this one, where recovery has since put other words in place of the
    one or the other: what that has had stands for both. None if there is none. `bases`: every name of this call.
    """
    step = state.steps.get(place[0])
    if step is None or not state.failures:
        return None
    if step.healing is not None and place[1] in step.healing.overrides:
        tries = step.healing.failures(place[1])
        planned = tries[0].base if tries else ""
        for other in state.ledger.others(planned, place) if planned else ():
            by = state.steps.get(other[0])
            call = by.calls.get(other[1]) if by is not None and not _of_one_list(other, place) else None
            if call is not None and base_of(call.key) == planned and call.status != "failed":
                return other
        return None
    found = state.mended(bases, step.meant + 1)
    if found is None or found[0] is step or found[0].step.step_id not in state.steps:
        return None
    return found[0].step.step_id, found[1].slot


def _of_one_list(one: Place, other: Place) -> bool:
    return (one[0], one[1].action_id) == (other[0], other[1].action_id)


def _is_asked_for(state: State, key: CallKey) -> bool:
    """True if a person was asked for this call, and has not said no."""
    known = state.recovery
    if known is None or key not in known.asked:
        return False
    said = known.approvals.get(key)
    return said is None or said.approved


def is_only_answered(step: StepState, slot: Slot) -> bool:
    """True if the call was not made since its effect is had, and recovery has put what is done in its place: it is answered with that."""
    mine = step.healing
    latest = mine.latest(slot) if mine is not None and slot in mine.overrides else None
    return latest is not None and latest.error.kind in DONE_ALREADY


def is_meant_again(step: Step, action_id: ActionId | None) -> bool:
    """True if the plan says that this call is meant again."""
    return step.repeat or any(action.repeat for action in step.actions if action.action_id == action_id)
