"""What the loop shows reasoning of a round, and of a plan to be made anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replan.core.events import ReplanningStarted
from replan.core.recovery.guard import repeated_in_step, repeats
from replan.core.report.explain_recovery import tried, tried_in
from replan.core.state.fold_recovery import rounds_of
from replan.core.types import JsonObject, Plan, StepId
from replan.reasoning.prompting.history import cut
from replan.reasoning.prompting.recovery_view import (
    DoneCall,
    ReplanView,
    RoundView,
    UsedTool,
)
from replan.run.session.context import Run
from replan.run.session.outputs import Loaded
from replan.run.views.steps import budget_left, done_calls, effects_of, tools_for
from replan.run.views.task import history, report_of, view_of

_SUMMARY = 200
"""Characters of a tool's execution summary (specification §4.1)."""


def round_view(run: Run, style: str) -> RoundView:
    """The round, as the overall reflection is shown it."""
    state = run.state
    assert state.plan is not None
    outdated = state.recovery is not None and state.recovery.outdated
    judged = state.recovery.evaluation if outdated and state.recovery is not None else state.evaluation
    return RoundView(
        task=view_of(run, "reflection"),
        plan=state.plan,
        steps=history(run, Loaded()),
        evaluation=judged.evaluation if judged else None,
        outdated=outdated,
        trigger=_trigger(run),
        history=[*history_lines(run), *tried(state)] if style == "small" else _what_happened(run),
        statistics=_statistics(run),
        budget=budget_left(run),
        round=state.round,
        repeats=[*repeats(state), *repeated_in_step(state)],
        done_effects=effects_done(run),
        done=calls_done(run),
        tools=tools_for(run),
    )


def effects_done(run: Run) -> list[str]:
    """Every effect that has taken place, in one line each."""
    return [line for step in run.state.every_step() for line in effects_of(step)]


def calls_done(run: Run) -> list[DoneCall]:
    """The same, told apart by whether it may be repeated."""
    return [one for step in run.state.every_step() for one in done_calls(step)]


def _what_happened(run: Run) -> list[str]:
    """The rounds so far, each after what failed in it; of this round only what the rest does not tell."""
    told: list[str] = []
    for line, note in zip(history_lines(run), rounds_of(run.state), strict=True):
        told += [f"in round {note.number}: {failed}" for failed in tried_in(run.state, note)]
        if note.number < run.state.round or note.strategy or note.outcome:
            told.append(line)
    return told


def _trigger(run: Run) -> str:
    state = run.state
    if state.escalation is not None and state.escalation.step_id is None:
        return state.escalation.reason
    if state.escalation is not None:
        which = f"step {state.escalation.step_id}: " if state.escalation.step_id else ""
        return f"{which}{state.escalation.reason}"
    return "the round was judged, and did not do"


def history_lines(run: Run) -> list[str]:
    """The rounds so far, in one line each."""
    return [
        f"round {note.number}"
        + (f" ({note.strategy}: {note.changes})" if note.strategy else "")
        + (f", judged {note.score:g}" if note.score is not None else "")
        + (f": {note.outcome}" if note.outcome else "")
        for note in rounds_of(run.state)
    ]


def _statistics(run: Run) -> dict[str, str]:
    state, known = run.state, run.state.recovery
    of = [step.status for step in state.steps.values()]
    older = state.policy.older
    replans = str(known.replans if known else 0)
    if older.max_task_replanning_attempts is not None:
        replans += f" of {older.max_task_replanning_attempts}"
    usage = state.usage
    return {
        "round": str(state.round),
        "steps succeeded": str(
            of.count("succeeded") + sum(one.status == "succeeded" for one in state.left_out)
        ),
        "steps failed": str(of.count("failed")),
        "steps not run": str(len(of) - of.count("succeeded") - of.count("failed")),
        "step retries": str(known.retries if known else 0),
        "step repairs": str(known.repairs if known else 0),
        "replans": replans,
        "model calls": str(usage.llm_calls),
        "tool calls": str(usage.tool_calls),
        "tokens": str(usage.input_tokens + usage.output_tokens),
        "seconds": f"{state.active_secs:.0f}",
    }


# ── a plan to be made anew ────────────────────────────────────────────────────


def replan_view(
    run: Run,
    started: ReplanningStarted,
    *,
    previous: Plan,
    kept: Sequence[StepId],
    usable: dict[str, JsonObject | None],
    about: Sequence[StepId],
) -> ReplanView:
    """The plan that is to be made anew, as the planner is shown it."""
    state = run.state
    known = state.recovery
    judged = known.evaluation if known and not started.continues else None
    used = state.ids_used()
    return ReplanView(
        task=view_of(run, "planning"),
        round=state.round,
        strategy="continue" if started.continues else started.strategy.type,
        reason=started.reason,
        previous=previous,
        steps=history(run, Loaded()),
        kept=kept,
        usable=usable,
        failed=about,
        used_ids=sorted(used),
        next_id=next_id(used),
        evaluation=judged.evaluation if judged else None,
        guidance=started.guidance,
        suggestions=started.strategy.suggestions,
        done_effects=effects_done(run),
        done=calls_done(run),
        tried_plans=history_lines(run),
        budget=budget_left(run),
    )


def next_id(used: Iterable[str]) -> str:
    """The first free id of the form `step_N` after every one that was used."""
    numbers = [
        int(name[5:]) for name in used if name.startswith("step_") and name[5:].isdecimal() and len(name) < 15
    ]
    return f"step_{max(numbers, default=0) + 1}"


def used_tools(run: Run) -> list[UsedTool]:
    """The tools that were used before, for the selection in replanning mode."""
    found: dict[str, UsedTool] = {}
    names = {tool.id: tool.name for tool in run.parts.tools.specs()}
    for step in run.state.every_step():
        for one in step.healing.failures() if step.healing is not None else ():
            _use(found, names, one.tool_id, "failed", one.error.message, "")
        report = report_of(step, Loaded(), whole=False, state=run.state)
        for call in step.calls.values():
            status = "succeeded" if call.status == "succeeded" else "failed"
            failure = call.fault.message if call.fault is not None and status == "failed" else ""
            _use(found, names, call.tool_id, status, failure, report.text() if status == "succeeded" else "")
    return list(found.values())


def _use(
    found: dict[str, UsedTool], names: dict[str, str], tool: str, status: str, failure: str, summary: str
) -> None:
    before = found.get(tool)
    if before is not None and before.execution_status != status:
        status = "partly succeeded"
        failure, summary = failure or before.failure_reason, summary or before.execution_summary
    found[tool] = UsedTool(tool, names.get(tool) or tool, status, failure, cut(summary or failure, _SUMMARY))
