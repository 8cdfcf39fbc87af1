"""A task's graph in the forms that other programs read: Mermaid, Graphviz DOT, SVG."""

from __future__ import annotations

from typing import Literal, assert_never, get_args

from replan.core.drawing.colours import FILL, STRONG
from replan.core.drawing.graph import TaskGraph
from replan.core.drawing.labels import heading, lines, path_in_words
from replan.core.drawing.svg import svg

Format = Literal["mermaid", "dot", "svg"]
FORMATS: tuple[Format, ...] = get_args(Format)


def draw(graph: TaskGraph, form: Format) -> str:
    """The graph as text in this form."""
    match form:
        case "mermaid":
            return _mermaid(graph)
        case "dot":
            return _dot(graph)
        case "svg":
            return svg(graph)
        case other:
            assert_never(other)


def _numbers(graph: TaskGraph) -> dict[str, str]:
    """Ids are numbered: programs give some words a meaning of their own (`end`), and a step may be called so."""
    return {node.step_id: f"s{at}" for at, node in enumerate(graph.nodes, 1)}


def _mermaid(graph: TaskGraph) -> str:
    number = _numbers(graph)
    rows = ["flowchart LR"]
    for node in graph.nodes:
        label = "<br/>".join(_mermaid_text(line) for line in lines(node))
        rows.append(f'    {number[node.step_id]}["{label}"]')
    edges = graph.edges()
    rows += [f"    {number[before]} --> {number[after]}" for before, after in edges]
    for status, fill in FILL.items():
        named = [number[node.step_id] for node in graph.nodes if node.status == status]
        if named:
            rows += [
                f"    classDef {status} fill:{fill},color:#111111",
                f"    class {','.join(named)} {status}",
            ]
    strong = graph.critical_edges()
    if thick := [str(at) for at, edge in enumerate(edges) if edge in strong]:
        rows.append(f"    linkStyle {','.join(thick)} stroke:{STRONG},stroke-width:4px")
    return "\n".join(rows) + "\n"


def _mermaid_text(text: str) -> str:
    """Mermaid reads `#…;` as a character, quotes as an end, and markup as markup."""
    return "".join(c if c.isalnum() or c in " _-.,:·…" else f"#{ord(c)};" for c in text)


def _dot(graph: TaskGraph) -> str:
    number = _numbers(graph)
    rows = [
        "digraph plan {",
        "    rankdir=LR;",
        '    node [shape=box, style="rounded,filled", fillcolor=white];',
    ]
    if graph.task_id:
        told = heading(graph) + (f"\ncritical path: {path}" if (path := path_in_words(graph)) else "")
        rows.append(f"    label={_quoted(told)};")
    for node in graph.nodes:
        fill = FILL.get(node.status)
        colour = f', fillcolor="{fill}"' if fill else ""
        strong = f', color="{STRONG}", penwidth=2' if node.step_id in graph.critical else ""
        label = _quoted("\n".join(lines(node)))
        rows.append(f"    {number[node.step_id]} [label={label}{colour}{strong}];")
    thick = graph.critical_edges()
    for before, after in graph.edges():
        strong = f' [color="{STRONG}", penwidth=3]' if (before, after) in thick else ""
        rows.append(f"    {number[before]} -> {number[after]}{strong};")
    return "\n".join([*rows, "}"]) + "\n"


def _quoted(text: str) -> str:
    """DOT reads a backslash with a letter as what that stands for, and `&…;` as a character."""
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("&", "&amp;"), ("\n", "\\n")):
        text = text.replace(sign, written)
    return f'"{text}"'
