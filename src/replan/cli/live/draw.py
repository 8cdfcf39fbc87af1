"""Drawing the picture of a task: pure, from its state, the time and the size of the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from replan.cli.live.board import StepView
from replan.cli.live.picture import PictureState
from replan.cli.terminal.words import clean, secs
from replan.core.words import some

_SIGNS = {
    "pending": ("·", "."),
    "ready": ("◌", "o"),
    "running": ("▶", ">"),
    "succeeded": ("✓", "+"),
    "failed": ("✗", "x"),
    "skipped": ("–", "-"),
}
_STYLES = {
    "pending": "dim",
    "ready": "yellow",
    "running": "bold cyan",
    "succeeded": "green",
    "failed": "bold red",
    "skipped": "dim yellow",
}
_TASK_STYLES = {
    "succeeded": "bold green",
    "failed": "bold red",
    "cancelled": "bold yellow",
    "timed_out": "bold red",
    "waiting": "bold yellow",
    "reflecting": "bold magenta",
    "replanning": "bold magenta",
}
_ORDER = ("succeeded", "running", "ready", "pending", "failed", "skipped")


def render(view: PictureState, now: float, width: int, *, rows: int = 40, ascii_only: bool = False) -> Group:
    """The picture as lines of at most `width` cells, about `rows` of them. `now`: Unix seconds."""
    width = max(width, 12)
    lines = [_head(view, now), *_plan_line(view)]
    room = max(rows - 6, 4)
    if len(view.steps) <= room:
        lines += _every_step(view, now, width, ascii_only)
    else:
        lines += _the_busy_ones(view, now, width, room, ascii_only)
    lines += _model_lines(view, now, ascii_only)
    if view.ended is None:
        lines += [Text(f"  {clean(note)}", style="dim") for note in view.notes]
    if view.steps:
        lines.append(_counts(view, ascii_only))
    for line in lines:
        if cell_len(line.plain) > width:
            line.truncate(width, overflow="crop" if ascii_only else "ellipsis")
        line.no_wrap = True
    return Group(*lines)


# ── the lines ─────────────────────────────────────────────────────────────────


def _head(view: PictureState, now: float) -> Text:
    status = "cancelling" if view.cancelling and view.ended is None else view.status.replace("_", " ")
    line = Text(status, style=_TASK_STYLES.get(view.status, "bold cyan"))
    if view.created is not None:
        line.append(f" {secs(max(0.0, (view.ended or now) - view.created - view.idle))}", style="not bold")
    if view.round > 1:
        line.append(f" round {view.round}", style="not bold")
    line.append(f"  {clean(view.description)}", style="not bold default")
    return line


def _plan_line(view: PictureState) -> Iterable[Text]:
    if not view.steps:
        return
    steps = "1 step" if len(view.steps) == 1 else f"{len(view.steps)} steps"
    layers = "1 layer" if len(view.layers) == 1 else f"{len(view.layers)} layers"
    text = f"plan {view.plan_version}: {steps} in {layers}"
    if view.mode:
        text += f", {view.mode}" + (f" ({clean(view.mode_reason)})" if view.mode_reason else "")
    yield Text(text, style="dim")


def _model_lines(view: PictureState, now: float, ascii_only: bool) -> Iterable[Text]:
    sign = _SIGNS["running"][ascii_only]
    for call in view.model_calls.values():
        written = f", {call.characters} characters" if call.characters else ""
        yield Text(
            f"{sign} {call.role} with {clean(call.model)}: {secs(now - call.started)}{written}",
            style="magenta",
        )


def _counts(view: PictureState, ascii_only: bool) -> Text:
    line = Text()
    for status in _ORDER:
        if view.counts[status]:
            sign = _SIGNS[status][ascii_only]
            line.append(f"{sign} {view.counts[status]} {status}   ", style=_STYLES[status])
    if view.model_calls_done:
        calls = "1 model call" if view.model_calls_done == 1 else f"{view.model_calls_done} model calls"
        line.append(f"{calls} ({secs(view.model_secs)})", style="dim")
    return line


def _every_step(view: PictureState, now: float, width: int, ascii_only: bool) -> Iterable[Text]:
    ordered = [view.steps[step_id] for layer in view.layers for step_id in layer]
    return _rows(view, ordered, now, width, ascii_only)


def _the_busy_ones(view: PictureState, now: float, width: int, room: int, ascii_only: bool) -> list[Text]:
    """Too many steps to show: how far it is, what failed, and what runs."""
    share = view.done / len(view.steps)
    cells = max(min(width - 24, 40), 4)
    full = int(share * cells)
    bar = ("#" * full + "." * (cells - full)) if ascii_only else ("█" * full + "░" * (cells - full))
    lines = [Text(f"{bar} {view.done} of {len(view.steps)} done", style="cyan")]
    failed = list(view.failed)[: max(room // 3, 1)]
    running = list(view.running)[: max(room - len(failed) - 3, 1)]
    lines += _rows(view, [view.steps[step] for step in (*failed, *running)], now, width, ascii_only)
    hidden = len(view.failed) - len(failed), len(view.running) - len(running)
    more = [
        f"{count} more {what}" for count, what in zip(hidden, ("failed", "running"), strict=True) if count
    ]
    if more:
        lines.append(Text("  and " + ", ".join(more), style="dim"))
    return lines


# ── one row a step ────────────────────────────────────────────────────────────


def _rows(view: PictureState, steps: list[StepView], now: float, width: int, ascii_only: bool) -> list[Text]:
    if not steps:
        return []
    ids = min(max(cell_len(step.step_id) for step in steps), max(width // 4, 6), 28)
    tools = min(max(cell_len(clean(step.tool)) for step in steps), 24) if width >= 72 else 0
    bar = min(max(width // 4, 12), 32) if width >= 60 else 0
    begin = min((step.started for step in steps if step.started is not None), default=now)
    end = now if view.running else max((step.ended for step in steps if step.ended is not None), default=now)
    last_layer = 0
    lines = []
    for step in steps:
        line = Text()
        line.append(f"{step.layer:>3} " if step.layer != last_layer else "    ", style="dim")
        last_layer = step.layer
        style = _STYLES[step.status]
        line.append(f"{_SIGNS[step.status][ascii_only]} ", style=style)
        line.append(set_cell_size(step.step_id, ids), style=style)
        if tools:
            line.append(" " + set_cell_size(clean(step.tool), tools), style="default")
        line.append(f" {_duration(step, end):>8}", style="default")
        if bar:
            line.append(" " + _bar(step, begin, end, bar, ascii_only), style=style)
        note = _note(view, step)
        if note:
            line.append(f" {note}", style="red" if step.status == "failed" else "dim")
        lines.append(line)
    return lines


def _duration(step: StepView, end: float) -> str:
    return "" if (took := step.secs(end)) is None else secs(took)


def _bar(step: StepView, begin: float, end: float, cells: int, ascii_only: bool) -> str:
    """When the step ran, on an axis that all steps share: what runs side by side lies above each other."""
    if step.started is None:
        return " " * cells
    span = max(end - begin, 0.001)
    start = min(round((step.started - begin) / span * cells), cells - 1)
    stop = min(max(round(((step.ended or end) - begin) / span * cells), start + 1), cells)
    full = "=" if ascii_only else ("█" if step.ended else "▓")
    return " " * start + full * (stop - start) + " " * (cells - stop)


def _note(view: PictureState, step: StepView) -> str:
    parts: list[str] = []
    if step.status == "pending" and (waits := view.waits_for(step)):
        parts.append(f"waits for {some(waits, 3)}")
    if step.status == "ready":
        parts.append("waits for a free place")
    if step.status in ("running", "failed") and step.attempt > 1:
        parts.append(f"try {step.attempt}")
    if step.status == "running" and step.items is not None:
        parts.append(f"{step.items_done} of {step.items} items")
    if step.status == "running" and step.progress is not None:
        parts.append(f"{step.progress:.0%}")
    if step.reused:
        parts.append("reused")
    if step.message and step.status != "succeeded":
        parts.append(clean(step.message))
    return ", ".join(parts)
