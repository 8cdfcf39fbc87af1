"""How a judge accounts for the effects that were planned and not had, and what code allows of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from replan.core.evaluation.left_out import LeftOut, Undone
from replan.core.report.explain import step_words
from replan.core.types import LeftOutEffect, StepId


class Claim(NamedTuple):
    """What a judge says of an effect that was planned and not had."""

    made_good_by: StepId = ""
    not_needed: str = ""
    in_one: str = ""
    """Why the one effect of the step that made it good is that of several."""


def accounted(left: LeftOut, claims: Mapping[StepId, Claim]) -> tuple[LeftOutEffect, ...]:
    """The effects among them as the judge accounts for each: only an effect makes good an effect.

    It is one that came later, or that the step itself has had by another tool, and it makes good one only, unless the judge says
    why it is several in one. Of what the judge says nothing at all, the reason counts for which a reflection left out this very
    step.
    """
    free = {name: list(versions) for name, versions in left.free.items()}
    found: dict[StepId, LeftOutEffect] = {}
    for one in left.undone:
        if not one.effect:
            continue
        name = one.step.step.step_id
        said = next(filter(claims.__contains__, (name, *one.also)), name)
        claim = claims.get(said, Claim(not_needed=one.reason))
        refused = _refused(left, one, claim, free) if claim.made_good_by else ""
        if claim.made_good_by and not refused:
            usable = _since(free, one, claim.made_good_by)
            for version in usable[: len(one.lost)]:
                free[claim.made_good_by].remove(version)
        found[name] = LeftOutEffect(
            step_id=name,
            what=one.what,
            made_good_by="" if refused else claim.made_good_by,
            not_needed="" if claim.made_good_by else claim.not_needed,
            in_one=claim.in_one if claim.made_good_by and not refused else "",
            refused=refused,
            stand_in=one.stand_in,
            allowed=one.allowed,
        )
    return tuple(found.values())


def _since(effects: Mapping[StepId, list[int]], one: Undone, name: StepId) -> list[int]:
    """Those among the effects of the step that came late enough, or in the step itself by another tool."""
    itself = one.stand_in and name == one.step.step.step_id
    since = 0 if itself else one.first or one.since
    return [version for version in effects.get(name, ()) if version >= since]


def _refused(left: LeftOut, one: Undone, claim: Claim, free: Mapping[StepId, list[int]]) -> str:
    """Why the step that is named does not make good the effects that were not had; empty if it does."""
    name = claim.made_good_by
    step = left.steps.get(name)
    if step is None:
        return f"there is no step {name!r}"
    if not left.own.get(name):
        return f"{step_words(step)} has had no effect of its own"
    had = len(_since(left.own, one, name))
    if not had:
        return f"{step_words(step)} was there before, for something else"
    if len(_since(free, one, name)) >= len(one.lost) or claim.in_one:
        return ""
    missing = (
        f"has had {had} effects, and {len(one.lost)} are missing here"
        if had < len(one.lost)
        else "has made good another one already"
    )
    return f"{step_words(step)} {missing}; if its one effect really is several of them, say in in_one how"
