"""A call that failed, and was made in other words in its place: which one that was."""

from __future__ import annotations

from collections.abc import Collection

from replan.core.ids import base_of
from replan.core.state.progress import CallState, StepState


def mended(step: StepState, bases: Collection[str]) -> list[CallState]:
    """The effects that the step has had itself where a call of one of these contents had failed, by another call each."""
    mine = step.healing
    if mine is None or mine.tried().isdisjoint(bases):
        return []
    places = {slot for slot in mine.slots() if any(one.base in bases for one in mine.failures(slot))}
    # written anew, it may have other places
    anywhere = bool(places) and mine.repairs > mine.repairs_before and step.status == "succeeded"
    return [
        call
        for call in step.every_call()
        if (call.slot in places or (anywhere and call.plan >= step.born))
        and call.status == "succeeded"
        and call.effect != "reads"
        and not call.reused
        and base_of(call.key) not in bases
    ]
