"""How results and plans look in a notebook: HTML in which everything that came from outside is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replan.core.result import TaskResult
    from replan.core.types import Plan

MOST_TEXT = 300
MOST_ROWS = 200
_MARKS = {"succeeded": "✓", "failed": "✗", "skipped": "–", "waiting": "?"}


def result_html(result: TaskResult[Any]) -> str:
    """The answer, or why there is none, and a row a step."""
    score = "" if result.final_score is None else f", score {result.final_score:g}"
    used = result.usage
    head = (
        f"<p><b>{escape(result.status)}</b>{score}, {result.total_rounds} "
        f"{'round' if result.total_rounds == 1 else 'rounds'}, {used.llm_calls} model calls, {used.tool_calls} tool calls, "
        f"{used.input_tokens + used.output_tokens} tokens, {result.total_duration_secs:.1f} s "
        f"<code>{escape(result.task_id)}</code></p>"
    )
    answer = (
        f"<p>{_text(result.final_output)}</p>" if result.is_success else f"<p>{escape(result.reason)}</p>"
    )
    rows = [
        (
            f"{_MARKS.get(step.status, '')} {step.step_id}",
            step.name,
            step.tool,
            step.status,
            f"{step.duration_secs:.2f} s",
            step.error or step.reason or ("" if step.output is None else _short(step.output)),
        )
        for step in result.steps
    ]
    return head + answer + _table(("step", "name", "tool", "status", "time", "output"), rows)


def plan_html(plan: Plan) -> str:
    """A row a step, with what it waits for."""
    rows = [
        (
            step.step_id,
            step.name,
            step.tool or ", ".join(action.tool for action in step.actions),
            _short(step.parameters) if step.parameters else "",
            ", ".join(step.dependencies),
            step.when or "",
            _short(step.for_each) if step.for_each else "",
        )
        for step in plan.steps
    ]
    title = f"<p><b>Plan, version {plan.version}</b> {escape(plan.task_description[:MOST_TEXT])}</p>"
    return title + _table(("step", "name", "tool", "parameters", "after", "when", "for each"), rows)


def _table(heads: Sequence[str], rows: Sequence[Iterable[str]]) -> str:
    if not rows:
        return ""
    shown = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[:MOST_ROWS]
    )
    more = f"<p>and {len(rows) - MOST_ROWS} more steps</p>" if len(rows) > MOST_ROWS else ""
    return (
        "<table><thead><tr>"
        + "".join(f"<th>{escape(head)}</th>" for head in heads)
        + f"</tr></thead><tbody>{shown}</tbody></table>{more}"
    )


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, indent=2)
    return escape(text).replace("\n", "<br>")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
