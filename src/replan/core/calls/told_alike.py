"""Calls of tools that do the very same thing, held against each other by what they are told.

Of each counts what tells its own calls apart (`core.calls.telling`). Parameters of one name mean the same thing, with the default for one that is
left out. Those that only one of two tools has say nothing, but where each requires some: then they are named otherwise (`to`, `recipient`), and it
is their values that are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain, combinations
from typing import Any, NamedTuple
from unicodedata import normalize

from replan.core.calls.telling import Telling
from replan.core.data.canonical import one_form
from replan.core.ids import canonical, digest
from replan.core.memo import ByIdentity
from replan.core.secrets import holds_lost, is_mask, reveal_known
from replan.core.types import JsonObject, ToolSpec
from replan.core.walk import every

_MOST = 1_000
"""Calls that one is held against, the latest first, where no parameter of the same name finds them."""
_MOST_TOKENS = 8
"""Values of one call that are looked up in every combination."""
_SHORT = 200
_UNKNOWN = ""
"""Stands for a value that cannot be seen any more: it may be any."""
_NOTHING = "-"
"""Stands for what is left out, or null."""
_NONE: Sequence[int] = ()
_telling = ByIdentity[Telling](Telling.of)


class Told(NamedTuple):
    """What one call is told."""

    names: frozenset[str]
    """Those parameters of its tool that tell its calls apart."""
    required: frozenset[str]
    values: JsonObject
    """In their one form, defaults included."""
    keys: dict[str, str]
    """By name: what is the same for the same value."""
    given: frozenset[str]
    """Those that are not left to their default."""
    open: frozenset[str] = frozenset()
    """Those that are given something which is not known yet."""

    @classmethod
    def of(cls, tool: ToolSpec | None, parameters: JsonObject, open_: Iterable[str] = ()) -> Told:
        """A call of this tool; None: it is not here any more. `open_`: parameters that have a value which is not known yet."""
        parameters = reveal_known(parameters)
        if tool is None:
            names = frozenset(parameters)
            return cls(names, names, parameters, _keys(parameters), names)
        telling, top = _telling(tool), {*parameters, *open_}
        values = telling.parts(one_form(tool.parameters, parameters))
        names = frozenset(tool.unique_by) or frozenset(tool.parameters.get("properties", ())) | top
        names -= telling.silent

        def among(tops: Iterable[str]) -> frozenset[str]:
            return frozenset(name for name in names if name.partition(".")[0] in tops)

        given = {name for name in parameters if parameters[name] is not None}
        needed = {*tool.parameters.get("required", ())}
        return cls(names, among(needed), values, _keys(values), among(given), among({*open_}))

    def differing(self, other: Told) -> frozenset[str]:
        """What both are told, and not the same."""
        told = self._in_both(other)
        return frozenset(
            name for name in told if name in self.open or not _same(self._key(name), other._key(name))
        )

    def is_like(self, other: Told, but_for: Collection[str] = ()) -> bool:
        """True if nothing that both are told tells them apart, `but_for` these."""
        if not self.differing(other).issubset(but_for):
            return False
        weak = not any(isinstance(self.values.get(name), str) for name in self._in_both(other))
        mine, theirs = self._own(other, weak=weak), other._own(self, weak=weak)
        if not (mine and theirs):
            return True
        return self.open.isdisjoint(mine) and _in_common(self.tokens(mine), other.tokens(theirs))

    def _in_both(self, other: Told) -> list[str]:
        given = self.given | self.open | other.given
        return [name for name in self.names & other.names if name in given]

    def _key(self, name: str) -> str:
        return self.keys.get(name, _NOTHING)

    def _own(self, other: Told, *, weak: bool) -> frozenset[str]:
        """The parameters that the other's tool lacks, as far as they tell which call it is. `weak`: what both have says little."""
        needed = self.required - other.names
        return needed or ((self.given | self.open) - other.names if weak else frozenset())

    def tokens(self, names: Iterable[str]) -> frozenset[str]:
        """What the values of these tell whatever they are called: their texts, or their numbers where they have none."""
        values = [one for name in names for one in every(self.values.get(name))]
        plain = [one for one in values if isinstance(one, str | int | float) and not isinstance(one, bool)]
        return frozenset(map(_key, [one for one in plain if isinstance(one, str)] or plain))


