"""The lines beside the rows of a graph in text: each lane leads down to a step that waits for what stands above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from replan.core.plan.graph import Graph


class Row(NamedTuple):
    """A row of a step, or of lines alone."""

    lanes: str
    step_id: str | None = None


_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = {
    0: " ", _UP | _DOWN: "│", _LEFT | _RIGHT: "─", _DOWN | _RIGHT: "╭", _DOWN | _LEFT: "╮", _UP | _RIGHT: "╰", _UP | _LEFT: "╯",
    _UP | _DOWN | _RIGHT: "├", _UP | _DOWN | _LEFT: "┤", _DOWN | _LEFT | _RIGHT: "┬", _UP | _LEFT | _RIGHT: "┴",
    _UP | _DOWN | _LEFT | _RIGHT: "┼", _UP: "│", _DOWN: "│", _LEFT: "─", _RIGHT: "─",
}  # fmt: skip
_ASCII = str.maketrans(
    {"│": "|", "─": "-", "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+", "●": "*"}
    | dict.fromkeys("╭╮╯╰", "+")
)


def without_detours(graph: Graph) -> Graph:
    """Without the edges that say no more than others do: who waits for b, which waits for a, waits for a."""
    order = graph.topological()
    bit = {step: 1 << at for at, step in enumerate(order)}
    before: dict[str, int] = {}
    needs: dict[str, list[str]] = {}
    for step in order:
        wanted = graph.needs[step]
        far = 0
        for need in wanted:
            far |= before[need]
        needs[step] = [need for need in dict.fromkeys(wanted) if not far & bit[need]]
        for need in wanted:
            far |= bit[need]
        before[step] = far
    return Graph.from_needs({step: needs[step] for step in order})


def rows(graph: Graph, *, ascii_only: bool = False) -> list[Row]:
    """Every step after all that it waits for, as near to these as can be."""
    found = [*_rows(graph)]
    return [Row(row.lanes.translate(_ASCII), row.step_id) for row in found] if ascii_only else found


def _rows(graph: Graph) -> Iterator[Row]:
    lanes: list[str | None] = []
    ended = -1  # the lane of a step just above that nothing waits for: what stands below it is not to look as if it did
    for step in _deep_first(graph):
        mine = [at for at, leads_to in enumerate(lanes) if leads_to == step]
        at = mine[0] if mine else _free(lanes, ended)
        cells = [_UP | _DOWN if leads_to is not None else 0 for leads_to in lanes]
        gaps = [0] * len(cells)
        cells[at] = _UP if mine else 0
        for other in mine[1:]:  # they come together here
            _across(cells, gaps, at, other)
            cells[other] = (cells[other] & ~_DOWN) | _UP
            lanes[other] = None
        yield Row(_written(cells, gaps, at), step)
        yield from _split(lanes, at, graph.needed_by[step])
        ended = -1 if graph.needed_by[step] else at
        while lanes and lanes[-1] is None:
            lanes.pop()


def _split(lanes: list[str | None], at: int, followers: list[str]) -> Iterator[Row]:
    """Lines from the step in this lane to what waits for it: one goes on down, the others go to lanes of their own."""
    lanes[at] = None
    if not followers:
        return
    there = {leads_to: lane for lane, leads_to in enumerate(lanes) if leads_to is not None}
    new = [step for step in followers if step not in there]
    old = [there[step] for step in followers if step in there]
    if new:
        lanes[at] = new[0]
    if len(new) < 2 and not old:
        return
    cells = [_UP | _DOWN if leads_to is not None else 0 for leads_to in lanes]
    cells[at] = _UP | (_DOWN if new else 0)
    gaps = [0] * len(cells)
    for lane in old:
        _across(cells, gaps, at, lane)
    for step in new[1:]:
        lane = _free(lanes)
        lanes[lane] = step
        if lane == len(cells):
            cells.append(0)
            gaps.append(0)
        _across(cells, gaps, at, lane)
        cells[lane] |= _DOWN
    yield Row(_written(cells, gaps))


def _across(cells: list[int], gaps: list[int], one: int, other: int) -> None:
    """A line between two lanes, over those between them."""
    left, right = sorted((one, other))
    cells[left] |= _RIGHT
    cells[right] |= _LEFT
    for lane in range(left, right):
        gaps[lane] = 1
        if lane > left:
            cells[lane] |= _LEFT | _RIGHT


def _written(cells: list[int], gaps: list[int], step: int | None = None) -> str:
    told = ""
    for at, cell in enumerate(cells):
        told += ("●" if at == step else _LINES[cell]) + ("─" if gaps[at] else " ")
    return told.rstrip()


def _free(lanes: list[str | None], but: int = -1) -> int:
    """A lane that leads nowhere, and is not that one; a new one where there is none."""
    for at, leads_to in enumerate(lanes):
        if leads_to is None and at != but:
            return at
    if len(lanes) == but:
        lanes.append(None)
    lanes.append(None)
    return len(lanes) - 1


def _deep_first(graph: Graph) -> Iterator[str]:
    """What a step has made possible comes right after it, so that lanes are short."""
    waiting = {step: len(graph.needs[step]) for step in graph.order}
    ready = [step for step in reversed(graph.order) if not waiting[step]]
    while ready:
        step = ready.pop()
        yield step
        free = []
        for follower in graph.needed_by[step]:
            waiting[follower] -= 1
            if not waiting[follower]:
                free.append(follower)
        ready.extend(reversed(free))
