"""What was planned and not done: steps of earlier plans that no later step has made up for, and effects that a stand-in has not had."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from replan.core.evaluation.by_word import by_word
from replan.core.evaluation.effects_had import Effects, Lost, Resolve
from replan.core.evaluation.good_since import without_good_since
from replan.core.evaluation.own_places import has_lost
from replan.core.evaluation.stand_ins import by_other_tools, in_words
from replan.core.evaluation.undone import LeftOut, Undone
from replan.core.evaluation.very_effects import VeryEffects
from replan.core.failures.faults import is_had_elsewhere
from replan.core.recovery.reasons import is_a_reason
from replan.core.report.explain import never_ran, step_words, without_items
from replan.core.state.progress import CallState, StepState
from replan.core.state.recovery import Recovery
from replan.core.state.task import State
from replan.core.types import StepId, ToolId
from replan.core.words import some


def left_out(state: State, resolve: Resolve) -> LeftOut:
    """Every step that a later plan left out without its having succeeded, and that no step has made up for; those that
    succeeded, or were rewritten so that they are skipped, without the effect that they were for, or with that of another tool in its
    place; those whose plan lets them do without items that failed; and those of the plan that were to have one, and never ran because of what failed before them,
    or since the task ends before they are done.

    What its own condition has skipped, as it was planned, is none of them, nor is one whose place such a step has taken, or one
    with an empty list, unless the effect itself has failed, or was planned without a condition or for a list that names its items:
    what a later plan adds is no condition of its own. Effects are counted by call: one makes good one, the very call that a later
    plan makes in vain once more is one that was not had, and what was had before the plan stands for nothing of it. The effect of
    another step counts without a word where it is of the same tool, or of one that is declared to do the same, and was made with
    something that the lost one was to be made with, or came with the very plan that left that one out.
    """
    effects, known = Effects(state, resolve), state.recovery
    of_steps = list(_of_steps(effects, state))
    if known is None and not of_steps:  # as most rounds: nothing has to be made good
        return LeftOut([], {}, effects.by_name, {})
    spare = {name: effects.own(step) for name, step in effects.by_name.items()}
    own = _versions(spare, effects)
    found = [*(_gone(known, effects, spare) if known is not None else ()), *of_steps]
    announced = known.after_more if known is not None else frozenset[int]()
    found = by_word(_by_like_calls(_once_each(found), effects, spare, announced), effects, spare, known)
    found = without_good_since(found, effects, known)
    found = [_unsaid(one, effects, spare) if one.step.gone in announced else one for one in found]
    return LeftOut(found, _versions(spare, effects), effects.by_name, own)


def _versions(calls: Mapping[StepId, list[CallState]], effects: Effects) -> dict[StepId, list[int]]:
    return {name: sorted(map(effects.came, made)) for name, made in calls.items() if made}


def _once_each(found: Sequence[Undone]) -> list[Undone]:
    """What an earlier plan was without, and a later one has tried in vain once more, is told of the later step alone."""
    left = list(found)
    at: dict[str, list[int]] = {}
    """By what was tried, the steps of later plans that are without it."""
    for n, one in enumerate(left):
        for base in {base for lost in one.lost for base in lost.bases}:
            at.setdefault(base, []).append(n)
    taken: set[tuple[int, int]] = set()
    for n in sorted(range(len(left)), key=lambda n: left[n].since):
        one = left[n]
        still: list[Lost] = []
        for lost in one.lost:
            later = _tried_again(lost, one, left, at, taken)
            if later is None:
                still.append(lost)
                continue
            taken.add(later)
            left[later[0]] = left[later[0]].told_with(one)
        left[n] = left[n]._replace(lost=still)
    return [one for one, before in zip(left, found, strict=True) if one.lost or not before.lost]


def _tried_again(
    lost: Lost, one: Undone, left: Sequence[Undone], at: Mapping[str, list[int]], taken: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """Which effect of which step of a later plan this one is."""
    if not one.step.gone:
        return None
    later = {n for base in lost.bases for n in at[base] if left[n].step.meant >= one.step.gone}
    for n in sorted(later, key=lambda n: left[n].since):
        for place, other in enumerate(left[n].lost):
            if (n, place) not in taken and not lost.bases.isdisjoint(other.bases):
                return n, place
    return None


def _gone(known: Recovery, effects: Effects, spare: Mapping[StepId, list[CallState]]) -> Iterator[Undone]:
    """What later plans left out, each with what the steps that took its place, one after the other, have not made up for."""
    skipped = {
        note.plan_version: note.why
        for note in known.rounds
        if note.strategy == "skip_steps" and is_a_reason(note.why)
    }
    very = VeryEffects(known, effects, spare)
    heirs = set(known.replaced.values())
    for first in [name for name in known.dropped if name not in heirs]:
        line = _line(known, first, effects)
        owed: list[Lost] = []
        failed = firm = False
        since = line[0].gone if line else 0
        for at, step in enumerate(line):
            had = spare[step.step.step_id]
            # what was there before had its effect for itself
            made = _for_owed([call for call in had if effects.came(call) >= since], owed, line[:at], effects)
            owed = owed[
                len(made) + very.had(step) :
            ]  # what it was to have in place of those was had elsewhere
            had[:] = [call for call in had if not any(call is one for one in made)]
            for call in made:
                effects.stand(call.key, *line[:at])
            failed = failed or _failed_effect(step) or has_lost(step, effects)
            if _nothing_to_do(step) and not failed and not firm:
                owed = []
            elif step.step.step_id in known.dropped:
                lost = very.left(step)
                firm = firm or (bool(lost) and effects.is_firm(step))
                owed = max(lost, owed, key=len)
        end = line[-1]
        done = end.status == "succeeded" or (end.status == "skipped" and end.moot)
        if end.step.step_id not in known.dropped:
            if not done:
                continue  # it says itself what became of it
            owed = owed[has_lost(end, effects) :]
        if owed or not (done or very.good(end)):
            last = [step for step in line if step.step.step_id in known.dropped][-1]
            yield Undone(last, owed, last.gone, _left(last, end, added=firm), skipped.get(last.gone, ""))


def _for_owed(
    had: Sequence[CallState], owed: Sequence[Lost], before: Sequence[StepState], effects: Effects
) -> list[CallState]:
    """What a step has had in place of what the steps before it were to have. What these have not made since it was had elsewhere is owed by
    nobody: what the step has of that stands for it, and for nothing that is owed of another tool."""
    refused = [
        call.tool_id for step in before for call in step.calls.values() if is_had_elsewhere(call.fault)
    ]
    if not refused:
        return list(had[: len(owed)])
    found: list[CallState] = []
    for call in had:
        is_owed = any(effects.by_same(lost.tool_id, call.tool_id) for lost in owed)
        other = (
            None if is_owed else next((one for one in refused if effects.by_same(one, call.tool_id)), None)
        )
        if other is None:
            found.append(call)
        else:
            refused.remove(other)
    return found[: len(owed)]


def _line(known: Recovery, first: StepId, effects: Effects) -> list[StepState]:
    """The step, and those that took its place, one after the other."""
    names = [first]
    while (heir := known.replaced.get(names[-1])) is not None and heir not in names:
        names.append(heir)
    return [effects.by_name[name] for name in names if name in effects.by_name]


def _of_steps(effects: Effects, state: State) -> Iterator[Undone]:
    """Steps that stand in the plan, or stood there and are done, without the effect that they were for."""
    for step in state.steps.values():
        if step.was_left and (lost := effects.lost(step)):
            yield Undone(step, lost, step.meant + 1, never_ran(step))
    for step in (*state.earlier.values(), *state.steps.values()):
        if step.healing is None and step.items is None:  # it has done all that it was for, or nothing
            continue
        if (step.status == "succeeded" or (step.status == "skipped" and step.moot)) and has_lost(
            step, effects
        ):
            yield Undone(step, effects.failed(step), step.meant + 1, _stood_in(step))
        elif step.status == "succeeded" and (replaced := by_other_tools(step, effects)):
            what = in_words(step, replaced, effects)
            if failed := effects.of_items(step):
                replaced, what = [*replaced, *failed], f"{what}; {without_items(step)}"
            yield Undone(step, replaced, step.meant + 1, what, stand_in=True)
        elif failed := effects.of_items(step):
            yield Undone(step, failed, step.meant + 1, without_items(step), allowed=True)


def _by_like_calls(
    found: Sequence[Undone],
    effects: Effects,
    spare: Mapping[StepId, list[CallState]],
    announced: frozenset[int],
) -> list[Undone]:
    """What is left where each effect of the same tool that stands for no other stands for one that is like it.

    For one of a plan that had left more to be planned (`announced`: those after it) none does: another may be that.
    """
    left = list(found)
    made = _Spare(effects, spare)
    for alike in (True, False):
        for n, one in enumerate(left):
            if one.step.gone not in announced:
                owed = [lost for lost in one.lost if not made.take(lost, one, alike=alike)]
                left[n] = one._replace(lost=owed)
    made.leave()
    return [one for one, before in zip(left, found, strict=True) if one.lost or not before.lost]


class _Spare:
    """The effects that stand for no other, found by the values that they were made with, their tools and the plans of their steps."""

    def __init__(self, effects: Effects, spare: Mapping[StepId, list[CallState]]) -> None:
        self._effects = effects
        self._spare = spare
        self._taken: set[int] = set()
        self._at: dict[tuple[str | None, ToolId, int], deque[int]] = {}
        self._tools: dict[ToolId, None] = {}
        self._same: dict[ToolId, list[ToolId]] = {}
        """By the tool that was planned: those that have had its effect."""
        self._plans: set[int] = set()
        self._calls = [call for calls in spare.values() for call in calls]
        place = 0
        for calls in spare.values():
            for call in calls:
                plan = effects.came(call)
                self._plans.add(plan)
                self._tools[call.tool_id] = None
                for value in (None, *Lost.of(call.tool_id, call.parameters).values):
                    self._at.setdefault((value, call.tool_id, plan), deque()).append(place)
                place += 1

    def take(self, lost: Lost, one: Undone, *, alike: bool) -> bool:
        """Take the first effect that may stand for the lost one; with `alike` one that shares a value with it."""
        if (tools := self._same.get(lost.tool_id)) is None:
            tools = [tool for tool in self._tools if self._effects.by_same(lost.tool_id, tool)]
            self._same[lost.tool_id] = tools
        plans = [plan for plan in self._plans if plan >= one.since and (alike or plan == one.step.gone)]
        values = lost.values if alike else (None,)
        found = [self._first(key) for key in product(values, tools, plans)]
        place = min((one for one in found if one is not None), default=None)
        if place is not None:
            self._taken.add(place)
            self._effects.stand(self._calls[place].key, one.step)
        return place is not None

    def _first(self, key: tuple[str | None, ToolId, int]) -> int | None:
        places = self._at.get(key)
        while places and places[0] in self._taken:
            places.popleft()
        return places[0] if places else None

    def leave(self) -> None:
        """Leave those that were not taken."""
        place = 0
        for calls in self._spare.values():
            count = len(calls)
            calls[:] = [call for at, call in enumerate(calls, place) if at not in self._taken]
            place += count


def _unsaid(one: Undone, effects: Effects, spare: Mapping[StepId, list[CallState]]) -> Undone:
    """With the effects of the same tool that no plan says are in its place, where only a word can tell."""
    if one.instead or not one.effect:
        return one
    since, tools = one.first or one.since, {lost.tool_id for lost in one.lost}
    like = [
        step_words(effects.by_name[name])
        for name, calls in spare.items()
        if any(
            effects.came(call) >= since and any(effects.by_same(tool, call.tool_id) for tool in tools)
            for call in calls
        )
    ]
    if not like:
        return one
    return one._replace(
        unsaid=f"no plan says that {some(like, 3, between=' or ')} stands for it (`instead_of`)"
    )


def _left(step: StepState, end: StepState, *, added: bool) -> str:
    """A step of an earlier plan that nothing made up for, in words. `added`: it was to be done whatever turns out."""
    why = f": {step.fault.message}" if step.fault is not None else ""
    what = f"{step_words(step)} of an earlier plan {step.status}{why}"
    if end is step:
        return f"{what}, and a later plan left it out"
    became = "was skipped" if end.moot else "has not done it"
    if added and _nothing_to_do(end):
        became = f"{'was skipped by a condition' if end.moot else 'had an empty list'}, which was not planned at first"
    return f"{what}, and {step_words(end)}, which took its place, {became}"


def _stood_in(step: StepState) -> str:
    """A step that succeeded without the effect that it was for, in words."""
    return f"{step_words(step)} was to have an effect, which failed, and what was done in its place has none"


def _nothing_to_do(step: StepState) -> bool:
    """True if its condition did not hold, or its list was empty."""
    return step.moot or (step.status == "succeeded" and step.items == 0)


def _failed_effect(step: StepState) -> bool:
    """True if a call of this step that should have had an effect has failed, and nobody else has had it."""
    return any(
        call.effect != "reads" and call.status in ("failed", "unknown") and not is_had_elsewhere(call.fault)
        for call in step.calls.values()
    )
