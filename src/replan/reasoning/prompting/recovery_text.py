"""Failures, tries, rounds and earlier plans in words, for the prompts that decide how to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from replan.core.recovery.substitutes import EFFECT_WORDS
from replan.core.types import Evaluation, Fault, Plan, Step, ToolSpec
from replan.reasoning.prompting.describe import one_line, task_data, today_text, tool_lines
from replan.reasoning.prompting.history import as_recorded, render_steps, shorten
from replan.reasoning.prompting.previous import Use, previous_text
from replan.reasoning.prompting.prompts import fence
from replan.reasoning.prompting.recovery_view import DoneCall, ReadingView, TryView
from replan.reasoning.prompting.view import StepReport, TaskView


class Room(NamedTuple):
    """Characters that each part of a prompt may take."""

    tools: int
    most_tools: int
    data: int
    step: int
    error: int
    done: int
    tries: int
    plan: int
    words: int
    """A text in a model's or a person's words: a hint, guidance, a finding."""
    most_steps: int
    most_lines: int
    short: int
    """Tools in one line each."""


ROOM = {
    "standard": Room(40_000, 60, 6_000, 6_000, 12_000, 40_000, 16_000, 20_000, 6_000, 100, 40, 12_000),
    "small": Room(3_000, 10, 800, 800, 1_000, 2_500, 1_200, 1_500, 500, 12, 8, 3_000),
}
_MOST_TRIES = 12


def joined(*parts: str) -> str:
    """What there is of the parts, one below the other."""
    return "\n\n".join(part for part in parts if part.strip())


def section(title: str, label: str, text: str) -> str:
    """A title and the fenced text; nothing at all without a text."""
    return f"{title}\n{fence(label, text)}" if text.strip() else ""


def compact(value: Any, limit: int) -> str:
    """A value as JSON in one line."""
    return shorten(json.dumps(value, ensure_ascii=False, default=str), limit)


# ── task and tools ────────────────────────────────────────────────────────────


def task_text(task: TaskView, style: str, use: Use = "look") -> str:
    """The task with its data, the tasks that it follows, and the date."""
    today = today_text(task, style)
    data = task_data(task, limit=ROOM[style].data)
    told = fence("task", shorten(task.description, 4 * ROOM[style].words + 8_000))
    before = previous_text(task, style, use)
    if style == "small":
        parts = (section("Data:", "data", data), before, today, f"Task:\n{told}")
        return "\n".join(part for part in parts if part)
    return joined(told, today, section("Data of the task:", "data", data), before)


def guidance_text(task: TaskView, style: str) -> str:
    """The advice of whoever runs the service."""
    return (
        f"# Advice for this kind of task\n\n{shorten(task.guidance, ROOM[style].words)}"
        if task.guidance
        else ""
    )


def tools_text(title: str, tools: Sequence[ToolSpec], style: str, left_out: int = 0) -> str:
    """The tools in full, as far as they have been chosen to be shown."""
    if not tools:
        return f"{title} (there are none)"
    lines = tool_lines(tools, style=style, limit=ROOM[style].tools)
    more = f"\n({left_out} more are not shown)" if left_out else ""
    return section(title, "tools", lines + more)


def shown_tools(tools: Sequence[ToolSpec], first: Sequence[str], style: str) -> list[ToolSpec]:
    """As many tools as there is room for; those named in `first` before the others."""
    place = {name: at for at, name in enumerate(first)}
    ranked = sorted(tools, key=lambda tool: place.get(tool.id, len(place)))
    shown: list[ToolSpec] = []
    room = ROOM[style].tools
    for tool in ranked[: ROOM[style].most_tools]:
        room -= len(tool_lines([tool], style=style, limit=ROOM[style].tools // len(ranked)))
        if room < 0 and shown:
            break
        shown.append(tool)
    return shown


# ── steps and their failures ──────────────────────────────────────────────────


def tools_in_short(title: str, tools: Sequence[ToolSpec], room: int) -> str:
    """Tools in one line each, as many as there is room for (characters)."""
    shown: list[str] = []
    for tool in tools:
        line = f"{tool_lines([tool], style='small', limit=160)} ({EFFECT_WORDS[tool.effect]})"
        room -= len(line) + 1
        if room < 0 and shown:
            break
        shown.append(shorten(line, 2_000))
    if len(tools) > len(shown):
        shown.append(f"({len(tools) - len(shown)} more are not shown)")
    return section(title, "tools", "\n".join(shown))


def told_already(task: TaskView, done: Sequence[StepReport]) -> dict[str, str]:
    """Long values that the prompt holds anyway, as JSON, and where."""
    found: dict[str, str] = {}

    def note(value: Any, where: str) -> None:
        text = json.dumps(value, ensure_ascii=False, default=str)
        if len(text) > _LONG:
            found.setdefault(text, f"({where}, {len(text):,} characters)")

    for name, value in task.metadata.items():
        note(value, f"as {name} in the data")
    for one in done:
        note(one.output, f"the output of {one.step_id}")
        for name, value in one.output.items() if isinstance(one.output, dict) else ():
            note(value, f"{name} in the output of {one.step_id}")
    return found


def once(parameters: Mapping[str, Any], told: Mapping[str, str]) -> dict[str, Any]:
    """The parameters, with what the prompt tells elsewhere only named."""
    return {
        name: told.get(json.dumps(value, ensure_ascii=False, default=str), value) if told else value
        for name, value in parameters.items()
    }


_LONG = 300
"""Characters of a value from which on it is told only once."""


def step_text(step: Step, style: str, *, called: Any = None, place: str = "") -> str:
    """A step as planned, and as called where that is something else."""
    room = ROOM[style].step
    planned = step.parameters
    lines = [f"{step.step_id}{f' ({one_line(step.name)[:120]})' if step.name else ''}: {tools_of(step)}"]
    if step.for_each:
        lines.append(f"for each: {shorten(one_line(step.for_each), 200)}")
    if step.when:
        lines.append(f"when: {shorten(one_line(step.when), 200)}")
    if not called or called != planned:
        if step.actions:
            planned = {action.action_id: action.parameters for action in step.actions}
        lines.append(f"planned as: {compact(planned, room)}")
    if called:
        lines.append(f"called with: {compact(called, room)}")
    if place:
        lines.append(f"which call: {place}")
    if step.expected_output:
        lines.append(f"should give: {shorten(one_line(step.expected_output), 400)}")
    return "\n".join(lines)


def tools_of(step: Step) -> str:
    """The tool of a step, or those of its actions."""
    return step.tool or ", ".join(dict.fromkeys(action.tool for action in step.actions)) or "(no tool)"


def fault_text(fault: Fault, limit: int) -> str:
    """What code made of a fault, and its message in full."""
    status = f", HTTP {fault.status}" if fault.status is not None else ""
    return f"{fault.category}{status}: {shorten(fault.message, limit)}"


def tries_text(tries: Sequence[TryView], style: str) -> str:
    """Every failed try, the latest last; of very many the first and the latest."""
    kept = [*tries[:2], *tries[-(_MOST_TRIES - 2) :]] if len(tries) > _MOST_TRIES else list(tries)
    each = max(120, ROOM[style].tries // max(1, len(kept)))
    numbers = [*range(1, 3), *range(len(tries) - _MOST_TRIES + 3, len(tries) + 1)]
    blocks = []
    for at, one in enumerate(kept):
        number = numbers[at] if len(tries) > _MOST_TRIES else at + 1
        of = f"(in {one.where}, of an earlier plan) " if one.where else ""
        lines = [f"{number}. {of}{one.tool} {compact(one.parameters, each // 2)}"]
        lines.append(f"   error: {shorten(one_line(one.error), each // 2)}")
        if one.proposal:
            lines.append(f"   proposed then: {shorten(one_line(one.proposal), each // 3)}")
        if one.carried_out:
            lines.append(f"   carried out: {shorten(one_line(one.carried_out), each // 3)}")
        blocks.append("\n".join(lines))
    if len(kept) < len(tries):
        blocks.insert(2, f"({len(tries) - len(kept)} more)")
    return "\n".join(blocks)


def readings_text(readings: Sequence[ReadingView], style: str) -> str:
    """What has been read to find out whether a call took effect."""
    each = max(200, ROOM[style].tries // max(1, len(readings)))
    return "\n".join(
        f"{one.tool} {compact(one.parameters, 400)} -> "
        + (f"error: {shorten(one_line(one.error), 400)}" if one.error else shorten(one.output, each))
        for one in readings
    )


def steps_text(title: str, steps: Sequence[StepReport], style: str, *, latest: bool = False) -> str:
    """Steps with their results or errors; failures get a larger share of the room.

    Of too many the failed ones are shown and the first others, or with `latest` the last ones.
    """
    if not steps:
        return ""
    most, plain = ROOM[style].most_steps, style == "small"
    if plain:
        steps = as_recorded(steps)
    ranked = sorted(range(len(steps)), key=lambda at: (steps[at].status != "failed", -at if latest else at))
    kept = [steps[at] for at in sorted(ranked[:most])]
    failed = [step.step_id for step in kept if step.status == "failed"]
    told = render_steps(kept, limit=ROOM[style].done, final=failed, plain=plain)
    if len(kept) < len(steps):
        told += f"\n\n({len(steps) - len(kept)} more steps)"
    return section(title, "steps", told)


# ── rounds and plans ──────────────────────────────────────────────────────────


def plan_text(plan: Plan, steps: Sequence[StepReport], style: str, otherwise: str = "not run") -> str:
    """A plan in one line a step, with what became of each; `otherwise`: of a step that is not told of."""
    status = {step.step_id: step.status for step in steps}
    called = {step.step_id: step.tool for step in steps} if style != "small" else {}
    shown = plan.steps[: 2 * ROOM[style].most_steps]
    each = max(40, ROOM[style].plan // max(1, len(shown)))
    lines = []
    for step in shown:
        line = f"{step.step_id}: {tools_of(step)}"
        if step.for_each:
            line += f" for each {shorten(one_line(step.for_each), 200)}"
        if step.allow_failed_items and style != "small":
            line += " (it goes on without items that fail)"
        if step.when and style != "small":
            line += f" when {shorten(one_line(step.when), 200)}"
        parameters = (
            {action.action_id: action.parameters for action in step.actions}
            if step.actions
            else step.parameters
        )
        line += f" {compact(parameters, each)}"
        if step.dependencies:
            line += f" after {', '.join(step.dependencies[:20])}"
        became = status.get(step.step_id, otherwise)
        if became == "succeeded" and called.get(step.step_id) not in ("", None, tools_of(step)):
            became += f", by {called[step.step_id]} in place of it"
        # JSON is on one line anyhow, and the spaces of code in it are its own
        lines.append((one_line(line) if style == "small" else line) + (f" -> {became}" if became else ""))
    if len(plan.steps) > len(shown):
        lines.append(f"({len(plan.steps) - len(shown)} more steps)")
    if plan.more and style != "small":
        lines.append(f"still to be planned once these have run: {shorten(one_line(plan.more), 1_500)}")
    return "\n".join(lines)


def evaluation_text(evaluation: Evaluation | None, style: str) -> str:
    """A verdict in a few lines."""
    if evaluation is None:
        return ""
    verdict = "successful" if evaluation.is_successful else "not successful"
    scores = ", ".join(f"{name} {score:g}" for name, score in evaluation.dimensions.model_dump().items())
    lines = [f"overall score {evaluation.overall_score:g}, {verdict}; {scores}"]
    for name, found in (
        ("failures", evaluation.failures),
        ("successes", evaluation.successes),
        ("suggestions", evaluation.improvement_suggestions),
    ):
        if found:
            lines.append(f"{name}: {shorten(one_line('; '.join(found)), ROOM[style].words)}")
    if evaluation.final_output is not None:
        lines.append(f"answer so far: {compact(evaluation.final_output, ROOM[style].words)}")
    return "\n".join(lines)


def lines_text(lines: Sequence[str], style: str) -> str:
    """Texts one a line, the latest kept where there are too many."""
    kept = lines[-ROOM[style].most_lines :]
    each = max(80, 2 * ROOM[style].words // max(1, len(kept)))
    left = [f"({len(lines) - len(kept)} earlier ones are left out)"] if len(kept) < len(lines) else []
    return "\n".join([*left, *(f"- {shorten(one_line(line), each)}" for line in kept)])


def done_text(then: str, lines: Sequence[str], done: Sequence[DoneCall], style: str) -> str:
    """What has taken effect. A strong model is told apart what may be done again; `then`: what goes for the rest."""
    if style == "small" or not done:
        return section(f"Has taken effect{then}:", "effects", lines_text(lines, style))
    once = [one.text for one in done if not one.repeatable]
    again = [one.text for one in done if one.repeatable]
    return joined(
        section(
            f"Has taken effect, each once more with every call{then}:", "effects", lines_text(once, style)
        ),
        section(
            "Has been done, and may be done again where it has to be:", "repeatable", lines_text(again, style)
        ),
    )


def counters_text(counters: Mapping[str, str], budget: str) -> str:
    """Counters and what is left of the budget, as code knows them."""
    counted = "; ".join(f"{name}: {value}" for name, value in counters.items())
    return "\n".join(
        line
        for line in (
            f"Counted: {counted}." if counted else "",
            f"Left of the budget: {budget}" if budget else "",
        )
        if line
    )


def guidance_lines(guidance: Mapping[str, Any], suggestions: Sequence[str], style: str) -> str:
    """What a reflection found, name by name."""
    lines = []
    for name, value in {**guidance, **({"suggestions": list(suggestions)} if suggestions else {})}.items():
        items = value if isinstance(value, list | tuple) else [value]
        told = "; ".join(
            item if isinstance(item, str) else compact(item, 400) for item in items if item not in (None, "")
        )
        if told:
            lines.append(f"{name.replace('_', ' ')}: {shorten(one_line(told), ROOM[style].words)}")
    return "\n".join(lines)
