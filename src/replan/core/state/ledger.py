"""The effect ledger: which calls have succeeded, and what may stand for a new one (specification §5).

A call is known by its key: the digest of task, tool and canonical parameters, and which of the like calls of a
plan it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain

from replan.core.calls.site import Place
from replan.core.calls.things import Things, things_of
from replan.core.ids import call_key, split_key
from replan.core.state.progress import CallState, Output
from replan.core.types import CallKey, Effect, JsonObject, StepId, ToolId, ToolSpec


@dataclass(slots=True)
class LedgerEntry:
    """A call that succeeded in this task."""

    output: Output
    effect: Effect
    effects_before: int
    """The task's count of effects when the call was started: a reading is good while it stands there."""
    round: int = 0
    at: float = 0.0
    """When it ended."""
    waits: int = 0
    """How often the task had waited for a person by then."""
    parameters: JsonObject = field(default_factory=dict)
    """What it was made with, as the log has it."""


@dataclass(slots=True)
class Deed:
    """An effect that was had, or may have been."""

    base: str
    """What was called."""
    tool_id: ToolId
    parameters: JsonObject
    sure: bool = True
    """False: the call has failed, and may have had it all the same."""
    plan: int = 1
    """The version of the plan that it was had under."""
    _things: Things | None = None

    @property
    def things(self) -> Things:
        """What it was about."""
        if self._things is None:
            self._things = things_of(self.parameters)
        return self._things

    def may_have_changed(self, other: Deed) -> bool:
        """True if what the other has set may be another now."""
        if self.tool_id == other.tool_id and same_thing(self, other):
            return True
        mine, theirs = self.things, other.things
        if self.tool_id == other.tool_id:
            return mine.meet(theirs)  # what the one has made the other may be made of
        return not mine.named or not theirs.named or mine.meet(theirs)


@dataclass(slots=True)
class Occurrences:
    """The like calls of a plan, counted from 1: each place has its number, and a freed number is given first."""

    places: dict[Place, int] = field(default_factory=dict)
    _holders: dict[int, dict[Place, None]] = field(default_factory=dict)
    """Number → the places that have it: one, unless places of several plans share it, or a log says otherwise."""
    _of_step: dict[StepId, Counter[int]] = field(default_factory=dict)
    """The numbers of each step's places."""
    _next: int = 1
    _free: list[int] = field(default_factory=list)
    """A heap of the numbers below `_next` that may be free."""

    def of(self, place: Place, done: Iterable[int] = ()) -> int:
        """The number of this place, which keeps it from here on. `done`: those that it rather stands for than for a new call."""
        number = self.places.get(place)
        if number is None:
            number = min((one for one in done if one not in self._holders), default=0) or self._lowest()
            self.occupy(place, number)
        return number

    def _lowest(self) -> int:
        while self._free:
            if (number := heappop(self._free)) not in self._holders:
                return number
        return self._next

    def occupy(self, place: Place, number: int) -> None:
        """This place has this number: the log says so."""
        known = self.places.get(place)
        if known == number:
            return
        if known is not None:
            self._drop(place)
        self.places[place] = number
        self._holders.setdefault(number, {})[place] = None
        self._of_step.setdefault(place[0], Counter())[number] += 1
        for skipped in range(self._next, min(number, self._next + _GAP)):
            heappush(self._free, skipped)
        self._next = max(self._next, number + 1)

    def shared(
        self, place: Place, with_these: Callable[[Place], bool], none_of: StepId | None = None
    ) -> int | None:
        """The lowest number whose places are all of these: this place has it too from here on. `none_of`: no place of this
        step is one of them."""
        left = self._holders.keys() - self._of_step.get(none_of or "", {}).keys()
        for number in chain([min(left)], sorted(left)) if left else ():
            if all(with_these(other) for other in self._holders[number]):
                self.occupy(place, number)
                return number
        return None

    def free(self, steps: set[StepId]) -> None:
        """These steps are no part of the plan any more."""
        for place in [place for place in self.places if place[0] in steps]:
            self._drop(place)

    def leave(self, place: Place) -> None:
        """This place is none of the like calls any more."""
        if place in self.places:
            self._drop(place)

    def _drop(self, place: Place) -> None:
        number = self.places.pop(place)
        of_step, holders = self._of_step[place[0]], self._holders[number]
        of_step[number] -= 1
        if not of_step[number]:
            del of_step[number]
        if not of_step:
            del self._of_step[place[0]]
        del holders[place]
        if not holders:
            del self._holders[number]
            heappush(self._free, number)


_LOOKED_AT = 2_000
"""Effects that are looked at for whether something was set otherwise; after more of them it may have been."""
_GAP = 100_000
"""A number from a log may be anything: no more than this many before it are counted as free."""


_NONE: frozenset[int] = frozenset()
_NOWHERE: Mapping[str, set[int]] = {}


