"""Where the boxes of a graph stand: in layers from left to right, so that few lines cross, and none runs behind a box."""

from __future__ import annotations

from typing import NamedTuple

from replan.core.plan.graph import Graph

_SWEEPS = 6
_MOST_BENDS = 4_000
"""Beyond, lines take the straight way."""

Item = str | tuple[str, str, int]
"""A step; or the place in a layer at which the line from one to another goes past."""


class Layout(NamedTuple):
    """All in pixels from the top; columns are counted from 0."""

    boxes: dict[str, tuple[int, int]]
    """Column and upper edge of each step."""
    bends: dict[tuple[str, str], list[tuple[int, int]]]
    """Of a line over several layers: columns, and at which height it goes past there."""
    columns: int
    height: int


def layout(graph: Graph, *, high: int, gap: int, line: int) -> Layout:
    """`high`: a box. `gap`: between two of them. `line`: what a line that goes past takes of a layer."""
    layers, before, behind = _with_bends(graph)
    _order(layers, before, behind)
    sizes = [sum(_high(item, high, line) for item in layer) + gap * (len(layer) - 1) for layer in layers]
    height = max(sizes, default=high)
    boxes: dict[str, tuple[int, int]] = {}
    bends: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for column, (layer, size) in enumerate(zip(layers, sizes, strict=True)):
        y = (height - size) // 2
        for item in layer:
            if isinstance(item, str):
                boxes[item] = column, y
            else:
                bends.setdefault(item[:2], []).append((column, y + line // 2))
            y += _high(item, high, line) + gap
    return Layout(boxes, bends, max(len(layers), 1), height)


def _high(item: Item, high: int, line: int) -> int:
    return high if isinstance(item, str) else line


def _with_bends(graph: Graph) -> tuple[list[list[Item]], dict[Item, list[Item]], dict[Item, list[Item]]]:
    """The layers with a place for each line that goes past, and what each item hangs together with on either side."""
    layers: list[list[Item]] = [list(layer) for layer in graph.layers()]
    layer_of = {step: at for at, layer in enumerate(graph.layers()) for step in layer}
    before: dict[Item, list[Item]] = {step: [] for step in graph.order}
    behind: dict[Item, list[Item]] = {step: [] for step in graph.order}
    edges = [(need, step) for step in graph.order for need in graph.needs[step]]
    bent = sum(layer_of[step] - layer_of[need] - 1 for need, step in edges) <= _MOST_BENDS
    for need, step in edges:
        last: Item = need
        for at in range(layer_of[need] + 1, layer_of[step] if bent else 0):
            item: Item = (need, step, at)
            layers[at].append(item)
            before[item], behind[item] = [last], []
            behind[last].append(item)
            last = item
        before[step].append(last)
        behind[last].append(step)
    return layers, before, behind


def _order(layers: list[list[Item]], before: dict[Item, list[Item]], behind: dict[Item, list[Item]]) -> None:
    """Each stands where those are that it hangs together with, seen from the left and from the right by turns."""
    at = {item: row / len(layer) for layer in layers for row, item in enumerate(layer)}
    for sweep in range(_SWEEPS):
        beside = before if sweep % 2 == 0 else behind
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = {
                item: sum(at[one] for one in near) / len(near) if (near := beside[item]) else at[item]
                for item in layer
            }
            layer.sort(key=wanted.__getitem__)
            at.update((item, row / len(layer)) for row, item in enumerate(layer))
