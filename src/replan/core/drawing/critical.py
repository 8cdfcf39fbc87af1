"""The critical path: the steps that decided, or will decide, when the plan was done."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

from replan.core.plan.graph import Graph
from replan.core.types import StepId


class Span(NamedTuple):
    """When a step was at work, as far as it has been."""

    tool: str = ""
    started: float | None = None
    ended: float | None = None
    skipped: bool = False


def critical_path(
    graph: Graph, spans: Mapping[StepId, Span], now: float, *, over: bool
) -> tuple[StepId, ...]:
    """From the step that ends last back, each time to what it waited for last; in the order in which they run.

    Steps that are still to come count with what such calls have taken so far. `over`: nothing comes any more.
    """
    ends = _ends(graph, spans, now, over=over)
    if not ends:
        return ()
    place = graph.places()

    def late(step: StepId) -> tuple[float, int]:
        """Of those that end at the same time the one that comes after the other."""
        return ends[step], place[step]

    at: StepId | None = max(ends, key=late)
    path: list[StepId] = []
    while at is not None:
        path.append(at)
        before = [need for need in graph.needs[at] if need in ends]
        at = max(before, key=late) if before else None
    path.reverse()
    return tuple(path)


def _ends(graph: Graph, spans: Mapping[StepId, Span], now: float, *, over: bool) -> dict[StepId, float]:
    """When each step has ended, or will; without those that were left out, and those that are not going to start."""
    takes = _Typical(spans)
    ends: dict[StepId, float] = {}
    for step in graph.topological():
        span = spans.get(step, Span())
        if span.skipped:
            continue
        if span.ended is not None:
            ends[step] = span.ended
        elif span.started is not None:
            ends[step] = now if over else max(now, span.started + takes(span.tool))
        elif not over:
            ready = max([now, *(ends[need] for need in graph.needs[step] if need in ends)])
            ends[step] = ready + takes(span.tool)
    return ends


class _Typical:
    """How long a call of a tool takes, by those that have ended; a second where there are none."""

    def __init__(self, spans: Mapping[StepId, Span]) -> None:
        by_tool: dict[str, list[float]] = {}
        for span in spans.values():
            if span.started is not None and span.ended is not None and not span.skipped:
                by_tool.setdefault(span.tool, []).append(max(span.ended - span.started, 0.0))
        self._secs = {tool: median(took) for tool, took in by_tool.items()}
        self._any = median([secs for took in by_tool.values() for secs in took] or [1.0])

    def __call__(self, tool: str) -> float:
        return self._secs.get(tool, self._any)
