"""A task's graph as text: a row a step, with lines from each to what waits for it."""

from __future__ import annotations

from replan.core.drawing.graph import SIGNS, Node, TaskGraph
from replan.core.drawing.labels import cut, heading, path_in_words, plain, stands, width
from replan.core.drawing.lanes import Row, rows, without_detours
from replan.core.words import some

_ASCII_SIGNS = {
    "pending": ".", "ready": "o", "running": ">", "waiting": "|", "succeeded": "+", "failed": "x", "skipped": "-",
}  # fmt: skip
MOST_LANES = 24
"""Cells; where more lines lie beside each other, they are left out, and each row says what its step comes after."""
_MOST_ID, _MOST_TOOL, _MOST_NOTE = 32, 28, 200


def text(graph: TaskGraph, *, columns: int | None = None, ascii_only: bool = False) -> str:
    """`columns`: no line is longer than that. The steps of the critical path are marked with `*`."""
    lines = [heading(graph)]
    if path := path_in_words(graph):
        lines.append(f"critical path (*): {path}")
    lines += _rows(graph, ascii_only)
    if graph.left_out:
        gone = [f"{plain(one.step_id)} ({one.status}, by plan {one.by})" for one in graph.left_out]
        lines.append(f"left out: {some(gone, 20)}")
    if not graph.nodes:
        lines.append("there is no plan yet" if graph.task_id else "the plan has no steps")
    if ascii_only:
        lines = [line.replace("→", "->").replace("…", "...").replace("·", "-") for line in lines]
    return "\n".join(line if columns is None else _fitted(line, columns, ascii_only) for line in lines)


def _fitted(line: str, columns: int, ascii_only: bool) -> str:
    if width(line) <= columns:
        return line
    return cut(line, columns + 1).removesuffix("…") if ascii_only else cut(line, columns)


def _rows(graph: TaskGraph, ascii_only: bool) -> list[str]:
    if not graph.nodes:
        return []
    lean = without_detours(graph.graph())
    lanes = rows(lean, ascii_only=ascii_only)
    most = max(len(row.lanes) for row in lanes)
    by_words = most > MOST_LANES
    if by_words:
        lanes, most = [Row("", step) for step in lean.topological()], 0
    ids = min(max(width(plain(node.step_id)) for node in graph.nodes), _MOST_ID)
    tools = min(max(width(plain(node.tool)) for node in graph.nodes), _MOST_TOOL)
    known = {node.step_id: node for node in graph.nodes}
    critical = set(graph.critical) if len(graph.critical) > 1 else set()
    lines = []
    for lane, step_id in lanes:
        if step_id is None:
            lines.append(lane)
            continue
        node = known[step_id]
        beside = _padded(lane, most) + " " if most else ""
        mark = "*" if step_id in critical else " "
        sign = (_ASCII_SIGNS if ascii_only else SIGNS).get(node.status, "")
        told = f"{sign} {mark} " if node.status else ""
        after = f"after {some([plain(need) for need in lean.needs[step_id]], 5)}" if by_words else ""
        lines.append(f"{beside}{told}{_columns(node, ids, tools)}  {_says(node, after)}".rstrip())
    return lines


def _columns(node: Node, ids: int, tools: int) -> str:
    """Its id and its tool, each as wide in every row."""
    return f"{_padded(cut(plain(node.step_id), ids), ids)}  {_padded(cut(plain(node.tool), tools), tools)}"


def _says(node: Node, after: str) -> str:
    name = node.name if node.name else ""
    told = [stands(node), name, node.how, after if after != "after " else ""]
    return cut(plain("; ".join(text for text in told if text)), _MOST_NOTE)


def _padded(text: str, cells: int) -> str:
    return text + " " * (cells - width(text))
