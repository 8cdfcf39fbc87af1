"""A task's graph as a value of its own: what a notebook shows, and what is asked for as text."""

from __future__ import annotations

import base64
from html import escape

from replan.core.drawing.forms import draw
from replan.core.drawing.graph import TaskGraph
from replan.core.drawing.labels import heading, path_in_words
from replan.core.drawing.text import text

MOST_DRAWN = 400
"""Steps of a graph that a notebook is given as an image."""


class TaskDrawing:
    """A task's plan, how each step stands, and the critical path; `str` draws it as text."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph

    def svg(self) -> str:
        """A file of its own, with no script in it and nothing to be fetched."""
        return draw(self.graph, "svg")

    def mermaid(self) -> str:
        return draw(self.graph, "mermaid")

    def dot(self) -> str:
        return draw(self.graph, "dot")

    def text(self, columns: int | None = None) -> str:
        """With lines from step to step; no line is longer than `columns`."""
        return text(self.graph, columns=columns)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        """As an image, which nothing that stands in it can leave."""
        graph = self.graph
        if len(graph.nodes) > MOST_DRAWN:
            return f"<p>{escape(heading(graph))}: {len(graph.nodes)} steps are too many to be drawn here; <code>svg()</code> draws them</p>"
        told = (
            f"{heading(graph)}; critical path: {path}" if (path := path_in_words(graph)) else heading(graph)
        )
        image = base64.b64encode(self.svg().encode()).decode()
        return (
            '<div style="overflow-x:auto"><img style="max-width:none" '
            f'alt="{escape(told)}" src="data:image/svg+xml;base64,{image}"></div>'
        )
