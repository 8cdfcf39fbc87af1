"""The task's metadata as a step may see it: what stands before it in plan order, whatever finishes first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from replan.core.types import JsonObject, StepId


class Metadata:
    """What was submitted, with what finished steps have added; the later in plan order over the earlier."""

    __slots__ = ("_added", "_base", "_merged", "_places", "_positions")

    def __init__(
        self,
        submitted: JsonObject,
        earlier: Iterable[JsonObject | None],
        steps: Iterable[tuple[StepId, JsonObject | None]],
    ) -> None:
        """`earlier`: of steps that the plan has left out, which stand before all of its own."""
        self._base: JsonObject = dict(submitted)
        for one in earlier:
            self._base.update(one or {})
        self._positions: dict[StepId, int] = {}
        self._places: list[int] = []
        self._added: list[JsonObject] = []
        for at, (step_id, one) in enumerate(steps):
            self._positions[step_id] = at
            if one:
                self._places.append(at)
                self._added.append(one)
        self._merged: dict[int, JsonObject] = {}

    @property
    def all(self) -> JsonObject:
        """Everything, as it is for whoever comes after the plan."""
        return self._of(len(self._added))

    def before(self, step_id: StepId) -> JsonObject:
        """What a step sees."""
        at = self._positions.get(step_id)
        return self.all if at is None else self._of(bisect_left(self._places, at))

    def add(self, step_id: StepId, added: JsonObject) -> None:
        """The step has finished, and added this; only what comes after it changes."""
        at = self._positions[step_id]
        place = bisect_left(self._places, at)
        if self._places[place : place + 1] == [at]:
            self._added[place] = added
        else:
            self._places.insert(place, at)
            self._added.insert(place, added)
        self._merged = {count: merged for count, merged in self._merged.items() if count <= place}

    def _of(self, count: int) -> JsonObject:
        if count not in self._merged:
            known = max((one for one in self._merged if one < count), default=0)
            merged = dict(self._merged[known] if known else self._base)
            for one in self._added[known:count]:
                merged.update(one)
            if len(self._merged) >= _MOST_KEPT:
                del self._merged[min(self._merged)]
            self._merged[count] = merged
        return self._merged[count]


_MOST_KEPT = 8
