"""What happened, for prompts: every step in a few lines, all of it within a bound."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from replan.core.types import JsonObject, Plan, StepId
from replan.reasoning.prompting.view import MOST_CALLS, CallReport, ItemCalls, StepReport

_MOST_STEPS = 200
_LINE = 400
"""Characters of one line of a step that is not its output."""


def render_steps(
    steps: Sequence[StepReport],
    *,
    limit: int,
    final: Collection[StepId] = (),
    plain: bool = False,
    planned: bool = False,
) -> str:
    """The steps in order, their outputs and parameters sharing about `limit` characters.

    Short texts are whole; the long ones share what is left, and those of the `final` steps, on which the
    answer rests, get twice the share. Beyond 200 steps the unremarkable ones are only counted.
    `plain`: as the built-in model is shown them, with what its recordings have. `planned`: with how parameters came about.
    """
    if plain:
        steps = as_recorded(steps)
    final = frozenset(final)
    shown = _worth_showing(steps, final)
    bodies = {at: _body(steps[at], plain=plain) for at in shown}
    given = {} if plain else {at: _parameters(steps[at].parameters) for at in shown if steps[at].parameters}
    items = {} if plain else {at: _items(steps[at].items) for at in shown if steps[at].items}
    texts = {(at, part): text for part, of in enumerate((bodies, given, items)) for at, text in of.items()}
    allowed = _shares(
        {key: len(text) for key, text in texts.items()},
        limit,
        {key: _weight(steps[key[0]], final) for key in texts},
    )
    cut_ = {key: shorten(text, allowed[key]) for key, text in texts.items()}
    blocks = [
        _block(
            steps[at], cut_[at, 0], cut_.get((at, 1), ""), cut_.get((at, 2), ""), plain=plain, planned=planned
        )
        for at in shown
    ]
    if left := len(steps) - len(shown):
        done = sum(1 for at, step in enumerate(steps) if at not in bodies and step.status == "succeeded")
        blocks.append(f"({left} more steps, of which {done} succeeded)")
    return "\n\n".join(blocks) or "(there were no steps)"


def as_recorded(steps: Sequence[StepReport]) -> list[StepReport]:
    """Finished steps of earlier plans, the plan, and then the failed ones of earlier plans; of what was reused no parameters."""
    kept = [
        replace(step, parameters={}) if step.reused else step
        for step in steps
        if step.current or step.status in ("succeeded", "failed")
    ]
    return sorted(kept, key=lambda step: 1 if step.current else 0 if step.status == "succeeded" else 2)


def _weight(step: StepReport, final: Collection[StepId]) -> int:
    """What the answer rests on is cut last; what a later plan has left out, first."""
    return 4 if step.step_id in final else 2 if step.current else 1


def _worth_showing(steps: Sequence[StepReport], final: Collection[StepId]) -> list[int]:
    if len(steps) <= _MOST_STEPS:
        return list(range(len(steps)))
    ranked = sorted(
        range(len(steps)),
        key=lambda at: (steps[at].step_id not in final, steps[at].status == "succeeded", at),
    )
    return sorted(ranked[:_MOST_STEPS])


def _block(step: StepReport, body: str, given: str, items: str, *, plain: bool, planned: bool) -> str:
    title = f"{step.step_id} ({shorten(_one_line(step.name), 120)})" if step.name else step.step_id
    head = f"{title}: {step.tool} -> {step.status}"
    if plain:
        if step.parameters:
            told = json.dumps(step.parameters, ensure_ascii=False, default=str)
            head += f"\n  parameters: {shorten(told, _LINE)}"
        return f"{head}\n  {body}" if body else head
    lines = ["; ".join([head, *step.notes])]
    if step.when:
        lines.append(f"when: {shorten(_one_line(step.when), 200)}")
    if step.for_each:
        lines.append(f"for each: {shorten(_one_line(step.for_each), 200)}")
    if step.expected:
        lines.append(f"should give: {shorten(_one_line(step.expected), 200)}")
    if planned and step.planned:
        told = json.dumps(step.planned, ensure_ascii=False, default=str)
        lines.append(f"planned as: {shorten(told, _LINE)}")
    if given:
        lines.append(f"parameters: {given}")
    lines += [_call_line(call) for call in step.calls[:MOST_CALLS]]
    if len(step.calls) > MOST_CALLS:
        lines.append(f"({len(step.calls) - MOST_CALLS} more calls)")
    return "\n  ".join([*lines, *([items] if items else []), *([body] if body else [])])


def _call_line(call: CallReport) -> str:
    line = "; ".join([f"{call.place}: {call.tool} {_told(call.parameters)} -> {call.status}", *call.notes])
    return f"{line}; error: {shorten(_one_line(call.error), _LINE)}" if call.error else line


def _items(groups: Sequence[ItemCalls]) -> str:
    """What the items of a list were called with: once what they have in common, and then each item's own."""
    return "\n  ".join(line for group in groups for line in _group(group))


def _group(group: ItemCalls) -> Iterator[str]:
    at = f"{group.place}, " if group.place else ""
    if group.parameters or not group.each:
        which = "every item" if group.every else f"the other {group.count} items"
        yield f"{at}{which}: {group.tool} {_told(group.parameters)}"
        tool = ""
    else:
        tool = f"{group.tool} "
    for place, own in group.each:
        yield f"{at}{place}: {tool}{_told(own)}"
    if group.each and (left := group.count - len(group.each)):
        yield f"({left} more items, called in the same way)"


def _told(parameters: JsonObject) -> str:
    return shorten(json.dumps(parameters, ensure_ascii=False, default=str), _LINE)


def _parameters(given: JsonObject) -> str:
    """Parameters as JSON on one line; texts of several lines, as code is, below it, line by line."""
    written = {
        name: value for name, value in given.items() if isinstance(value, str) and "\n" in value.strip()
    }
    rest = {name: value for name, value in given.items() if name not in written}
    parts = [json.dumps(rest, ensure_ascii=False, default=str)] if rest or not written else []
    for name, text in written.items():
        below = "\n".join(f"    | {line}" for line in text.splitlines())
        parts.append(f"{name}:\n{below}")
    return "\n  ".join(parts)


def _body(step: StepReport, *, plain: bool) -> str:
    if step.status == "skipped":
        told = _one_line(step.reason)
        if not plain and step.when and told.endswith(end := f": {_one_line(step.when)}"):  # it stands above
            told = told.removesuffix(end)
        return f"skipped because: {told}" if told else ""
    if step.error is not None and step.status != "succeeded":
        error = f"error: {_one_line(step.error_text())}"
        if step.output is None:
            return error
        return f"{error}\n  output of the items that succeeded, in order: {step.text()}"
    if step.artifact is not None:
        kept = step.artifact
        ends = json.dumps({"head": kept.head, "tail": kept.tail}, ensure_ascii=False)
        what = f", {kept.shape}" if kept.shape else ""
        return f"output (large: {kept.size:,} bytes{what}; only its ends are shown): {ends}"
    return f"output: {step.text()}" if step.status == "succeeded" else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


K = TypeVar("K")


def _shares(sizes: dict[K, int], limit: int, weights: dict[K, int]) -> dict[K, int]:
    """How many characters each may have: all it needs, or an equal share (by weight) of what the others leave."""
    allowed: dict[K, int] = {}
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
