"""How a judge accounts for the effects that were planned and not had, and what code allows of that."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from replan.core.evaluation.undone import LeftOut, Undone
from replan.core.report.explain import step_words
from replan.core.types import LeftOutEffect, StepId


class Claim(NamedTuple):
    """What a judge says of the effects that a step was to have and has not had."""

    made_good_by: tuple[StepId, ...] = ()
    not_needed: str = ""
    in_one: str = ""
    """Why fewer effects of the steps that made them good are as many."""

    def and_also(self, more: Claim) -> Claim:
        """What is said in two places of one step."""
        return Claim(
            tuple(dict.fromkeys(self.made_good_by + more.made_good_by)),
            _both(self.not_needed, more.not_needed),
            _both(self.in_one, more.in_one),
        )


def _both(one: str, other: str) -> str:
    return "; ".join(dict.fromkeys(filter(None, (one, other))))


def accounted(left: LeftOut, claims: Mapping[StepId, Claim]) -> tuple[LeftOutEffect, ...]:
    """The effects among them as the judge accounts for each: only an effect makes good an effect.

    It is one that came later, or that the step itself has had by another tool, and it makes good one only, unless the judge says
    why it is several in one. Each step that is named has to make good one, and all of them together as many as are missing, but for those
    that are not needed. Of what the judge says nothing at all, the word of a plan counts for the step that stands for it, or the reason for which a
    reflection left out this very step.
    """
    said = {one.step.step.step_id: (one, _claim(one, claims)) for one in left.undone if one.effect}
    refused = _Free(left).refused(list(said.values()))
    return tuple(
        LeftOutEffect(
            step_id=name,
            what=one.what,
            made_good_by="" if no or not claim.made_good_by else claim.made_good_by[0],
            and_by=() if no else claim.made_good_by[1:],
            not_needed="" if claim.made_good_by and (no or not rest) else claim.not_needed,
            in_one=claim.in_one if claim.made_good_by and not no else "",
            refused=no,
            stand_in=one.stand_in,
            allowed=one.allowed,
        )
        for (name, (one, claim)), (no, rest) in zip(said.items(), refused, strict=True)
    )


def _claim(one: Undone, claims: Mapping[StepId, Claim]) -> Claim:
    """What is said of the step, and of those of earlier plans that are without the same."""
    found = [claims[name] for name in (one.step.step.step_id, *one.also) if name in claims]
    if not found:
        return Claim(one.instead) if one.instead else Claim(not_needed=one.reason)
    claim = found[0]
    for more in found[1:]:
        claim = claim.and_also(more)
    return claim


class _Free:
    """The effects that stand for nothing yet, as they are given to what they make good."""

    def __init__(self, left: LeftOut) -> None:
        self._left = left
        self._free = {name: list(versions) for name, versions in left.free.items()}

    def refused(self, said: list[tuple[Undone, Claim]]) -> list[tuple[str, bool]]:
        """Of each, why what is named does not make it good, empty if it does; and whether some of it needs another reason.

        First each step that is named gives one effect. Those for whom the fewest are named take the rest of theirs before the others do.
        """
        found = [("", False)] * len(said)
        owed = [0] * len(said)
        by_word = {
            at
            for at, (one, claim) in enumerate(said)
            if one.instead and set(claim.made_good_by) == set(one.instead)
        }
        for at in by_word:  # what stands for it is counted already
            one, count = said[at][0], len(said[at][0].lost)
            for name in one.instead:
                count -= self._take(one, name, count)
        for at, (one, claim) in enumerate(said):
            if at in by_word:
                continue
            reason = next(filter(None, (self._refused(one, name, claim) for name in claim.made_good_by)), "")
            found[at] = (reason, False)
            if claim.made_good_by and not reason:
                given = sum(self._take(one, name, 1) for name in claim.made_good_by)
                owed[at] = len(one.lost) - given
        for at in sorted(range(len(said)), key=lambda at: len(said[at][1].made_good_by)):
            one, claim = said[at]
            for name in claim.made_good_by:
                owed[at] -= self._take(one, name, owed[at])
            if owed[at] > 0 and not claim.in_one:
                found[at] = ("", True) if claim.not_needed else (self._too_few(one, claim), False)
        return found

    def _take(self, one: Undone, name: StepId, count: int) -> int:
        """Take at most so many effects of the step, the earliest first; how many there were."""
        free = self._free.get(name, [])
        first = bisect_left(free, _from(one, name))
        given = min(max(0, count), len(free) - first)
        del free[first : first + given]
        return given

    def _refused(self, one: Undone, name: StepId, claim: Claim) -> str:
        """Why the step makes nothing good; empty if it may."""
        step = self._left.steps.get(name)
        if step is None:
            return f"there is no step {name!r}"
        if not self._left.own.get(name):
            return f"{step_words(step)} has had no effect of its own"
        if not _usable(self._left.own, one, name):
            return f"{step_words(step)} was there before, for something else"
        if _usable(self._free, one, name) or claim.in_one:
            return ""
        return f"{step_words(step)} has made good another one already; {_SEVERAL}"

    def _too_few(self, one: Undone, claim: Claim) -> str:
        steps = [step_words(self._left.steps[name]) for name in claim.made_good_by]
        had = sum(_usable(self._left.own, one, name) for name in claim.made_good_by)
        missing = (
            f"had {had} effects, and {len(one.lost)} are missing here"
            if had < len(one.lost)
            else "made good another one already"
        )
        return f"{' and '.join(steps)} {'has' if len(steps) == 1 else 'have'} {missing}; {_SEVERAL}"


_SEVERAL = "name each step that has had one of them in a list; if its one effect really is several of them, say in in_one how"


def _usable(effects: Mapping[StepId, list[int]], one: Undone, name: StepId) -> int:
    """How many of the effects of the step came late enough."""
    came = effects.get(name, [])
    return len(came) - bisect_left(came, _from(one, name))


def _from(one: Undone, name: StepId) -> int:
    """The version of the plan from which on an effect of the step may make it good; in the step itself another tool's."""
    return 0 if one.stand_in and name == one.step.step.step_id else one.first or one.since
