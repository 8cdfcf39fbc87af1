"""What was planned and not done: steps of earlier plans that no later step has made up for, and effects that a stand-in has not had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replan.core.calls.verify import scalars
from replan.core.report.explain import step_words
from replan.core.state.progress import CallState, Slot, StepState
from replan.core.state.task import State
from replan.core.types import LeftOutEffect, StepId, ToolId

NOT_LOST = frozenset({"repeated", "duplicate"})
"""Faults of calls that were not made because the same effect was meant, and had, elsewhere."""
HasEffect = Callable[[ToolId], bool]
"""True if the tool has an effect, or may have one."""


class Undone(NamedTuple):
    """A step that was planned, and in whose place nothing was done."""

    step: StepState
    effect: bool
    """It was to have an effect; else it was to read."""
    since: int
    """The version of the plan from which on something may make up for it."""
    what: str
    """What became of it, in words."""
    reason: str = ""
    """Why a reflection has left out this very step, where one has."""


def undone(state: State, has_effect: HasEffect) -> list[Undone]:
    """Every step that a later plan left out without its having succeeded, and that no step has made up for; those that
    succeeded, or were rewritten so that they are skipped, without the effect that they were for; and those of the plan that were
    to have one, and never ran because of what failed before them.

    What its own condition has skipped, as it was planned, is none of them.
    """
    known = state.recovery
    if known is None:
        return []
    never = [
        Undone(step, True, step.born + 1, _never_ran(step))
        for step in state.steps.values()
        if step.status == "skipped" and not _moot(step) and _wants_effect(step, has_effect)
    ]
    skipped = {note.plan_version: note.reason for note in known.rounds if note.strategy == "skip_steps"}
    gone = [
        Undone(step, _wants_effect(step, has_effect), step.gone, _left(step), skipped.get(step.gone, ""))
        for name, step in known.dropped.items()
        if not _moot(step) and not _made_up(state, name, has_effect)
    ]
    steps = (*state.earlier.values(), *state.steps.values())
    stood_in = [
        Undone(step, True, step.born + 1, _stood_in(step))
        for step in steps
        if (step.status == "succeeded" or (step.status == "skipped" and _moot(step)))
        and _lost(state, step, has_effect)
    ]
    return gone + never + stood_in


def not_had(state: State, left: Sequence[Undone], has_effect: HasEffect) -> list[Undone]:
    """Those of them that no later call of the same tool has made good, as far as code can tell: one that stands for no other, and
    was made with something that the lost one was to be made with."""
    free = Counter({step.step.step_id: _own_effects(state, step) for step in _every(state)})
    free -= _spoken_for(state, has_effect)
    return [one for one in left if not (one.effect and _made_good(state, one, free))]


def _made_good(state: State, one: Undone, free: Counter[StepId]) -> bool:
    lost = [call for call in one.step.calls.values() if call.status == "failed" and call.effect != "reads"]
    wanted = [(call.tool_id, set(scalars(call.parameters))) for call in lost]
    if not wanted:
        return False
    taken: Counter[StepId] = Counter()
    for tool_id, values in wanted:
        by = next(
            (
                step.step.step_id
                for step in _every(state)
                if step.born >= one.since
                and free[step.step.step_id] > taken[step.step.step_id]
                and any(
                    call.tool_id == tool_id
                    and call.status == "succeeded"
                    and not _is_anothers(state, call)
                    and values & set(scalars(call.parameters))
                    for call in step.calls.values()
                )
            ),
            None,
        )
        if by is None:
            return False
        taken[by] += 1
    free -= taken
    return True


class Claim(NamedTuple):
    """What a judge says of an effect that was planned and not had."""

    made_good_by: StepId = ""
    not_needed: str = ""


def accounted(
    state: State, left: Sequence[Undone], claims: Mapping[StepId, Claim], has_effect: HasEffect
) -> tuple[LeftOutEffect, ...]:
    """The effects among them as the judge accounts for each: only an effect makes good an effect.

    It is one that came later, of its own place, and it makes good one only. Of what the judge says nothing at all, the reason
    counts for which a reflection left out this very step; or an effect that is left is taken to stand in its place.
    """
    lost = [one for one in left if one.effect]
    own = Counter({step.step.step_id: _own_effects(state, step) for step in _every(state)})
    free = own - _spoken_for(state, has_effect)
    found: dict[StepId, LeftOutEffect] = {}
    for one in sorted(lost, key=lambda one: one.step.step.step_id not in claims):
        name = one.step.step.step_id
        claim = claims.get(name)
        if claim is None:
            claim = Claim(not_needed=one.reason) if one.reason else Claim(_stand_in(state, one, free))
        refused = _refused(state, one, claim.made_good_by, free) if claim.made_good_by else ""
        if claim.made_good_by and not refused:
            free[claim.made_good_by] -= 1
        found[name] = LeftOutEffect(
            step_id=name,
            what=one.what,
            made_good_by="" if refused else claim.made_good_by,
            not_needed="" if claim.made_good_by else claim.not_needed,
            refused=refused,
        )
    return tuple(found[name] for name in dict.fromkeys(one.step.step.step_id for one in lost))


def _stand_in(state: State, one: Undone, free: Mapping[StepId, int]) -> StepId:
    """A step that came later and has had an effect of its own that stands for no other; empty if there is none."""
    later = (step.step.step_id for step in _every(state) if step.born >= one.since)
    return next((name for name in later if free.get(name, 0) > 0), "")


def _refused(state: State, one: Undone, name: StepId, free: Mapping[StepId, int]) -> str:
    """Why this step does not make good an effect that was not had; empty if it does."""
    step = next((each for each in _every(state) if each.step.step_id == name), None)
    if step is None:
        return f"there is no step {name!r}"
    if not _own_effects(state, step):
        return f"{step_words(step)} has had no effect of its own"
    if step.born < one.since:
        return f"{step_words(step)} was there before, for something else"
    return "" if free.get(name, 0) > 0 else f"{step_words(step)} has made good another one already"


def _every(state: State) -> Iterator[StepState]:
    return iter((*state.earlier.values(), *state.steps.values()))


def _own_effects(state: State, step: StepState) -> int:
    return sum(
        call.status == "succeeded" and call.effect != "reads" and not _is_anothers(state, call)
        for call in step.calls.values()
    )


def _spoken_for(state: State, has_effect: HasEffect) -> Counter[StepId]:
    """How many effects of a step stand for those of steps whose place it has taken."""
    known = state.recovery
    if known is None:
        return Counter()
    return Counter(
        by
        for name, by in known.replaced.items()
        if name in known.dropped
        and _wants_effect(known.dropped[name], has_effect)
        and _made_up(state, name, has_effect)
    )


def _left(step: StepState) -> str:
    """A step of an earlier plan that nothing made up for, in words."""
    why = f": {step.fault.message}" if step.fault is not None else ""
    return f"{step_words(step)} of an earlier plan {step.status}{why}, and a later plan left it out"


def _never_ran(step: StepState) -> str:
    why = f": {step.skip.reason}" if step.skip is not None else ""
    return f"{step_words(step)} was to have an effect, and never ran{why}"


def _stood_in(step: StepState) -> str:
    """A step that succeeded without the effect that it was for, in words."""
    return f"{step_words(step)} was to have an effect, which failed, and what was done in its place has none"


def called_or_planned(step: StepState) -> list[ToolId]:
    """The tools that the step has called; those that it is planned with where it has called none."""
    called = [call.tool_id for call in step.calls.values()]
    planned = [step.step.tool] if step.step.tool else [action.tool for action in step.step.actions]
    return list(dict.fromkeys(called or planned))


def _wants_effect(step: StepState, has_effect: HasEffect) -> bool:
    """True if the step was to have an effect."""
    return any(has_effect(name) for name in called_or_planned(step)) or any(
        call.effect != "reads" for call in step.calls.values()
    )


def _moot(step: StepState) -> bool:
    """True if it was not to run: its own condition did not hold, or what it needs was skipped so."""
    return step.skip is not None and step.skip.kind in ("condition", "dependency_skipped")


def _made_up(state: State, name: StepId, has_effect: HasEffect) -> bool:
    """True if the step that took its place, or the one that took that one's, has succeeded; with an effect of its own,
    where one is wanted."""
    replaced = state.recovery.replaced if state.recovery is not None else {}
    dropped = state.recovery.dropped.get(name) if state.recovery is not None else None
    wanted = _failed_effect(state, name) or (
        dropped is not None and not dropped.calls and _wants_effect(dropped, has_effect)
    )
    seen: set[StepId] = set()
    first = name
    while (other := replaced.get(name)) is not None and other not in seen:
        seen.add(other)
        step = state.steps.get(other) or state.earlier.get(other)
        if step is not None and step.status == "succeeded":
            return not wanted or _has_own_effect(state, step, first)
        name = other
    return False


def _failed_effect(state: State, name: StepId) -> bool:
    """True if a call of this step that should have had an effect has failed, and nobody else has had it."""
    step = state.steps.get(name) or state.earlier.get(name)
    if step is None and state.recovery is not None:
        step = state.recovery.dropped.get(name)
    return step is not None and any(
        call.effect != "reads"
        and call.status == "failed"
        and (call.fault is None or call.fault.kind not in NOT_LOST)
        for call in step.calls.values()
    )


def _has_own_effect(state: State, step: StepState, name: StepId) -> bool:
    """True if the step that took the place of `name` has had an effect that is not merely that of another step, or one that came
    with it and took nobody else's place."""
    replaced = state.recovery.replaced if state.recovery is not None else {}
    others = {by for left, by in replaced.items() if left != name and by != step.step.step_id}
    return any(
        call.status == "succeeded" and call.effect != "reads" and not _is_anothers(state, call)
        for one in (step, *state.steps.values())
        if one.born == step.born and one.step.step_id not in others
        for call in one.calls.values()
    )


