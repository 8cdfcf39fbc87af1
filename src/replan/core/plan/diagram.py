"""A plan as a drawing, in the forms that other programs read: Mermaid, Graphviz DOT, SVG."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Literal, assert_never, get_args

from replan.core.plan.graph import Graph
from replan.core.types import Plan, Step

Format = Literal["mermaid", "dot", "svg"]
FORMATS: tuple[Format, ...] = get_args(Format)
_FILL = {"succeeded": "#d9f2d9", "failed": "#f8d7d7", "skipped": "#eeeeee", "running": "#fff3cd"}
MOST_LABEL = 60
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 190, 54, 60, 18, 16
"""Pixels of a box of the SVG, between boxes, and around all."""


def draw(plan: Plan, form: Format, statuses: Mapping[str, str] | None = None) -> str:
    """The plan's graph as text in this form; `statuses` (by step id) colour the boxes."""
    known = statuses or {}
    match form:
        case "mermaid":
            return _mermaid(plan, known)
        case "dot":
            return _dot(plan, known)
        case "svg":
            return _svg(plan, known)
        case other:
            assert_never(other)


def _lines(step: Step) -> list[str]:
    """What stands in a step's box; without control characters, which XML does not have and DOT breaks lines at."""
    tool = step.tool or ", ".join(dict.fromkeys(action.tool for action in step.actions))
    also = [text for given, text in ((step.for_each, "for each"), (step.when, "if …")) if given]
    name = step.name if step.name not in ("", step.step_id) else ""
    texts = [f"{step.step_id}: {name}" if name else step.step_id, " · ".join([tool, *also])]
    plain = ["".join(c if c.isprintable() else " " for c in text) for text in texts if text]
    return [text if len(text) <= MOST_LABEL else text[: MOST_LABEL - 1] + "…" for text in plain]


def _edges(plan: Plan) -> list[tuple[str, str]]:
    ids = {step.step_id for step in plan.steps}
    return [(before, step.step_id) for step in plan.steps for before in step.dependencies if before in ids]


def _mermaid(plan: Plan, statuses: Mapping[str, str]) -> str:
    """Ids are numbered: Mermaid gives some words a meaning of their own (`end`), and a step may be called so."""
    number = {step.step_id: f"s{at}" for at, step in enumerate(plan.steps, 1)}
    rows = ["flowchart LR"]
    for step in plan.steps:
        label = "<br/>".join(_mermaid_text(line) for line in _lines(step))
        rows.append(f'    {number[step.step_id]}["{label}"]')
    rows += [f"    {number[before]} --> {number[after]}" for before, after in _edges(plan)]
    for status, fill in _FILL.items():
        named = [number[step.step_id] for step in plan.steps if statuses.get(step.step_id) == status]
        if named:
            rows += [f"    classDef {status} fill:{fill}", f"    class {','.join(named)} {status}"]
    return "\n".join(rows) + "\n"


def _mermaid_text(text: str) -> str:
    """Mermaid reads `#…;` as a character, quotes as an end, and markup as markup."""
    return "".join(c if c.isalnum() or c in " _-.,:·…" else f"#{ord(c)};" for c in text)


def _dot(plan: Plan, statuses: Mapping[str, str]) -> str:
    rows = [
        "digraph plan {",
        "    rankdir=LR;",
        '    node [shape=box, style="rounded,filled", fillcolor=white];',
    ]
    for step in plan.steps:
        fill = _FILL.get(statuses.get(step.step_id, ""))
        colour = f', fillcolor="{fill}"' if fill else ""
        label = json.dumps("\n".join(_lines(step)), ensure_ascii=False)
        rows.append(f"    {_quoted(step.step_id)} [label={label}{colour}];")
    rows += [f"    {_quoted(before)} -> {_quoted(after)};" for before, after in _edges(plan)]
    return "\n".join([*rows, "}"]) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _svg(plan: Plan, statuses: Mapping[str, str]) -> str:
    layers = Graph.of(plan).layers() if plan.steps else []
    place = {
        step_id: (MARGIN + column * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y))
        for column, layer in enumerate(layers)
        for row, step_id in enumerate(layer)
    }
    width = 2 * MARGIN + max(1, len(layers)) * (WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + max([1, *map(len, layers)]) * (HEIGHT + GAP_Y) - GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"',
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for before, after in _edges(plan):
        (x1, y1), (x2, y2) = place[before], place[after]
        x1, y1, y2 = x1 + WIDTH, y1 + HEIGHT // 2, y2 + HEIGHT // 2
        bend = max(GAP_X // 2, (x2 - x1) // 2)
        parts.append(
            f'<path d="M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" fill="none" stroke="#888"/>'
        )
    for step in plan.steps:
        x, y = place[step.step_id]
        fill = _FILL.get(statuses.get(step.step_id, ""), "white")
        parts.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="#444"/>'
        )
        parts += _svg_lines(_lines(step), x, y)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _svg_lines(lines: Sequence[str], x: int, y: int) -> list[str]:
    fits = (WIDTH - 16) // 6
    cut = [line if len(line) <= fits else line[: fits - 1] + "…" for line in lines]
    return [
        f'<text x="{x + 8}" y="{y + 22 + 18 * at}"{"" if at == 0 else " fill=" + chr(34) + "#555" + chr(34)}>'
        f"{escape(line)}</text>"
        for at, line in enumerate(cut)
    ]
