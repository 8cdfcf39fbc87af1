"""Failed `once` calls, and what was made instead: in their own step by recovery, or by plans that left them out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from replan.core.calls.telling import unique_text
from replan.core.ids import base_of
from replan.core.state.progress import CallState, StepState
from replan.core.types import Fault, Step, StepId, ToolSpec
from replan.core.words import beginning, text_of

_SHOWN = 160
"""Characters of a failure, or of parameters, in a hint."""
_TAKES_EFFECT = ("succeeded", "unknown")
CHANGED = Fault(category="unknown", kind="rejected", message="a person has changed it")
"""What became of a call that was asked for, and that a person wants with other parameters."""
AsOf = tuple[int, ...]
"""What changes with the plan and its steps."""


def mended(step: StepState, bases: Collection[str]) -> list[CallState]:
    """The effects that the step has had itself where a call of one of these contents had failed, or was changed by a person, by another
    call each."""
    mine = step.healing
    if mine is None or (mine.tried().isdisjoint(bases) and mine.changed.keys().isdisjoint(bases)):
        return []
    places = {slot for slot in mine.slots() if any(one.base in bases for one in mine.failures(slot))}
    places.update(mine.changed[base] for base in bases if base in mine.changed)
    # written anew, it may have other places
    anywhere = bool(places) and mine.repairs > mine.repairs_before and step.status == "succeeded"
    return [
        call
        for call in step.every_call()
        if (call.slot in places or (anywhere and call.plan >= step.born))
        and call.status in _TAKES_EFFECT
        and call.effect != "reads"
        and not call.reused
        and base_of(call.key) not in bases
    ]


class EveryStep:
    """Every step of every plan, by what it calls and by what has failed in it, as of some moment."""

    def __init__(self, as_of: AsOf, steps: Sequence[StepState]) -> None:
        self.as_of = as_of
        self._like: dict[object, list[StepState]] = {}
        self._tried: dict[str, list[tuple[int, StepState]]] = {}
        for at, one in enumerate(steps):
            self._like.setdefault(_words(one.step), []).append(one)
            mine = one.healing
            for base in mine.tried() | mine.changed.keys() if mine is not None else ():
                self._tried.setdefault(base, []).append((at, one))

    def like(self, step: Step, version: int) -> Iterator[StepId]:
        """The steps that the plan of this version had in the same words."""
        mine = step.tool, step.parameters, step.for_each, step.actions
        for one in self._like.get(_words(step), ()):
            if (
                one.born <= version
                and not 0 < one.gone <= version
                and (one.step.tool, one.step.parameters, one.step.for_each, one.step.actions) == mine
            ):
                yield one.step.step_id

    def tried(self, bases: Collection[str]) -> list[StepState]:
        """Those in which a call of one of these contents has failed, or was changed by a person, in the order of the plans."""
        found = dict(one for base in bases for one in self._tried.get(base, ()))
        return [found[at] for at in sorted(found)]


def _words(step: Step) -> object:
    """What steps have in common that are written in the same words, and hardly any others."""
    return step.tool, _hashed(step.parameters), step.for_each, tuple(one.action_id for one in step.actions)


def _hashed(value: object) -> object:
    """Equal for equal values."""
    if isinstance(value, dict):
        return frozenset((name, _hashed(item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(map(_hashed, value))
    return value


@dataclass(slots=True)
class _Later:
    """The calls of later plans that may be in place of failed ones of one plan, in their order, each with its place."""

    seen: int = 0
    for_any: list[tuple[int, CallState]] = field(default_factory=list)
    for_one: dict[StepId, list[tuple[int, CallState]]] = field(default_factory=dict)


def _latest(calls: Sequence[tuple[int, CallState]], before: int) -> tuple[int, CallState] | None:
    """The latest effect of a plan before this version."""
    until = bisect_left(calls, before, key=lambda one: one[1].plan)
    return next((calls[at] for at in range(until - 1, -1, -1) if calls[at][1].status in _TAKES_EFFECT), None)


@dataclass(slots=True)
class MadeInstead:
    """What came after a failed call of one tool; it keeps what it has found of them."""

    _seen: int = 0
    _latest: dict[str, CallState] = field(default_factory=dict)
    """By what is called: the latest try."""
    _tool: ToolSpec | None = None
    """By whose word calls are told apart here, as far as that is known; else each content is another one."""
    _told: int = 0
    _tries: dict[str, list[CallState]] = field(default_factory=dict)
    """By what tells it from others."""
    _new: list[CallState] = field(default_factory=list)
    """The calls that no plan before theirs has tried."""
    _as_of: AsOf | None = None
    _for: dict[int, _Later] = field(default_factory=dict)
    """By the version of the plan of failed calls."""

    def latest(self, made: Sequence[CallState], base: str) -> CallState | None:
        """The latest try of this content. `made`: the tool's calls in their order."""
        self._learn(made)
        return self._latest.get(base)

    def failed(self, made: Sequence[CallState], bases: Collection[str]) -> CallState | None:
        """The latest try of one of these contents, if it has failed."""
        self._learn(made)
        tries = (self._latest[base] for base in bases if base in self._latest)
        latest = max(tries, key=lambda one: one.plan, default=None)
        return latest if latest is not None and latest.status == "failed" else None

    def new(
        self,
        made: Sequence[CallState],
        failed: CallState,
        before: int,
        whom: Callable[[CallState, int], Collection[StepId] | None],
        as_of: AsOf,
        tool: ToolSpec | None,
    ) -> CallState | None:
        """The latest effect of a plan after that of the failed call, and before this version, that none before has tried.

        `whom`: for the calls of which failed steps of a plan such a call may be there; None: of any. `as_of`: as long as it is the same,
        so is that. `tool`: None, where the tool of the calls is not known.
        """
        self._tell(made, tool)
        if as_of != self._as_of:
            self._as_of, self._for = as_of, {}
        known = self._for.setdefault(failed.plan, _Later())
        for at in range(known.seen, len(self._new)):
            call = self._new[at]
            names = whom(call, failed.plan) if call.plan > failed.plan else ()
            if names is None:
                known.for_any.append((at, call))
            for name in names or ():
                known.for_one.setdefault(name, []).append((at, call))
        known.seen = len(self._new)
        found = [_latest(known.for_any, before), _latest(known.for_one.get(failed.step_id, ()), before)]
        return max(filter(None, found), key=itemgetter(0), default=(0, None))[1]

    def tried_last(
        self, made: Sequence[CallState], failed: CallState, before: int, tool: ToolSpec | None
    ) -> CallState:
        """The latest try of what this call has failed at before this version: a plan that tries it again does not leave it out."""
        self._tell(made, tool)
        tries = self._tries.get(self._text(failed), [])
        at = bisect_left(tries, before, key=lambda one: one.plan) - 1
        return tries[at] if at >= 0 and tries[at].plan > failed.plan else failed

    def _learn(self, made: Sequence[CallState]) -> None:
        for call in made[self._seen :]:
            self._latest[base_of(call.key)] = call
        self._seen = len(made)

    def _tell(self, made: Sequence[CallState], tool: ToolSpec | None) -> None:
        if tool is not None and tool is not self._tool:
            self._tool, self._told, self._as_of = tool, 0, None
            self._tries, self._new = {}, []
        for call in made[self._told :]:
            tries = self._tries.setdefault(self._text(call), [])
            tries.append(call)
            if tries[0].plan == call.plan:
                self._new.append(call)
        self._told = len(made)

    def _text(self, call: CallState) -> str:
        return base_of(call.key) if self._tool is None else unique_text(self._tool, call.parameters)