def _is_anothers(state: State, call: CallState) -> bool:
    """True if nothing was called here: the output is that of a call which another place has made, and stands for."""
    return call.reused and any(
        other.key == call.key and not other.reused and other.status == "succeeded"
        for step in (*state.earlier.values(), *state.steps.values())
        for other in step.calls.values()
    )


def _mended_before(step: StepState, slot: Slot, call: CallState) -> bool:
    """True if this place had its effect before the step was written anew, and keeps it."""
    return call.reused and any(
        one.slot == slot and one.key == call.key and one.status == "succeeded" and not one.reused
        for one in step.former or ()
    )


def _lost(state: State, step: StepState, has_effect: HasEffect) -> bool:
    mine = step.healing
    if mine is None:
        return False
    wanted = {
        slot
        for slot in mine.slots()
        if any(has_effect(one.tool_id) and one.error.kind not in NOT_LOST for one in mine.failures(slot))
    }
    had = {
        slot: call
        for slot, call in step.calls.items()
        if call.status == "succeeded"
        and call.effect != "reads"
        and not (slot in wanted and _is_anothers(state, call))
    }
    if mine.repairs == mine.repairs_before:
        return any(slot.item is None or slot.item not in step.left_out for slot in wanted - had.keys())
    wanted -= {slot for slot, call in had.items() if _mended_before(step, slot, call)}
    anew = {slot for slot, call in had.items() if call.plan >= step.born and not call.reused}
    return len(wanted - anew) > len(anew - wanted)
