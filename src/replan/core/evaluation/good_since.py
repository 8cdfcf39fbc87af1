"""What an earlier plan was without, and a later one has tried in vain once more, is had where that later one was made good, by whatever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replan.core.evaluation.effects_had import Effects, Lost
from replan.core.evaluation.undone import Undone
from replan.core.state.recovery import Recovery
from replan.core.types import StepId


def without_good_since(found: Sequence[Undone], effects: Effects, known: Recovery | None) -> list[Undone]:
    """The same without what a step of a later plan was to have, too, of which nothing is missing any more."""
    if known is None or not any(lost.bases for one in found for lost in one.lost):
        return list(found)
    good = list(_made_good(found, effects, known))
    left: list[Undone] = []
    for one in found:
        still = [lost for lost in one.lost if one.instead or not one.step.gone or not _take(lost, one, good)]
        if still or not one.lost:
            left.append(one._replace(lost=still))
    return left


def _made_good(
    found: Iterable[Undone], effects: Effects, known: Recovery
) -> Iterator[tuple[int, frozenset[str]]]:
    """Each effect that a step which was left out was without and is no more: the version that meant it, and what it is known by."""
    missing = {one.step.step.step_id for one in found if not one.instead}
    for name, step in known.dropped.items():
        if missing.isdisjoint(_line(name, known)):
            yield from ((step.meant, lost.bases) for lost in effects.lost(step) if lost.bases)


def _line(name: StepId, known: Recovery) -> set[StepId]:
    """The step, with those whose place it took and those that took its own."""
    before = {heir: old for old, heir in known.replaced.items()}
    names = {name}
    for way in (before, known.replaced):
        at = name
        while (at := way.get(at, "")) and at not in names:
            names.add(at)
    return names


def _take(lost: Lost, one: Undone, good: list[tuple[int, frozenset[str]]]) -> bool:
    """True if it is one of them; each is one only."""
    for at, (meant, bases) in enumerate(good):
        if meant >= one.step.gone and not bases.isdisjoint(lost.bases):
            del good[at]
            return True
    return False
