"""A task's state, after each event, in the few words that the page's fold and the service's have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replan.core.events import Record
from replan.core.state.fold import apply
from replan.core.state.task import State

IN_BROWSER = """async (logs) => {
  const { apply, newTask } = await import("replan/store");
  const brief = (task) => {
    const now = [...task.steps.values()].filter((step) => !step.leftOut);
    const asks = (one) => one.about !== "question" || task.waiting.has(one.call_key);
    const of = (kind) => [...task.waiting].filter(([, one]) => one.kind === kind && asks(one)).map(([id]) => id).sort();
    const inDoubt = of("doubt");
    return {
      status: task.status, round: task.round, plans: task.version,
      steps: Object.fromEntries(now.map((step) => [step.id, step.status])),
      items: Object.fromEntries(now.filter((step) => step.items).map((step) => [step.id, step.items.total])),
      ended: Object.fromEntries(now.filter((step) => step.endedAt).map((step) => [step.id, Math.round(step.endedAt)])),
      usage: [task.usage.calls, task.usage.tokens, task.usage.tool_calls, Math.round(task.usage.cost * 1e6)],
      doubts: inDoubt,
      approvals: of("approval"), questions: of("question"),
      paused: task.pause !== null, waits: task.halt !== null,
    };
  };
  return logs.map((events) => {
    const task = newTask();
    return events.map((event) => { apply(task, event); return brief(task); });
  });
}"""


def briefs(records: Iterable[Record]) -> list[dict[str, Any]]:
    """The same of the service's fold."""
    state, out = State(), []
    for record in records:
        state.task_id = record.task_id
        apply(state, record.event, record.ts, record.round, record.seq)
        out.append(_brief(state))
    return out


def _brief(state: State) -> dict[str, Any]:
    steps = state.steps
    usage = state.usage
    known = state.recovery
    return {
        "status": state.status,
        "round": state.round,
        "plans": state.plans,
        "steps": {name: one.status for name, one in steps.items()},
        "items": {name: one.items for name, one in steps.items() if one.items is not None},
        "ended": {name: round(one.ended * 1000) for name, one in steps.items() if one.ended},
        "usage": [
            usage.llm_calls,
            usage.input_tokens + usage.output_tokens,
            usage.tool_calls,
            round(usage.cost_usd * 1e6),
        ],
        "doubts": sorted(state.in_doubt),
        "approvals": sorted(one.approval_id for one in known.open_approvals())
        if known and not state.ended
        else [],
        "questions": sorted(one.question_id for one in state.open_questions()) if not state.ended else [],
        "paused": state.pause is not None,
        "waits": state.waiting is not None,
    }
