"""A task's graph as SVG: a file of its own, with no script in it and nothing to be fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from replan.core.drawing.colours import FILL, STRONG
from replan.core.drawing.graph import TaskGraph
from replan.core.drawing.labels import cut, heading, lines, path_in_words
from replan.core.drawing.layers import layout

WIDTH, LINE, GAP_X, GAP_Y, MARGIN, HEAD, PASSING = 216, 18, 64, 18, 16, 44, 6
"""Pixels: of a box, of a line in it, between boxes, around all, of what stands above, and of an edge that goes past boxes."""
_CELL = 6.6
"""How wide a letter is, about."""


def svg(graph: TaskGraph) -> str:
    """Layers from left to right; the critical path is strong."""
    told = [lines(node) for node in graph.nodes]
    high = 18 + LINE * max([2, *map(len, told)])
    top = MARGIN + (HEAD if graph.task_id else 0)
    placed = layout(graph.graph(), high=high, gap=GAP_Y, line=PASSING)
    width = 2 * MARGIN + placed.columns * (WIDTH + GAP_X) - GAP_X
    height = top + placed.height + MARGIN
    place = {step: (_left(column), top + y) for step, (column, y) in placed.boxes.items()}
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
        _edge(
            place[edge[0]],
            [(_left(column), top + y) for column, y in placed.bends.get(edge, ())],
            place[edge[1]],
            high,
            strong=edge in strong,
        )
        for edge in edges
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


def _left(column: int) -> int:
    return MARGIN + column * (WIDTH + GAP_X)


def _edge(
    start: tuple[int, int], bends: list[tuple[int, int]], end: tuple[int, int], high: int, *, strong: bool
) -> str:
    """From the right of a box to the left of another; past the boxes of the layers between them at the heights of `bends`."""
    way = f"M{start[0] + WIDTH} {start[1] + high // 2}"
    at = start[0] + WIDTH, start[1] + high // 2
    for x, y in bends:
        way += f" {_curve(at, (x, y))} H{x + WIDTH}"
        at = x + WIDTH, y
    way += f" {_curve(at, (end[0], end[1] + high // 2))}"
    line = f'stroke="{STRONG}" stroke-width="3"' if strong else 'stroke="#888888"'
    return f'<path d="{way}" fill="none" {line}/>'


def _curve(start: tuple[int, int], end: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = start, end
    bend = max(GAP_X // 2, (x2 - x1) // 2)
    return f"C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


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