def told_mended(step: StepState, call: CallState, bases: Collection[str], *, stands: bool) -> str:
    """Asks what is meant by a call that failed, or that a person has changed, and was made in other words in its step. `stands`: the plan
    still has that step."""
    failures = step.healing.failures() if step.healing is not None else ()
    failed = next((one for one in failures if one.base in bases), None)
    tool_id = failed.tool_id if failed is not None else call.tool_id
    go_on = (
        "" if stands else "write it as it was made to go on with it, "
    )  # else its effect comes twice, or not at all
    return (
        f"step {call.step_id!r} has meant this very call of {tool_id!r} already, {what_became(failed.error if failed else CHANGED)} "
        f"and was made as {call.tool_id} "
        f"{beginning(text_of(call.parameters), _SHOWN)} in its place{doubt_of(call)}: leave it out if that is the effect that is wanted, "
        f"{go_on}or say `repeat: true` if another one is meant"
    )


def told_instead(failed: CallState, instead: CallState) -> str:
    """Asks what is meant by a call that failed, after a later plan has had another effect of its tool."""
    why = what_became(failed.fault)
    return (
        f"step {failed.step_id!r} has meant this very call of {failed.tool_id!r} already, {why}; since then step "
        f"{instead.step_id!r} of a later plan has called it with {beginning(text_of(instead.parameters), _SHOWN)}: say `repeat: true`, with "
        "its `repeat_reason`, if it is still wanted beside that; if that was made in its place, leave it out"
    )


def what_became(fault: Fault | None) -> str:
    """Why a call has had no effect."""
    if fault is CHANGED or fault == CHANGED:
        return "which a person has changed"
    return f"which failed ({beginning(fault.message, _SHOWN)})" if fault is not None else "which failed"


def doubt_of(call: CallState) -> str:
    """What is to be said of a call that may have had its effect, or is about to."""
    if call.status == "succeeded":
        return ""
    return (
        ", nobody knows whether it took effect" if call.status == "unknown" else ", which is still under way"
    )
