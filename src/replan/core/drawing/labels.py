"""The words of a drawing: plain, of a bounded width, and of no meaning to what draws them."""

from __future__ import annotations

import unicodedata

from replan.core.drawing.graph import SIGNS, Node, TaskGraph

MOST_LABEL = 60
"""Cells of one line."""
MOST_PATH = 12
"""Steps of the critical path that are named."""


def lines(node: Node) -> list[str]:
    """What stands in a step's box."""
    sign = f"{SIGNS.get(node.status, '?')} " if node.status else ""
    title = f"{node.step_id}: {node.name}" if node.name else node.step_id
    texts = [sign + title, " · ".join(text for text in (node.tool, node.how) if text), stands(node)]
    return [cut(plain(text), MOST_LABEL) for text in texts if text]


def stands(node: Node) -> str:
    """How it goes, in words."""
    if not node.status:
        return ""
    told = [node.status]
    if node.secs is not None:
        told.append(f"{node.secs:.1f} s")
    if node.tries > 1:
        told.append(f"{node.tries} tries")
    if node.version > 1:
        told.append(f"since plan {node.version}")
    text = ", ".join(told)
    return f"{text}: {node.note}" if node.note else text


def heading(graph: TaskGraph) -> str:
    """What is drawn, in one line."""
    told = [graph.task_id, graph.status.replace("_", " ")] if graph.task_id else []
    versions = f" of {graph.versions}" if graph.versions > 1 else ""
    return plain(" · ".join([*told, f"plan {graph.version}{versions}"]))


def path_in_words(graph: TaskGraph) -> str:
    """The critical path; empty where it says nothing."""
    path = graph.critical
    if len(path) < 2:
        return ""
    shown = [plain(step) for step in path]
    if len(shown) > MOST_PATH:
        half = MOST_PATH // 2
        shown = [*shown[:half], f"… {len(path) - MOST_PATH} more …", *shown[-half:]]
    return " → ".join(shown)


def plain(text: str) -> str:
    """Without control characters, which XML does not have and DOT breaks lines at, and without those that turn the writing round."""
    return "".join(c if c.isprintable() else " " for c in text)


def cut(text: str, cells: int) -> str:
    """As much of it as has room, and "…"."""
    if len(text) * 2 <= cells or width(text) <= cells:
        return text
    used = 1
    for at, c in enumerate(text):
        used += width(c)
        if used > cells:
            return text[:at] + "…"
    return text


def width(text: str) -> int:
    """Cells, as terminals and fonts of one width count them."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )
