"""One row a step: its sign, its id, its tool, how long it took, its bar on the axis that all share, and what there is to say of it."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from replan.cli.live.axis import Axis
from replan.cli.live.board import StepView
from replan.cli.live.picture import PictureState
from replan.cli.terminal.words import clean, secs
from replan.core.words import some

SIGNS = {
    "pending": ("·", "."),
    "ready": ("◌", "o"),
    "running": ("▶", ">"),
    "waiting": ("‖", "|"),
    "succeeded": ("✓", "+"),
    "failed": ("✗", "x"),
    "skipped": ("–", "-"),
}
"""What tells how a step is, with colours and without; and where there is nothing but ASCII."""
STYLES = {
    "pending": "dim",
    "ready": "yellow",
    "running": "bold cyan",
    "waiting": "bold yellow",
    "succeeded": "green",
    "failed": "bold red",
    "skipped": "dim yellow",
}
_FILLS = {"succeeded": "█=", "running": "▓>", "waiting": "░|", "failed": "╳x", "skipped": "–-"}
"""What bars are made of."""
_LAYER, _SIGN, _SECS = 4, 2, 11
_WITH_BAR, _WITH_TOOL = 50, 72
"""Terminals that are less wide have no room for it."""


class Columns(NamedTuple):
    """How many cells each has; 0: it is not there. One is free between two of them."""

    ids: int
    tool: int
    secs: int
    bar: int

    @classmethod
    def of(cls, steps: list[StepView], width: int, durations: list[str]) -> Columns:
        ids = min(max(cell_len(clean(step.step_id)) for step in steps), max(width // 5, 6), 28)
        widest = max(cell_len(clean(step.tool)) for step in steps)
        tool = min(widest, width // 6, 24) if width >= _WITH_TOOL else 0
        # a column that grew with what stands in it would push the bars about
        took = _SECS if width >= _WITH_BAR else max([8, *map(cell_len, durations)])
        columns = cls(ids, tool, took, 0)
        room = width - columns.before_bar
        return columns._replace(bar=room * 2 // 3) if width >= _WITH_BAR else columns

    @property
    def before_bar(self) -> int:
        """Where the bars begin."""
        return _LAYER + _SIGN + self.ids + (1 + self.tool if self.tool else 0) + 1 + self.secs + 1


def gantt(
    view: PictureState, steps: list[StepView], now: float, width: int, ascii_only: bool = False
) -> list[Text]:
    """The axis, where there is one, and the rows."""
    if not steps:
        return []
    moment = view.last if view.status == "waiting" and view.last is not None else view.ended or now
    durations = [_duration(step, moment) for step in steps]
    columns = Columns.of(steps, width, durations)
    axis = None
    lines = []
    if columns.bar:
        active = view.pauses.without
        begin = active(view.begun) if view.begun is not None else active(moment)
        axis = Axis.of(begin, max([active(moment), *_ends(view, steps)]), columns.bar)
        marks = axis.marks("|" if ascii_only else "╷")
        lines.append(Text(" " * columns.before_bar + marks.rstrip(), style="dim"))
    layer = 0
    for step, took in zip(steps, durations, strict=True):
        line = _row(view, step, took, columns, layer != step.layer, ascii_only)
        style = STYLES[view.shown(step)]
        bar = (0, "") if axis is None else _bar(view, step, axis, moment, ascii_only)
        _add_chart(line, bar, _note(view, step), width - columns.before_bar, style, ascii_only)
        lines.append(line)
        layer = step.layer
    return lines


def _duration(step: StepView, moment: float) -> str:
    return "" if (took := step.secs(moment)) is None else secs(took)


def _ends(view: PictureState, steps: list[StepView]) -> list[float]:
    """Clocks of several machines may differ."""
    return [view.pauses.without(step.ended) for step in steps if step.ended is not None]


def _row(
    view: PictureState, step: StepView, took: str, columns: Columns, first: bool, ascii_only: bool
) -> Text:
    """All that stands before its bar."""
    status = view.shown(step)
    style = STYLES[status]
    line = Text()
    line.append(f"{step.layer % 1000:>3} " if first else "    ", style="dim")
    line.append(f"{SIGNS[status][ascii_only]} ", style=style)
    line.append(_fitted(clean(step.step_id), columns.ids, ascii_only), style=style)
    if columns.tool:
        line.append(" " + _fitted(clean(step.tool), columns.tool, ascii_only), style="default")
    line.append(f" {took:>{columns.secs}} ", style="default")
    return line


def _add_chart(line: Text, bar: tuple[int, str], note: str, room: int, style: str, ascii_only: bool) -> None:
    """The bar with what there is to say beside it: behind it, or before it where only there is room."""
    first, cells = bar
    after = room - first - len(cells) - bool(cells)
    before = first - 1
    told = "red" if style == STYLES["failed"] else "dim"
    if note and cell_len(note) > after and before > after and cells:
        text = _fitted(note, min(before, cell_len(note)), ascii_only)
        line.append(" " * (before - cell_len(text)) + text + " ", style=told)
        line.append(cells, style=style)
        return
    line.append(" " * first + cells, style=style)
    if note and after > 0:
        line.append(" " * bool(cells) + _fitted(note, min(after, cell_len(note)), ascii_only), style=told)


def _fitted(text: str, cells: int, ascii_only: bool) -> str:
    """The text in exactly so many cells; one that was cut says so."""
    if cell_len(text) <= cells or ascii_only:
        return set_cell_size(text, cells)
    return set_cell_size(text, cells - 1) + "…"


def _bar(view: PictureState, step: StepView, axis: Axis, moment: float, ascii_only: bool) -> tuple[int, str]:
    """When the step was at work, on an axis that all steps share: where it begins, and the bar."""
    fill = _FILLS.get(view.shown(step))
    if step.started is None or fill is None:
        return 0, ""
    active = view.pauses.without
    first, cells = axis.bar(active(step.started), active(step.ended or moment))
    return first, fill[ascii_only] * cells


def _note(view: PictureState, step: StepView) -> str:
    status = view.shown(step)
    parts: list[str] = []
    if status == "pending" and (waits := view.waits_for(step)):
        parts.append(f"waits for {some(waits, 3)}")
    if status == "ready":
        parts.append("waits for a free place")
    if status == "waiting":
        parts.append(f"waits for {some(list(view.waiting[step.step_id].values()), 2)}")
    if status in ("running", "failed") and step.attempt > 1:
        parts.append(f"try {step.attempt}")
    if status == "running" and step.items is not None:
        parts.append(f"{step.items_done} of {step.items} items")
    if status == "running" and step.progress is not None:
        parts.append(f"{step.progress:.0%}")
    if step.reused:
        parts.append("reused")
    if step.message and status != "succeeded":
        parts.append(clean(step.message))
    return clean(", ".join(parts))