@dataclass(slots=True)
class Ledger:
    """What the calls of a task have done so far."""

    entries: dict[CallKey, LedgerEntry] = field(default_factory=dict)
    waits: int = 0
    effects: int = 0
    """Goes up when a call that may change the world starts, and when it ends: a reading from before may be old."""
    _deeds: list[Deed] = field(default_factory=list)
    """Effects that were had, or may have been, in their order."""
    _order: dict[str, list[int]] = field(default_factory=dict, compare=False, repr=False)
    _ordered: int = field(default=0, compare=False, repr=False)
    """So many of them are in `_order`."""
    _further: dict[str, set[int]] = field(default_factory=dict)
    """By what is called: which of the like calls are done, beside the first."""
    _occurrences: dict[str, Place | Occurrences] = field(default_factory=dict)
    """By what is called: its only place, or all of them counted."""
    elsewhere: Mapping[str, set[int]] = field(default_factory=lambda: _NOWHERE, compare=False, repr=False)
    """By what is called: which of the like calls another task of the family had made, as whoever means the effect once more has learned."""

    def occurrence(self, base: str, place: Place) -> int:
        """Which of the like calls this place in the plan makes, from 1; the place keeps the number."""
        known = self._occurrences.setdefault(base, place)
        return 1 if known == place else self._many(base).of(place)

    def is_first(self, base: str, key: CallKey, place: Place) -> bool:
        """True if this place makes the call, by its first `key`, and nobody else has or will; the place keeps the number, as above."""
        return self._occurrences.setdefault(base, place) == place and key not in self.entries

    def later_occurrence(
        self, base: str, place: Place, done: Callable[[Place], bool], none_of: StepId | None = None
    ) -> int:
        """The same for a place that came with a later plan: it matches what was done before it.

        `done` says which places are, none of the step `none_of`; their numbers are shared, so that no call is made again to make
        up for something else.
        """
        if base not in self._occurrences:
            return self.occurrence(base, place)
        like = self._many(base)
        known = like.places.get(place)
        return known or like.shared(place, done, none_of) or like.of(place, self._done(base))

    def once_more(
        self, base: str, place: Place, together: Callable[[Place], bool], one_of_several: Callable[[], bool]
    ) -> int:
        """The same for a place that says `repeat` in a later plan: it means the effect beyond what is done.

        `together` says which places came with the same plan, `one_of_several` whether more of them make this call. Several have to
        say `repeat`, also where the plan only states anew what is done: so they are the effect that often in all. One
        alone need not, so it is one more.
        """
        occurrences = self._many(base)
        if (known := occurrences.places.get(place)) is not None:
            return known
        theirs = {number for other, number in occurrences.places.items() if together(other)}
        done = (self._done(base) | self.elsewhere.get(base, _NONE)) - theirs
        if not done or one_of_several():
            return occurrences.of(place, done)
        taken = done | set(occurrences.places.values())
        number = next(n for n in range(1, len(taken) + 2) if n not in taken)
        occurrences.occupy(place, number)
        return number

    def _done(self, base: str) -> set[int]:
        further = self._further.get(base, _NONE)
        return {1, *further} if call_key(base, 1) in self.entries else set(further)

    def rounds_of(self, base: str) -> set[int]:
        """The rounds in which this call has succeeded."""
        return {self.entries[call_key(base, number)].round for number in self._done(base)}

    def newest(self, base: str) -> CallKey | None:
        """The key of the like call that has succeeded last."""
        done = [
            (self.entries[key].at, number, key)
            for number in self._done(base)
            if (key := call_key(base, number))
        ]
        return max(done)[2] if done else None

    def unused(self, base: str) -> int:
        """A number that no like call has."""
        known = self._occurrences.get(base)
        places = (
            known.places.values() if isinstance(known, Occurrences) else ([1] if known is not None else [])
        )
        return 1 + max(chain(self._done(base), places), default=0)

    def first_done(self, base: str) -> int | None:
        """The lowest number of this call that has succeeded."""
        return min(self._done(base), default=None)

    def is_done(self, base: str) -> bool:
        """True if this call has succeeded, however often."""
        return call_key(base, 1) in self.entries or bool(self._done(base))

    def knows(self, base: str) -> bool:
        """True if this call was made or is meant somewhere."""
        return base in self._occurrences or call_key(base, 1) in self.entries

    def others(self, base: str, place: Place) -> dict[Place, int]:
        """The other places that mean this call, with their numbers."""
        known = self._occurrences.get(base)
        if isinstance(known, Occurrences):
            return {other: number for other, number in known.places.items() if other != place}
        return {} if known is None or known == place else {known: 1}

    def occupy(self, key: CallKey, place: Place) -> None:
        """The place makes the call of this key."""
        if key[-2:] == ".1" and self._occurrences.setdefault(key[:-2], place) == place:  # as most are
            return
        base, number = split_key(key)
        if number != 1 or self._occurrences.setdefault(base, place) != place:
            self._many(base).occupy(place, number)

    def _many(self, base: str) -> Occurrences:
        """The like calls of a base, counted: a call that is meant once has only its place."""
        known = self._occurrences.get(base)
        if not isinstance(known, Occurrences):
            like = self._occurrences[base] = Occurrences()
            if known is not None:
                like.occupy(known, 1)
            return like
        return known

    def vacate(self, key: CallKey, place: Place) -> None:
        """The place makes another call instead: its number is free, and whoever makes this very call has its key."""
        base, _ = split_key(key)
        known = self._occurrences.get(base)
        if isinstance(known, Occurrences):
            known.leave(place)
        elif known == place:
            del self._occurrences[base]

    def leave(self, place: Place) -> None:
        """The place has made no call, and may mean another one by now."""
        for base, known in list(self._occurrences.items()):
            if isinstance(known, Occurrences):
                known.leave(place)
            elif known == place:
                del self._occurrences[base]

    def free(self, steps: set[StepId]) -> None:
        """Steps that a new plan leaves out: a like call in that plan matches what they have done."""
        for base, like in list(self._occurrences.items()):
            if isinstance(like, Occurrences):
                like.free(steps)
            elif like[0] in steps:
                del self._occurrences[base]

    def touch(self, effect: Effect) -> None:
        """A call starts or ends."""
        if effect != "reads":
            self.effects += 1

    def enter(self, call: CallState, output: Output, round: int = 0) -> None:
        """The call has succeeded."""
        self.entries[call.key] = LedgerEntry(
            output, call.effect, call.effects_before, round, call.took, self.waits,
            call.parameters,
        )  # fmt: skip
        base = call.key[:-2]
        if call.key[-2:] != ".1" or not base:  # as few are
            base, number = split_key(call.key)
            if number != 1:
                self._further.setdefault(base, set()).add(number)
        if call.effect != "reads":
            self._deeds.append(Deed(base, call.tool_id, call.parameters, plan=call.plan))

    def may_have_done(self, call: CallState) -> None:
        """The call has failed, and may have had its effect all the same."""
        if call.effect != "reads":
            self._deeds.append(Deed(split_key(call.key)[0], call.tool_id, call.parameters, False, call.plan))

    @property
    def deeds(self) -> int:
        """How many calls have set something or had an effect, or may have."""
        return len(self._deeds)

    @property
    def any_deeds(self) -> bool:
        """True if some effect was had, or may have been."""
        return bool(self._deeds)

    def order(self) -> Mapping[str, Sequence[int]]:
        """By what was called: its places among all the effects that were had."""
        for at in range(self._ordered, len(self._deeds)):
            if (deed := self._deeds[at]).sure:
                self._order.setdefault(deed.base, []).append(at)
        self._ordered = len(self._deeds)
        return self._order

    def acted_since(self, alike: Collection[str], part: int) -> bool:
        """True if something else was done since one of these calls was made last, before this part of the plan."""
        earlier = (deed for deed in reversed(self._deeds) if deed.plan < part and deed.sure)
        latest = next(earlier, None)
        return latest is not None and latest.base not in alike

    def was_otherwise(self, base: str, at: int) -> bool:
        """True if what this `repeatable` call sets was not so at this place among the effects: to set it now is a change."""
        mine = self.order().get(base, ())
        before = bisect_right(mine, at) - 1
        if before < 0 or at - mine[before] > _LOOKED_AT:
            return True
        since = self._deeds[mine[before] + 1 : at + 1]
        return any(
            one.tool_id == self._deeds[mine[before]].tool_id
            and one.base != base
            and same_thing(one, self._deeds[mine[before]])
            for one in since
        )

    def overwritten(self, base: str, besides: Collection[str] = ()) -> bool:
        """True if what this `repeatable` call has set may have been changed since: to have it again is another call.

        `besides`: what is called together with it, and does not count.
        """
        for at in range(len(self._deeds) - 1, -1, -1):
            mine = self._deeds[at]
            if mine.sure and mine.base == base:
                since = (later for later in self._deeds[at + 1 :] if later.base not in besides)
                return any(later.may_have_changed(mine) for later in since)
        return False

    def reusable(self, key: CallKey, tool: ToolSpec) -> LedgerEntry | None:
        """The recorded output of this very call, if it may stand for a new one."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        if tool.waits == "question":
            return entry  # what a person has said no effect changes
        if (
            tool.effect == "reads"
            and not tool.asks_model
            and (tool.volatile or entry.effects_before != self.effects)
        ):
            return None
        return entry


def same_thing(one: Deed, other: Deed) -> bool:
    """Whether two calls of one tool that differ are about one thing: they agree in something, or there is only one to be about."""
    mine, theirs = one.parameters, other.parameters
    names = mine.keys() | theirs.keys()
    return len(names) <= 1 or any(
        mine[name] == theirs[name] or things_of({"": mine[name]}).meet(things_of({"": theirs[name]}))
        for name in mine.keys() & theirs.keys()
    )
