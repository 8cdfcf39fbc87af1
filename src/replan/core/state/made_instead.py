"""Failed `once` calls, and what was made instead: in their own step by recovery, or by plans that left them out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from replan.core.calls.site import Place
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


Plans = tuple[int, ...]
"""Versions of the plan, the earliest first."""


@dataclass(slots=True)
class Tries:
    """The tries of what nothing tells apart."""

    calls: list[CallState] = field(default_factory=list)
    plans: Plans = ()
    """Those that have tried it."""
    by: dict[int, set[Place]] = field(default_factory=dict)
    """Where each of them has."""
    planned: set[int] = field(default_factory=set)
    """Those that have meant it themselves: in the others recovery has put it in place of something else."""

    def add(self, call: CallState) -> None:
        self.calls.append(call)
        if not self.plans or self.plans[-1] != call.plan:
            self.plans = (*self.plans, call.plan)
        self.by.setdefault(call.plan, set()).add((call.step_id, call.slot))
        if not call.mended:
            self.planned.add(call.plan)

    def is_beside(self, other: Tries, until: int) -> bool:
        """True if one plan up to this one has meant both: where it is only what recovery has tried in place of the other one, it has not."""
        shared = (version for version in self.plans if version <= until and version in other.by)
        return any(version in self.planned or not self.by[version] <= other.by[version] for version in shared)


_Found = tuple[int, CallState, Tries]


@dataclass(slots=True)
class _Later:
    """The calls of later plans that may be in place of failed ones of one plan, in their order, each with its place."""

    seen: int = 0
    for_any: dict[Plans, list[_Found]] = field(default_factory=dict)
    """By the plans that had tried what they call."""
    for_one: dict[StepId, dict[Plans, list[_Found]]] = field(default_factory=dict)
    mends: dict[Place, list[tuple[StepId | None, _Found]]] = field(default_factory=dict)
    """Those that recovery had tried before, by where; with the step that they are for, None: any."""


def takes_effect(call: CallState) -> bool:
    """True if it has had its effect, or may have."""
    return call.status in _TAKES_EFFECT


def _latest(calls: Sequence[_Found], before: int, counts: Callable[[CallState], bool]) -> _Found | None:
    """The latest of those that count of a plan before this version."""
    until = bisect_left(calls, before, key=lambda one: one[1].plan)
    return next((calls[at] for at in range(until - 1, -1, -1) if counts(calls[at][1])), None)


@dataclass(slots=True)
class MadeInstead:
    """What came after a failed call of one tool; it keeps what it has found of them."""

    _seen: int = 0
    _latest: dict[str, CallState] = field(default_factory=dict)
    """By what is called: the latest try."""
    _tool: ToolSpec | None = None
    """By whose word calls are told apart here, as far as that is known; else each content is another one."""
    _told: int = 0
    _tries: dict[str, Tries] = field(default_factory=dict)
    """By what tells it from others."""
    _made: list[tuple[CallState, Plans, Tries]] = field(default_factory=list)
    """The calls; the plans that had tried what they call, their own included."""
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
        tries: Tries,
        before: int,
        whom: Callable[[CallState, int], Collection[StepId] | None],
        as_of: AsOf,
        tool: ToolSpec | None,
        counts: Callable[[CallState], bool] = takes_effect,
    ) -> CallState | None:
        """The latest effect of a plan after that of the failed call, and before this version, that no plan has meant beside it.

        `tries`: those of the failed call. `whom`: for the calls of which failed steps of a plan such a call may be there; None: of any.
        `counts`: which calls are looked for.
        `as_of`: as long as it is the same, so is that. `tool`: None, where the tool of the calls is not known.
        """
        self._tell(made, tool)
        if as_of != self._as_of:
            self._as_of, self._for = as_of, {}
        known = self._for.setdefault(failed.plan, _Later())
        self._look(known, failed.plan, whom)
        found = [
            _latest(calls, before, counts)
            for groups in (known.for_any, known.for_one.get(failed.step_id, {}))
            for plans, calls in groups.items()
            if tries.by.keys().isdisjoint(plans)
        ]
        for place in {place for places in tries.by.values() for place in places}:
            mends = [
                one
                for name, one in known.mends.get(place, ())
                if name in (None, failed.step_id) and not one[2].is_beside(tries, one[1].plan)
            ]
            found.append(_latest(mends, before, counts))
        latest = max(filter(None, found), key=itemgetter(0), default=None)
        return None if latest is None else latest[1]

    def _look(
        self, known: _Later, version: int, whom: Callable[[CallState, int], Collection[StepId] | None]
    ) -> None:
        """Put the calls that have come since then to those of which a plan may have them in their place."""
        for at in range(known.seen, len(self._made)):
            call, plans, tries = self._made[at]
            names = whom(call, version) if call.plan > version else ()
            one = at, call, tries
            if names is None:
                known.for_any.setdefault(plans, []).append(one)
            for name in names or ():
                known.for_one.setdefault(name, {}).setdefault(plans, []).append(one)
            for tried in plans if names is None or names else ():
                for place in () if tried in tries.planned else tries.by[tried]:
                    mends = known.mends.setdefault(place, [])
                    mends += [(name, one) for name in ([None] if names is None else names)]
        known.seen = len(self._made)

    def tried_last(
        self, made: Sequence[CallState], failed: CallState, before: int, tool: ToolSpec | None
    ) -> CallState:
        """The latest try of what this call has failed at before this version: a plan that tries it again does not leave it out."""
        tries = self.tries_of(made, failed, tool).calls
        at = bisect_left(tries, before, key=lambda one: one.plan) - 1
        return tries[at] if at >= 0 and tries[at].plan > failed.plan else failed

    def tries_of(self, made: Sequence[CallState], call: CallState, tool: ToolSpec | None) -> Tries:
        """All tries of what this call is one of."""
        self._tell(made, tool)
        return self._tries.get(self._text(call)) or Tries()

    def _learn(self, made: Sequence[CallState]) -> None:
        for call in made[self._seen :]:
            self._latest[base_of(call.key)] = call
        self._seen = len(made)

    def _tell(self, made: Sequence[CallState], tool: ToolSpec | None) -> None:
        if tool is not None and tool is not self._tool:
            self._tool, self._told, self._as_of = tool, 0, None
            self._tries, self._made = {}, []
        for call in made[self._told :]:
            tries = self._tries.setdefault(self._text(call), Tries())
            tries.add(call)
            self._made.append((call, tries.plans, tries))
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
