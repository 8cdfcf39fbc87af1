"""What happened, for prompts: every step in a few lines, all of it within a bound."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Sequence

from replan.core.types import Plan, StepId
from replan.reasoning.view import StepReport

_MOST_STEPS = 200
_LINE = 400
"""Characters of one step that are not its output."""


def render_steps(steps: Sequence[StepReport], *, limit: int, final: Collection[StepId] = ()) -> str:
    """The steps in order, their outputs sharing about `limit` characters.

    Short outputs are whole; the long ones share what is left, and those of the `final` steps, on which the
    answer rests, get twice the share. Beyond 200 steps the unremarkable ones are only counted.
    """
    shown = _worth_showing(steps, final)
    texts = {at: _body(steps[at]) for at in shown}
    allowed = _shares({at: len(text) for at, text in texts.items()}, limit, {
        at: 2 if steps[at].step_id in final else 1 for at in shown
    })  # fmt: skip
    blocks = [_block(steps[at], shorten(texts[at], allowed[at])) for at in shown]
    if left := len(steps) - len(shown):
        done = sum(1 for at, step in enumerate(steps) if at not in texts and step.status == "succeeded")
        blocks.append(f"({left} more steps, of which {done} succeeded)")
    return "\n\n".join(blocks) or "(there were no steps)"


def _worth_showing(steps: Sequence[StepReport], final: Collection[StepId]) -> list[int]:
    if len(steps) <= _MOST_STEPS:
        return list(range(len(steps)))
    ranked = sorted(
        range(len(steps)),
        key=lambda at: (steps[at].step_id not in final, steps[at].status == "succeeded", at),
    )
    return sorted(ranked[:_MOST_STEPS])


def _block(step: StepReport, body: str) -> str:
    title = f"{step.step_id} ({shorten(step.name, 120)})" if step.name else step.step_id
    head = f"{title}: {step.tool} -> {step.status}"
    if step.parameters:
        head += (
            f"\n  parameters: {shorten(json.dumps(step.parameters, ensure_ascii=False, default=str), _LINE)}"
        )
    return f"{head}\n  {body}" if body else head


def _body(step: StepReport) -> str:
    if step.status == "skipped":
        return f"skipped because: {_one_line(step.reason)}" if step.reason else ""
    if step.error is not None and step.status != "succeeded":
        return f"error: {_one_line(step.error_text())}"
    if step.artifact is not None:
        kept = step.artifact
        ends = json.dumps({"head": kept.head, "tail": kept.tail}, ensure_ascii=False)
        what = f", {kept.shape}" if kept.shape else ""
        return f"output (large: {kept.size:,} bytes{what}; only its ends are shown): {ends}"
    return f"output: {step.text()}" if step.status == "succeeded" else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _shares(sizes: dict[int, int], limit: int, weights: dict[int, int]) -> dict[int, int]:
    """How many characters each may have: all it needs, or an equal share (by weight) of what the others leave."""
    allowed: dict[int, int] = {}
    left = limit
    open_ = set(sizes)
    while open_:
        unit = left / sum(weights[at] for at in open_)
        small = {at for at in open_ if sizes[at] <= unit * weights[at]}
        if not small:
            allowed.update({at: max(24, int(unit * weights[at])) for at in open_})
            break
        allowed.update({at: sizes[at] for at in small})
        left = max(0, left - sum(sizes[at] for at in small))
        open_ -= small
    return allowed


def final_steps(plan: Plan, steps: Sequence[StepReport]) -> list[StepId]:
    """The steps that gave an output which no other step went on to use, in plan order."""
    gave = {step.step_id for step in steps if step.status == "succeeded"}
    used = {need for step in plan.steps if step.step_id in gave for need in step.dependencies}
    return [step.step_id for step in plan.steps if step.step_id in gave and step.step_id not in used]


# ── cutting ───────────────────────────────────────────────────────────────────


def shorten(text: str, limit: int) -> str:
    """The text, or its head and tail with the number of characters between them."""
    if len(text) <= limit:
        return text
    gap = f" …({len(text) - limit:,} characters left out)… "
    room = limit - len(gap)
    if room < 20:
        return cut(text, max(1, limit - 1)) + "…"
    head = cut(text, room * 2 // 3)
    tail_at = len(text) - (room - room * 2 // 3)
    while tail_at < len(text) and not _boundary(text, tail_at):
        tail_at += 1
    return head + gap + text[tail_at:]


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of the text's beginning, never ending inside what a reader sees as one."""
    if len(text) <= limit:
        return text
    at = limit
    while at > 0 and not _boundary(text, at):
        at -= 1
    return text[:at]


_JOINER = "\u200d"


def _boundary(text: str, at: int) -> bool:
    """False between the parts of one visible character: accents, emoji sequences, flags."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if after == _JOINER or before == _JOINER or (before == "\r" and after == "\n"):
        return False
    if (
        unicodedata.combining(after)
        or unicodedata.category(after) in ("Mn", "Me")
        or "\U0001f3fb" <= after <= "\U0001f3ff"
    ):
        return False
    if _regional(before) and _regional(after):
        run = at
        while run > 0 and _regional(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 0
    return True


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
