"""Drawing the picture of a task: pure, from its state, the time and the size of the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from rich.cells import cell_len
from rich.text import Text

from replan.cli.live.board import StepView
from replan.cli.live.picture import PictureState
from replan.cli.live.rows import SIGNS, STYLES, gantt
from replan.cli.terminal.words import clean, counted, money, secs

_TASK_STYLES = {
    "succeeded": "bold green",
    "failed": "bold red",
    "cancelled": "bold yellow",
    "timed_out": "bold red",
    "waiting": "bold yellow",
    "reflecting": "bold magenta",
    "replanning": "bold magenta",
}
_ORDER = ("succeeded", "running", "waiting", "ready", "pending", "failed", "skipped")
_BUSY = ("waiting", "running", "failed")
"""What is shown of a plan that is too large to be shown as a whole."""
_NAMED = 2
"""Lines with the names of steps that have no row, for each of these."""
_MOST_CALLS = 3
_LEAST = 6
"""Lines that the steps have, whatever else there is to tell."""


def render(
    view: PictureState, now: float, width: int, *, rows: int = 40, ascii_only: bool = False
) -> list[Text]:
    """The picture as lines of at most `width` cells, about `rows` of them. `now`: Unix seconds."""
    width = max(width, 12)
    head = [_head(view, now), *_plan_line(view)]
    foot = [*_model_lines(view, now, ascii_only), *_notes(view)]
    last = [*_counts(view, ascii_only), *_used(view)]
    room = rows - len(head) - len(last)
    foot = foot[: max(room - _LEAST, 0)]
    room = max(room - len(foot), 3)
    if not view.steps:
        steps = []
    elif len(view.steps) + 1 <= room:
        ordered = [view.steps[step_id] for layer in view.layers for step_id in layer]
        steps = gantt(view, ordered, now, width, ascii_only)
    else:
        steps = _the_busy_ones(view, now, width, room, ascii_only)
    lines = [*head, *steps, *foot, *last]
    for line in lines:
        if cell_len(line.plain) > width:
            line.truncate(width, overflow="crop" if ascii_only else "ellipsis")
        line.no_wrap = True
    return lines


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
    text = f"plan {view.plan_version}: {counted(len(view.steps), 'step')} in {counted(len(view.layers), 'layer')}"
    if view.mode:
        text += f", {view.mode}" + (f" ({clean(view.mode_reason)})" if view.mode_reason else "")
    yield Text(text, style="dim")


def _model_lines(view: PictureState, now: float, ascii_only: bool) -> Iterable[Text]:
    sign = SIGNS["running"][ascii_only]
    for call in islice(view.model_calls.values(), _MOST_CALLS):
        written = f", {call.characters} characters" if call.characters else ""
        yield Text(
            f"{sign} {call.role} with {clean(call.model)}: {secs(now - call.started)}{written}",
            style="magenta",
        )
    if (more := len(view.model_calls) - _MOST_CALLS) > 0:
        yield Text(f"  and {counted(more, 'more model call')}", style="magenta")


def _notes(view: PictureState) -> Iterable[Text]:
    if view.ended is None:
        for note in view.notes:
            yield Text(f"  {clean(note)}", style="dim")


def _counts(view: PictureState, ascii_only: bool) -> Iterable[Text]:
    if not view.steps:
        return
    counts = view.counts.copy()
    for step_id in view.waiting:
        step = view.steps[step_id]
        counts[step.status] -= 1
        counts[view.shown(step)] += 1
    line = Text()
    for status in _ORDER:
        if counts[status]:
            between = "   " if line.plain else ""
            line.append(
                f"{between}{SIGNS[status][ascii_only]} {counts[status]} {status}", style=STYLES[status]
            )
    yield line


def _used(view: PictureState) -> Iterable[Text]:
    """What it has cost so far: the dearest first, as a narrow terminal cuts the end."""
    used = view.core.usage
    told = [money(used.cost_usd)] if used.cost_usd else []
    if view.model_calls_done:
        told.append(f"{counted(view.model_calls_done, 'model call')} ({secs(view.model_secs)})")
    if tokens := used.input_tokens + used.output_tokens:
        told.append(counted(tokens, "token"))
    if used.tool_calls:
        told.append(counted(used.tool_calls, "tool call"))
    if told:
        yield Text(
            f"used so far: {', '.join(told)}" if view.ended is None else f"used: {', '.join(told)}", "dim"
        )


# ── plans that are too large to be shown as a whole ───────────────────────────


def _the_busy_ones(view: PictureState, now: float, width: int, room: int, ascii_only: bool) -> list[Text]:
    """How far it is, and what waits, runs and failed: with a row each, or by their names, or counted."""
    share = view.done / len(view.steps)
    cells = max(min(width - 24, 40), 4)
    full = int(share * cells)
    bar = ("#" * full + "." * (cells - full)) if ascii_only else ("█" * full + "░" * (cells - full))
    lines = [Text(f"{bar} {view.done} of {len(view.steps)} done", style="cyan")]
    sizes = {"waiting": len(view.waiting), "failed": len(view.failed), "running": _running(view)}
    given = _shared(sizes, room - len(lines) - 1)
    found = {what: list(islice(_all(view, what), given[what])) for what in _BUSY}
    lines += gantt(view, [step for what in _BUSY for step in found[what]], now, width, ascii_only)
    left = max(room - len(lines), 0)
    for at, what in enumerate(_BUSY):
        if (hidden := sizes[what] - given[what]) > 0:
            names = islice(_all(view, what), given[what], None)
            most = max(left // (len(_BUSY) - at), 1) if left else 0
            told = _names(f"also {what}", names, hidden, width, min(most, _NAMED))
            lines += told
            left -= len(told)
    return lines


def _running(view: PictureState) -> int:
    return len(view.running) - sum(step_id in view.running for step_id in view.waiting)


def _all(view: PictureState, what: str) -> Iterable[StepView]:
    """What failed last stands first."""
    match what:
        case "waiting":
            names: Iterable[str] = view.waiting
        case "failed":
            names = reversed(view.failed)
        case _:
            names = (name for name in view.running if name not in view.waiting)
    return (view.steps[name] for name in names)


def _shared(sizes: dict[str, int], room: int) -> dict[str, int]:
    """How many of each have a row: all of them where that is possible; else some room is kept for the names of the others."""
    if sum(sizes.values()) <= room:
        return sizes
    room -= sum(_NAMED for size in sizes.values() if size)
    given = dict.fromkeys(sizes, 0)
    open_ones = [what for what, size in sizes.items() if size]
    while room > 0 and open_ones:
        each = max(room // len(open_ones), 1)
        for what in open_ones:
            more = min(each, sizes[what] - given[what], room)
            given[what] += more
            room -= more
        open_ones = [what for what in open_ones if given[what] < sizes[what]]
    return given


def _names(head: str, steps: Iterable[StepView], count: int, width: int, most: int) -> list[Text]:
    """Their names in so many lines, and how many there are beside these."""
    lines: list[str] = []
    line = f"  {head}:"
    told = 0
    for step in steps:
        name = clean(step.step_id)
        more = f" and {count - told} more"
        last = len(lines) + 1 >= most
        behind = more if last and told + 1 < count else ","
        need = cell_len(line) + 2 + cell_len(name) + cell_len(behind)
        if need > width and last:
            break
        if need > width:
            lines.append(f"{line},")
            line = "   "
        line += f" {name}" if line.endswith((":", "   ")) else f", {name}"
        told += 1
    if told < count:
        line = (
            f"  {count} more {head.removeprefix('also ')}" if not told else f"{line} and {count - told} more"
        )
    return [Text(text, style="dim") for text in (*lines, line)]
