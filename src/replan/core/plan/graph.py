"""A plan as a graph: who needs whom, in which order, and how far each step is from the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from replan.core.types import Plan, StepId


@dataclass(slots=True)
class Graph:
    """The dependencies of a checked plan, both ways. Every walk is iterative and linear."""

    order: tuple[StepId, ...]
    """Plan order."""
    needs: Mapping[StepId, tuple[StepId, ...]]
    needed_by: dict[StepId, list[StepId]] = field(default_factory=dict)
    _layers: list[list[StepId]] | None = None
    _places: dict[StepId, int] | None = None

    @classmethod
    def of(cls, plan: Plan) -> Graph:
        known = {step.step_id for step in plan.steps}
        needs = {s.step_id: tuple(d for d in s.dependencies if d in known) for s in plan.steps}
        return cls.from_needs(needs)

    @classmethod
    def from_needs(cls, needs: Mapping[StepId, Sequence[StepId]]) -> Graph:
        graph = cls(tuple(needs), {step: tuple(wanted) for step, wanted in needs.items()})
        graph.needed_by = {step: [] for step in needs}
        for step, wanted in needs.items():
            for one in wanted:
                graph.needed_by[one].append(step)
        return graph

    def cycle(self) -> list[StepId]:
        """One cycle, first step repeated at the end; empty if there is none."""
        left = self._unordered()
        if not left:
            return []
        at = next(step for step in self.order if step in left)
        path: list[StepId] = []
        seen: dict[StepId, int] = {}
        while at not in seen:
            seen[at] = len(path)
            path.append(at)
            at = next(one for one in self.needs[at] if one in left)
        circle = path[seen[at] :]
        circle.reverse()
        return [*circle, circle[0]]

    def _unordered(self) -> set[StepId]:
        waiting = {step: len(self.needs[step]) for step in self.order}
        ready = [step for step, count in waiting.items() if not count]
        while ready:
            for dependent in self.needed_by[ready.pop()]:
                waiting[dependent] -= 1
                if not waiting[dependent]:
                    ready.append(dependent)
        return {step for step, count in waiting.items() if count}

    def topological(self) -> list[StepId]:
        """Every step after what it needs; plan order among equals. Needs a graph without cycles."""
        return [step for layer in self.layers() for step in layer]

    def places(self) -> Mapping[StepId, int]:
        """Where each step stands in that order."""
        if self._places is None:
            self._places = {step: at for at, step in enumerate(self.topological())}
        return self._places

    def layers(self) -> list[list[StepId]]:
        """Topological generations, for showing: execution does not wait for them."""
        if self._layers is None:
            self._layers = self._in_layers()
        return self._layers

    def _in_layers(self) -> list[list[StepId]]:
        waiting = {step: len(self.needs[step]) for step in self.order}
        layer = [step for step in self.order if not waiting[step]]
        out: list[list[StepId]] = []
        while layer:
            out.append(layer)
            following: list[StepId] = []
            for step in layer:
                for dependent in self.needed_by[step]:
                    waiting[dependent] -= 1
                    if not waiting[dependent]:
                        following.append(dependent)
            layer = following
        return out

    def distance_to_end(self, weight: Mapping[StepId, float] | None = None) -> dict[StepId, float]:
        """The longest path from each step to the end, itself included; each step weighs 1 unless told."""
        distance = dict.fromkeys(self.order, 0.0)
        for step in reversed(self.topological()):
            distance[step] += 1.0 if weight is None else weight.get(step, 1.0)
            mine = distance[step]
            for need in self.needs[step]:
                if distance[need] < mine:
                    distance[need] = mine
        return distance

    def final(self) -> list[StepId]:
        """The steps that nothing needs, in plan order."""
        return [step for step in self.order if not self.needed_by[step]]

    def downstream(
        self, starts: Iterable[StepId], *, past: Callable[[StepId], bool] | None = None
    ) -> list[StepId]:
        """Everything that needs one of these, however far, each once. `past`: whether to go on beyond a step; unless told, always."""
        seen: dict[StepId, None] = {}
        stack = list(starts)
        while stack:
            for dependent in self.needed_by.get(stack.pop(), ()):
                if dependent not in seen:
                    seen[dependent] = None
                    if past is None or past(dependent):
                        stack.append(dependent)
        return list(seen)

    def upstream(self, step: StepId) -> list[StepId]:
        """Everything that this one needs, however far, each once."""
        seen: dict[StepId, None] = {}
        stack = [step]
        while stack:
            for need in self.needs.get(stack.pop(), ()):
                if need not in seen:
                    seen[need] = None
                    stack.append(need)
        return list(seen)

    def is_chain(self) -> bool:
        """True if no two steps can overlap."""
        return len(self.layers()) == len(self.order)
