"""Effects that stand for ones that were not had by the word of a plan: `instead_of` of the step that had them.

Code checks the rest: the effect came later, is of the same tool or of one that is declared to do the same, and makes good one only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from replan.core.evaluation.effects_had import Effects, Lost
from replan.core.evaluation.undone import Undone
from replan.core.report.explain import step_words
from replan.core.state.progress import CallState, StepState
from replan.core.state.recovery import Recovery
from replan.core.types import CallKey, StepId, ToolId


class _Had(NamedTuple):
    """An effect that a step has had, or that was had in its place."""

    name: tuple[str, int]
    """Each makes good one."""
    tool_id: ToolId
    came: int
    by: StepId


def by_word(
    found: Sequence[Undone],
    effects: Effects,
    spare: Mapping[StepId, Sequence[CallState]],
    known: Recovery | None,
) -> list[Undone]:
    """The same, each with the steps that stand for all of it by the word of their plan.

    What a step was to have in place of another, and has not had either, is told of that step alone.
    """
    said: dict[StepId, list[StepState]] = {}
    for step in effects.every:
        for name in step.step.instead_of:
            said.setdefault(name, []).append(step)
    if not said:
        return list(found)
    free = {call.key for calls in spare.values() for call in calls}
    left = list(found)
    at = {one.step.step.step_id: n for n, one in enumerate(left)}
    room = {name: len(left[n].lost) for name, n in at.items()}
    """Of each step, how many effects it lacks itself that no earlier one is told with yet."""
    taken: set[tuple[str, int]] = set()
    for n in sorted(range(len(left)), key=lambda n: left[n].since, reverse=True):
        one = left[n]
        names = (one.step.step.step_id, *one.also)
        since = one.first or one.since
        later = {
            step.step.step_id: step for name in names for step in said.get(name, ()) if step.meant >= since
        }
        had = [made for step in later.values() for made in _had(step, effects, free, known)]
        by: dict[StepId, None] = {}
        still, owed = [], 0
        for lost in one.lost:
            made = next(
                (made for made in had if made.name not in taken and _fits(made, lost, since, effects)), None
            )
            other = next((name for name in later if room.get(name)), None)
            if made is not None:
                taken.add(made.name)
                by[made.by] = None
            elif other is not None:
                room[other] -= 1
                left[at[other]] = left[at[other]].told_with(one)
                continue
            else:
                owed += 1
            still.append(lost)
        left[n] = one._replace(lost=still)
        if by and not owed:
            words = " and ".join(step_words(effects.by_name[name]) for name in by)
            what = f"{one.what}; by its plan {words} stand{'s' if len(by) == 1 else ''} for it"
            left[n] = left[n]._replace(instead=tuple(by), what=what)
    return [one for one, before in zip(left, found, strict=True) if one.lost or not before.lost]


def _fits(made: _Had, lost: Lost, since: int, effects: Effects) -> bool:
    return made.came >= since and effects.by_same(lost.tool_id, made.tool_id)


def _had(
    step: StepState, effects: Effects, free: Collection[CallKey], known: Recovery | None
) -> Iterator[_Had]:
    """The effects of the step that stand for nothing else, also one that it only states again; and those of whatever took its own place."""
    for call in step.calls.values():
        if call.status == "succeeded" and call.effect != "reads":
            made = effects.origin(call)
            if made.key in free:
                yield _Had((made.key, 0), made.tool_id, effects.came(made), made.step_id)
    heirs = known.replaced if known is not None and step.gone else {}
    name = step.step.step_id
    seen, own = {name}, list[CallState]()
    while (name := heirs.get(name, "")) and name not in seen and name in effects.by_name:
        seen.add(name)
        own += [call for call in effects.own(effects.by_name[name]) if effects.came(call) >= step.gone]
    for n, call in enumerate(own[: len(effects.lost(step))] if own else ()):
        yield _Had((step.step.step_id, n), call.tool_id, effects.came(call), call.step_id)
