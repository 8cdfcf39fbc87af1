"""The time axis that the bars of all steps share: it grows in jumps, so that between two of them no bar moves."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field

from rich.cells import cell_len

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_ROUND = (
    1.0, 2.0, 5.0, 10.0, 20.0, 30.0,
    *(_MINUTE * many for many in (1, 2, 5, 10, 20, 30)),
    *(_HOUR * many for many in (1, 2, 4, 6, 12)),
)  # fmt: skip
"""Lengths that an axis has, and distances between its marks; beyond, days."""
_BETWEEN = 3
"""Cells between two marks, at the least."""


@dataclass(slots=True)
class Pauses:
    """Times in which nobody drove the task: they take no room on the axis."""

    _ends: list[float] = field(default_factory=list)
    _begins: list[float] = field(default_factory=list)
    _before: list[float] = field(default_factory=list)

    def add(self, begin: float, end: float) -> None:
        """One more, after all others."""
        self._before.append(self._before[-1] + self._ends[-1] - self._begins[-1] if self._ends else 0.0)
        self._begins.append(begin)
        self._ends.append(end)

    def without(self, ts: float) -> float:
        """The time of that moment on a clock that stands still in them."""
        at = bisect_right(self._begins, ts) - 1
        if at < 0:
            return ts
        return ts - self._before[at] - (min(ts, self._ends[at]) - self._begins[at])


@dataclass(frozen=True, slots=True)
class Axis:
    """So many cells, for the time from `begin` on; all times are those of a clock that stands still in pauses."""

    begin: float
    span: float
    cells: int

    @classmethod
    def of(cls, begin: float, end: float, cells: int) -> Axis:
        """The shortest round length that reaches from one to the other."""
        return cls(begin, _reaching(end - begin), max(cells, 1))

    def cell(self, ts: float) -> int:
        """In which cell that moment lies."""
        return min(max(int((ts - self.begin) / self.span * self.cells), 0), self.cells - 1)

    def bar(self, start: float, end: float) -> tuple[int, int]:
        """In which cell it begins, and how many it has: one at the least."""
        first = self.cell(start)
        after = math.ceil((end - self.begin) / self.span * self.cells - 1e-9)
        return first, min(max(after, first + 1), self.cells) - first

    def marks(self, tick: str) -> str:
        """Times under which they stand, as many as have room: `|0 s   |2 s`."""
        every = next((each for each in _ROUND if self._fits(each, tick)), self.span)
        line = ""
        at = 0
        while at * every < self.span - 1e-9:
            place = round(at * every / self.span * self.cells)
            label = tick + _label(at * every, every)
            if place < cell_len(line) or place + cell_len(label) > self.cells:
                break
            line += " " * (place - cell_len(line)) + label
            at += 1
        return line + " " * (self.cells - cell_len(line))

    def _fits(self, every: float, tick: str) -> bool:
        widest = cell_len(tick + _label(self.span, every)) + _BETWEEN
        return every <= self.span and every / self.span * self.cells >= widest


def _reaching(secs: float) -> float:
    for each in _ROUND:
        if secs <= each:
            return each
    days = math.ceil(secs / _DAY)
    power: int = 10 ** (len(str(days)) - 1)
    return _DAY * next(many * power for many in (1, 2, 5, 10) if days <= many * power)


def _label(secs: float, every: float) -> str:
    """`0 s`, `90 s` between seconds, `2 min`, `36 h`, `3 d`."""
    for unit, length in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if every >= length:
            return f"{secs / length:.0f} {unit}"
    return f"{secs:.0f} s"
