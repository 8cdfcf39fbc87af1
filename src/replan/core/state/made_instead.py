"""Failed `once` calls, and what was made instead: in their own step by recovery, or by plans that left them out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from replan.core.ids import base_of
from replan.core.state.progress import CallState, StepState
from replan.core.words import beginning, text_of

_SHOWN = 160
"""Characters of a failure, or of parameters, in a hint."""
_TAKES_EFFECT = ("succeeded", "unknown")


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


@dataclass(slots=True)
class MadeInstead:
    """What came after a failed call of one tool; it keeps what it has found of them."""

    _seen: int = 0
    _latest: dict[str, CallState] = field(default_factory=dict)
    """By what is called: the latest try."""
    _first: dict[str, int] = field(default_factory=dict)
    """By what is called: the version of the plan that called it first."""
    _new: list[CallState] = field(default_factory=list)
    """The calls that no plan before theirs has tried."""

    def failed(self, made: Sequence[CallState], bases: Collection[str]) -> CallState | None:
        """The latest try of one of these contents, if it has failed. `made`: the tool's calls in their order."""
        self._learn(made)
        tries = (self._latest[base] for base in bases if base in self._latest)
        latest = max(tries, key=lambda one: one.plan, default=None)
        return latest if latest is not None and latest.status == "failed" else None

    def new(
        self,
        made: Sequence[CallState],
        failed: CallState,
        before: int,
        may_be_for: Callable[[CallState, CallState], bool],
    ) -> CallState | None:
        """The latest effect of a plan after that of the failed call, and before this version, that none before has tried.

        `may_be_for`: whether such a call may be in place of the failed one.
        """
        self._learn(made)
        for call in reversed(self._new):
            if call.plan <= failed.plan:
                return None
            if call.plan < before and call.status in _TAKES_EFFECT and may_be_for(call, failed):
                return call
        return None

    def _learn(self, made: Sequence[CallState]) -> None:
        for call in made[self._seen :]:
            base = base_of(call.key)
            self._latest[base] = call
            if self._first.setdefault(base, call.plan) == call.plan:
                self._new.append(call)
        self._seen = len(made)


def told_mended(step: StepState, call: CallState, bases: Collection[str], *, stands: bool) -> str:
    """Asks what is meant by a call that failed, and was made in other words in its step. `stands`: the plan still has that step."""
    failures = step.healing.failures() if step.healing is not None else ()
    failed = next(one for one in failures if one.base in bases)
    go_on = (
        "" if stands else "write it as it was made to go on with it, "
    )  # else its effect comes twice, or not at all
    return (
        f"step {call.step_id!r} has meant this very call of {failed.tool_id!r} already, which failed "
        f"({beginning(failed.error.message, _SHOWN)}) and was made as {call.tool_id} "
        f"{beginning(text_of(call.parameters), _SHOWN)} in its place: leave it out if that is the effect that is wanted, "
        f"{go_on}or say `repeat: true` if another one is meant"
    )


def told_instead(failed: CallState, instead: CallState) -> str:
    """Asks what is meant by a call that failed, after a later plan has had another effect of its tool."""
    why = f" ({beginning(failed.fault.message, _SHOWN)})" if failed.fault is not None else ""
    return (
        f"step {failed.step_id!r} has meant this very call of {failed.tool_id!r} already, which failed{why}; since then step "
        f"{instead.step_id!r} of a later plan has called it with {beginning(text_of(instead.parameters), _SHOWN)}: say `repeat: true`, with "
        "its `repeat_reason`, if it is still wanted beside that; if that was made in its place, leave it out"
    )