def _same(one: str, other: str) -> bool:
    return one == other or _UNKNOWN in (one, other)


def _in_common(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    """True if the one has all of the other."""
    return mine <= theirs or theirs <= mine or _UNKNOWN in mine | theirs


def _keys(values: JsonObject) -> dict[str, str]:
    return {name: _key(value) for name, value in values.items()}


def _key(value: Any) -> str:
    if value is None:
        return _NOTHING
    if holds_lost(value) or (isinstance(value, str) and is_mask(value)):
        return _UNKNOWN
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"={Decimal(str(value)).normalize():f}"
    if isinstance(value, str) and len(value) <= _SHORT:
        return f"={normalize('NFC', value)}"
    return digest(canonical(value))


@dataclass(slots=True)
class _ByTokens:
    """Calls by what they require that another tool lacks."""

    lacking: frozenset[str]
    """All parameters of that tool."""
    count: int = 0
    _with: dict[str, list[int]] = field(default_factory=dict)
    _just: dict[frozenset[str], list[int]] = field(default_factory=dict)
    _any: list[int] = field(default_factory=list)
    """Those that may be any."""

    def learn(self, told: Sequence[Told]) -> None:
        for at in range(self.count, len(told)):
            tokens = told[at].tokens(told[at].required - self.lacking)
            if not tokens or _UNKNOWN in tokens:
                self._any.append(at)
            for one in tokens:
                self._with.setdefault(one, []).append(at)
            self._just.setdefault(tokens, []).append(at)
        self.count = len(told)

    def like(self, tokens: frozenset[str]) -> set[int]:
        """Those that have all of these, or none but these."""
        fewest = min((self._with.get(one, []) for one in tokens), key=lambda calls: len(calls))
        some = (combinations(tokens, count) for count in range(1, len(tokens) + 1))
        parts = map(frozenset, chain.from_iterable(some))
        return {*self._any, *fewest, *chain.from_iterable(self._just.get(one, ()) for one in parts)}


@dataclass(slots=True)
class CallsTold:
    """The calls of one tool by what they are told, in their order; it keeps what it has found of them."""

    _told: list[Told] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _by: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _by_tokens: dict[frozenset[str], _ByTokens] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self._told)

    def learn(self, tool: ToolSpec | None, since: Iterable[JsonObject]) -> None:
        """Go through the calls that were made since, by their parameters."""
        for told in (Told.of(tool, parameters) for parameters in since):
            for name in told.names:
                self._by.setdefault((name, told._key(name)), []).append(len(self._told))
            self._names |= told.names
            self._told.append(told)

    def like(self, call: Told, but_for: Collection[str] = ()) -> Iterator[tuple[int, Told]]:
        """Those that nothing tells from this one, the latest first; `but_for`: these may differ."""
        looked_at = self._by_own(call)
        if looked_at is None:
            looked_at = self._by_names(call, but_for)
        found_there = ((at, self._told[at]) for at in sorted(looked_at, reverse=True))
        return ((at, told) for at, told in found_there if call.is_like(told, but_for))

    def _by_names(self, call: Told, but_for: Collection[str]) -> Iterable[int]:
        """Those that have the value of one parameter which the fewest have; the latest of all, where it has none of theirs."""
        telling = (call.given & self._names).difference(call.open, but_for)
        known = [name for name in telling if call.keys[name] != _UNKNOWN]
        found = [[self._by.get((name, key), _NONE) for key in (call.keys[name], _UNKNOWN)] for name in known]
        fewest = min(found, key=lambda lists: sum(map(len, lists)), default=None)
        return range(max(0, self.count - _MOST), self.count) if fewest is None else chain(*fewest)

    def _by_own(self, call: Told) -> Iterable[int] | None:
        """Those that require the same by other names; None where one of the two tools has no such parameter."""
        first = self._told[0] if self._told else None
        if first is None or len(first.names) < len(self._names):
            return None  # they are not all told by the same names
        mine = call.required - first.names
        if not mine or not first.required - call.names:
            return None
        tokens = call.tokens(mine)
        if not call.open.isdisjoint(mine):
            return ()
        if not tokens or _UNKNOWN in tokens or len(tokens) > _MOST_TOKENS:
            return None
        index = self._by_tokens.setdefault(call.names, _ByTokens(call.names))
        index.learn(self._told)
        return index.like(tokens)
