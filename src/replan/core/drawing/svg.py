"""A task's graph as SVG: a file of its own, with no script in it and nothing to be fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from replan.core.drawing.colours import FILL, STRONG
from replan.core.drawing.graph import TaskGraph
from replan.core.drawing.labels import cut, heading, lines, path_in_words
from replan.core.plan.graph import Graph

WIDTH, LINE, GAP_X, GAP_Y, MARGIN, HEAD = 216, 18, 64, 18, 16, 44
"""Pixels: of a box, of a line in it, between boxes, around all, and of what stands above."""
_CELL = 6.6
"""How wide a letter is, about."""
_SWEEPS = 4


def svg(graph: TaskGraph) -> str:
    """Layers from left to right; the critical path is strong."""
    told = [lines(node) for node in graph.nodes]
    high = 18 + LINE * max([2, *map(len, told)])
    layers = _ordered(graph.graph()) if graph.nodes else []
    most = max([1, *map(len, layers)])
    top = MARGIN + (HEAD if graph.task_id else 0)
    width = 2 * MARGIN + max(1, len(layers)) * (WIDTH + GAP_X) - GAP_X
    height = top + MARGIN + most * (high + GAP_Y) - GAP_Y
    place = {
        step_id: (
            MARGIN + column * (WIDTH + GAP_X),
            top + row * (high + GAP_Y) + (most - len(layer)) * (high + GAP_Y) // 2,
        )
        for column, layer in enumerate(layers)
        for row, step_id in enumerate(layer)
    }
    title = heading(graph)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
        'role="img" font-family="system-ui, sans-serif" font-size="12" fill="#111111">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_head(graph, title, width),
    ]
    strong = graph.critical_edges()
    # what is strong lies above the others
    edges = sorted(graph.edges(), key=lambda edge: edge in strong)
    parts += [
        _edge(place[before], place[after], high, strong=(before, after) in strong) for before, after in edges
    ]
    for node, texts in zip(graph.nodes, told, strict=True):
        x, y = place[node.step_id]
        line = f'stroke="{STRONG}" stroke-width="2"' if node.step_id in graph.critical else 'stroke="#444444"'
        dashed = ' stroke-dasharray="5 3"' if node.status in ("waiting", "pending", "skipped") else ""
        parts.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{high}" rx="6" fill="{FILL.get(node.status, "white")}" {line}{dashed}/>'
        )
        parts += _texts(texts, x, y)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _head(graph: TaskGraph, title: str, width: int) -> list[str]:
    if not graph.task_id:
        return []
    room = max(int((width - 2 * MARGIN) / _CELL), 20)
    rows = [f'<text x="{MARGIN}" y="{MARGIN + 12}" font-weight="bold">{escape(cut(title, room))}</text>']
    if path := path_in_words(graph):
        told = escape(cut(f"critical path: {path}", room))
        rows.append(f'<text x="{MARGIN}" y="{MARGIN + 30}" fill="{STRONG}">{told}</text>')
    return rows


def _edge(start: tuple[int, int], end: tuple[int, int], high: int, *, strong: bool) -> str:
    x1, y1, x2, y2 = start[0] + WIDTH, start[1] + high // 2, end[0], end[1] + high // 2
    bend = max(GAP_X // 2, (x2 - x1) // 2)
    line = f'stroke="{STRONG}" stroke-width="3"' if strong else 'stroke="#888888"'
    return f'<path d="M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" fill="none" {line}/>'


def _texts(texts: Sequence[str], x: int, y: int) -> list[str]:
    fits = int((WIDTH - 16) / _CELL)
    rows = []
    for at, text in enumerate(texts):
        colour = "" if at == 0 else ' fill="#444444"'
        whole = f"<title>{escape(text)}</title>" if cut(text, fits) != text else ""
        rows.append(
            f'<text x="{x + 8}" y="{y + 21 + LINE * at}"{colour}>{escape(cut(text, fits))}{whole}</text>'
        )
    return rows


def _ordered(graph: Graph) -> list[list[str]]:
    """The layers, each in an order in which few edges cross: a step stands where those are that it hangs together with."""
    layers = [list(layer) for layer in graph.layers()]
    at = {step: row / len(layer) for layer in layers for row, step in enumerate(layer)}
    for sweep in range(_SWEEPS):
        beside = graph.needs if sweep % 2 == 0 else graph.needed_by
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = {
                step: sum(at[one] for one in near) / len(near) if (near := beside[step]) else at[step]
                for step in layer
            }
            layer.sort(key=wanted.__getitem__)
            at.update((step, row / len(layer)) for row, step in enumerate(layer))
    return layers
