"""What plans were without, and a later one has had to the letter: by the very call, over another session, or by a tool that does the same.

It needs no word of a plan, and no step that took the place of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from replan.core.evaluation.effects_had import Effects, Lost
from replan.core.state.progress import CallState, StepState
from replan.core.state.recovery import Recovery
from replan.core.types import StepId, ToolId


class _Entry(NamedTuple):
    """One effect that a step was without when a later plan left it out."""

    step: StepState
    place: int
    """Which of those of the step."""
    lost: Lost

    @property
    def name(self) -> tuple[StepId, int]:
        return self.step.step.step_id, self.place


class VeryEffects:
    """The lost effects of steps that later plans left out, and which of them were had since."""

    def __init__(self, known: Recovery, effects: Effects, spare: Mapping[StepId, list[CallState]]) -> None:
        """`spare`: the effects of each step that stand for nothing yet; those that make one good are taken from it.

        The latest plan comes first: what an earlier one was without, and a later one has tried in vain once more, is one effect.
        """
        self._good: dict[tuple[StepId, int], CallState] = {}
        """By what was lost: the effect that stands for it."""
        self._in_vain: set[tuple[StepId, int]] = set()
        """Those of them that were tried in place of one which was had itself since."""
        self._lost: dict[StepId, list[Lost]] = {}
        made = _Made(effects, spare)
        tried = _Tried()
        dropped = sorted(known.dropped.values(), key=lambda step: (step.gone, step.meant), reverse=True)
        for step in dropped:
            lost = self._lost[step.step.step_id] = effects.lost(step)
            entries = [_Entry(step, place, one) for place, one in enumerate(lost) if one.bases]
            for one in entries:
                call = made.take(one)
                if call is None and (again := tried.again(one)) is not None:
                    call = self._good.get(again)
                if call is not None:
                    self._good[one.name] = call
                    effects.stand(call.key, step)
            tried.add(entries)
        made.leave()
        self._take_over(dropped, {heir: old for old, heir in known.replaced.items()}, effects)

    def _take_over(
        self, dropped: Iterable[StepState], before: Mapping[StepId, StepId], effects: Effects
    ) -> None:
        """What was tried in vain in place of another one, which was had itself after that: both are one effect."""
        for step in sorted(dropped, key=lambda step: step.meant):
            name = step.step.step_id
            places = [at for at, _ in enumerate(self._lost[name]) if (name, at) not in self._good]
            older = [*filter(None, [before.get(name)]), *step.step.instead_of] if places else []
            had = {
                call.key: call
                for old in older
                for at, _ in enumerate(self._lost.get(old, ()))
                if (call := self._good.get((old, at))) is not None and effects.came(call) >= step.gone
            }
            for call in had.values():
                lost = (at for at in places if effects.by_same(self._lost[name][at].tool_id, call.tool_id))
                if effects.may_stand_too(call.key, [step]) and (place := next(lost, None)) is not None:
                    places.remove(place)
                    self._good[name, place] = call
                    self._in_vain.add((name, place))
                    effects.stand(call.key, step)

    def left(self, step: StepState) -> list[Lost]:
        """What the step is still without."""
        name = step.step.step_id
        return [
            lost for place, lost in enumerate(self._lost.get(name, ())) if (name, place) not in self._good
        ]

    def had(self, step: StepState) -> int:
        """How many of those that the step was without were had since, themselves."""
        name = step.step.step_id
        return self.good(step) - sum(
            (name, place) in self._in_vain for place, _ in enumerate(self._lost.get(name, ()))
        )

    def good(self, step: StepState) -> int:
        """How many of them nobody is without any more."""
        return len(self._lost.get(step.step.step_id, ())) - len(self.left(step))


class _Tried:
    """What later plans have tried in vain, each for one that was lost before."""

    def __init__(self) -> None:
        self._at: dict[str, list[_Entry]] = {}
        """By what calls of one effect have in common."""
        self._taken: set[tuple[StepId, int]] = set()

    def add(self, entries: Iterable[_Entry]) -> None:
        for one in entries:
            for name in one.lost.bases:
                self._at.setdefault(name, []).append(one)

    def again(self, one: _Entry) -> tuple[StepId, int] | None:
        """Which of them this one is: of the plans after its own the first."""
        found = (
            other
            for name in one.lost.bases
            for other in self._at.get(name, ())
            if other.step.meant >= one.step.gone and other.name not in self._taken
        )
        first = min(found, key=lambda other: (other.step.gone, other.place), default=None)
        if first is None:
            return None
        self._taken.add(first.name)
        return first.name


class _Made:
    """The effects that stand for no other, by what calls of one effect have in common."""

    def __init__(self, effects: Effects, spare: Mapping[StepId, list[CallState]]) -> None:
        self._effects = effects
        self._spare = spare
        self._at: dict[str, list[tuple[int, CallState]]] = {}
        self._of_tool: dict[ToolId, list[tuple[int, CallState]]] = {}
        self._taken: set[int] = set()
        self._calls = [call for calls in spare.values() for call in calls]
        for place, call in enumerate(self._calls):
            self._of_tool.setdefault(call.tool_id, []).append((place, call))
            for name in effects.names_of(call):
                self._at.setdefault(name, []).append((place, call))

    def take(self, one: _Entry) -> CallState | None:
        """Take the first that came after the plan of the lost one."""
        same = [made for name in one.lost.bases for made in self._at.get(name, ())]
        place = self._first(same, one)
        if place is None:
            others = self._effects.counterparts(one.lost.tool_id)
            made = [made for tool in others for made in self._of_tool.get(tool, ())]
            place = self._first(
                [(at, call) for at, call in made if self._effects.does_it(one.lost, call)], one
            )
        if place is None:
            return None
        self._taken.add(place)
        return self._calls[place]

    def _first(self, made: Iterable[tuple[int, CallState]], one: _Entry) -> int | None:
        later = (at for at, call in made if self._effects.came(call) >= one.step.gone)
        return min((at for at in later if at not in self._taken), default=None)

    def leave(self) -> None:
        """Leave those that were not taken."""
        place = 0
        for calls in self._spare.values():
            count = len(calls)
            calls[:] = [call for at, call in enumerate(calls, place) if at not in self._taken]
            place += count
