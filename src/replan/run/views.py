"""What the loop shows reasoning of a failure, a round, and a plan to be made anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from replan.core import budget
from replan.core.draft import references_of
from replan.core.explain_recovery import tried
from replan.core.fold_recovery import rounds_of
from replan.core.guard import repeated_in_step, repeats
from replan.core.healing import Healing
from replan.core.policy import OlderLimits
from replan.core.reflection import ActionType, Strategy, SuggestedAction
from replan.core.state import Slot, StepState
from replan.core.substitutes import substitutes
from replan.core.types import Fault, JsonObject, Plan, StepId, ToolSpec
from replan.reasoning.history import cut
from replan.reasoning.recovery_view import (
    FailureView,
    ReadingView,
    RepairView,
    ReplanView,
    RoundView,
    TryView,
    UsedTool,
)
from replan.reasoning.view import StepReport
from replan.run.calls import Outline
from replan.run.context import Run
from replan.run.masking import shown
from replan.run.outputs import Loaded
from replan.run.reports import report_of, reports, view_of

_MOST_TRIES = 20
_MOST_DONE = 60
"""Succeeded steps that a reflection on one step is shown."""
_SUMMARY = 200
"""Characters of a tool's execution summary (specification §4.1)."""


def tools_for(run: Run) -> list[ToolSpec]:
    """The tools that the task may use, those that were selected first."""
    every = run.parts.tools.specs()
    selection = run.state.selection
    chosen = {tool.tool_id: at for at, tool in enumerate(selection.tools)} if selection else {}
    return sorted(every, key=lambda tool: chosen.get(tool.id, len(chosen)))


def budget_left(run: Run) -> str:
    state = run.state
    return budget.left(state.policy.budget, state.usage, rounds=state.round, secs=state.active_secs)


def effects_done(run: Run) -> list[str]:
    """Every effect that has taken place, in one line each."""
    told = []
    known = run.state.recovery
    dropped = known.dropped.values() if known is not None else ()
    for step in (*run.state.earlier.values(), *dropped, *run.state.steps.values()):
        told += effects_of(step)
    return told


def effects_of(step: StepState) -> list[str]:
    """What calls of the step have done; what was only taken from an earlier call is told there."""
    return [
        f"{call.tool_id} with {call.parameters} in {step.step.step_id}"
        for call in step.calls.values()
        if call.status == "succeeded" and call.effect != "reads" and not call.reused
    ]


# ── one step ──────────────────────────────────────────────────────────────────


def failure_view(
    run: Run,
    step: StepState,
    slot: Slot,
    fault: Fault,
    meant: Outline,
    *,
    allowed: Sequence[ActionType],
    healing: Healing,
    in_doubt: bool,
) -> FailureView:
    """A failed call, as the reflection on it is shown it. `healing` counts this failure already."""
    tools = tools_for(run)
    tool = meant.tool
    limit = run.state.policy.max_output_bytes
    return FailureView(
        task=view_of(run),
        step=step.step,
        place=slot.words(),
        tool=tool,
        parameters=shown(tool, meant.parameters, limit) if tool is not None else meant.parameters,
        fault=fault,
        tools=run.parts.record.told(tools),
        substitutes=substitutes(tool, tools) if tool is not None else run.parts.tools.nearest(meant.name, 5),
        done=[report_of(one, Loaded(), whole=False) for one in _near(run, step)],
        tries=tries_of(
            replace(healing, reflected=healing.reflected[:-1]), slot
        ),  # this failure is told above
        readings=[
            ReadingView(one.tool_id, one.parameters, one.output, one.error)
            for one in healing.readings.get(slot, ())
        ],
        allowed=allowed,
        counters=_counters(healing, slot, run.state.policy.older),
        budget=budget_left(run),
        repeats=["the same error has come twice: another try of the same kind will not help"]
        if healing.repeated(slot)
        else [],
        hint=run.state.recovery.hint if run.state.recovery else "",
        in_doubt=in_doubt,
    )


def tries_of(healing: Healing | None, slot: Slot | None = None) -> list[TryView]:
    """The failed tries of one call of a step, or of the whole step; of very many the latest."""
    views = []
    for one in healing.failures(slot)[-_MOST_TRIES:] if healing is not None else ():
        proposal = one.proposal.suggested_action if one.proposal is not None else None
        done = _line(one.action)
        views.append(
            TryView(
                tool=one.tool_id,
                parameters=one.parameters,
                error=f"{one.error.category}: {one.error.message}",
                proposal=_line(proposal) if proposal is not None else "",
                carried_out=done if one.by == "model" else f"{done} ({one.reason})",
            )
        )
    return views


def _line(action: SuggestedAction) -> str:
    return f"{action.type} {action.data}" if action.data else action.type


def _counters(healing: Healing, slot: Slot, older: OlderLimits) -> dict[str, str]:
    def of(count: int, limit: int | None) -> str:
        return str(count) if limit is None else f"{count} of {limit}"

    return {
        "failed tries of this call": of(len(healing.failures(slot)), older.consecutive_failure_threshold),
        "other parameters or tools tried for this call": of(healing.retries(slot), older.max_step_retries),
        "times the step was written anew": of(healing.repairs, older.max_single_step_repairs),
    }


def _near(run: Run, step: StepState) -> Iterable[StepState]:
    """The succeeded steps that matter to this one: what it depends on, then others."""
    steps = run.state.steps
    first = [steps[name] for name in step.step.dependencies if name in steps]
    others = (*run.state.earlier.values(), *steps.values())
    found = {one.step.step_id: one for one in (*first, *others) if one.status == "succeeded"}
    return list(found.values())[:_MOST_DONE]


def repair_view(run: Run, step: StepState, fault: Fault, hint: str, tools: Sequence[ToolSpec]) -> RepairView:
    """A step to be written anew."""
    state = run.state
    assert state.plan is not None
    return RepairView(
        task=view_of(run),
        plan=state.plan,
        step=step.step,
        fault=fault,
        hint=hint,
        tries=tries_of(step.healing),
        done=[report_of(one, Loaded(), whole=False) for one in _near(run, step)],
        needed_by=[
            f"{name} refers to {', '.join(paths)}"
            for name, paths in referred_paths(run, step.step.step_id).items()
        ],
        tools=tools,
        budget=budget_left(run),
        done_effects=effects_of(step),
    )


def referred_paths(run: Run, step_id: StepId) -> dict[StepId, list[str]]:
    """What other steps take from the output of this one: step → references as written."""
    found: dict[StepId, list[str]] = {}
    for name in run.state.graph().needed_by.get(step_id, ()):
        refs = [ref.raw for ref in references_of(run.state.steps[name].step) if ref.head == step_id]
        if refs:
            found[name] = list(dict.fromkeys(refs))
    return found


# ── a round ───────────────────────────────────────────────────────────────────


def round_view(run: Run) -> RoundView:
    """The round, as the overall reflection is shown it."""
    state = run.state
    assert state.plan is not None
    judged = state.evaluation
    known = state.recovery
    return RoundView(
        task=view_of(run),
        plan=state.plan,
        steps=[*earlier(run), *reports(run, Loaded()), *left_out(run)],
        evaluation=judged.evaluation if judged else None,
        trigger=_trigger(run),
        history=[*history_lines(run), *tried(state)],
        statistics=_statistics(run),
        budget=budget_left(run),
        round=state.round,
        repeats=[*repeats(state), *repeated_in_step(state)],
        hint=known.hint if known else "",
        done_effects=effects_done(run),
    )


def earlier(run: Run) -> list[StepReport]:
    """Finished steps that a later plan has left out: what they found is used on."""
    return [report_of(step, Loaded(), whole=False) for step in run.state.earlier.values()]


def left_out(run: Run) -> list[StepReport]:
    """Steps that failed and that a later plan has left out."""
    known = run.state.recovery
    steps = known.dropped.values() if known is not None else ()
    return [report_of(step, Loaded(), whole=False) for step in steps if step.fault is not None]


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
        "steps succeeded": str(of.count("succeeded") + len(state.earlier)),
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
    strategy: Strategy,
    reason: str,
    *,
    previous: Plan,
    kept: Sequence[StepId],
    usable: dict[str, JsonObject | None],
    about: Sequence[StepId],
    guidance: JsonObject,
) -> ReplanView:
    """The plan that is to be made anew, as the planner is shown it."""
    state = run.state
    known = state.recovery
    judged = known.evaluation if known else None
    used = state.ids_used()
    return ReplanView(
        task=view_of(run),
        round=state.round,
        strategy=strategy.type,
        reason=reason,
        previous=previous,
        steps=[*earlier(run), *reports(run, Loaded())],
        kept=kept,
        usable=usable,
        failed=about,
        used_ids=sorted(used),
        next_id=next_id(used),
        evaluation=judged.evaluation if judged else None,
        guidance=guidance,
        suggestions=strategy.suggestions,
        done_effects=effects_done(run),
        tried_plans=history_lines(run),
        budget=budget_left(run),
        hint=known.hint if known else "",
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
    known = run.state.recovery
    steps = (
        *(known.dropped.values() if known else ()),
        *run.state.earlier.values(),
        *run.state.steps.values(),
    )
    for step in steps:
        for one in step.healing.failures() if step.healing is not None else ():
            _use(found, names, one.tool_id, "failed", one.error.message, "")
        report = report_of(step, Loaded(), whole=False)
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
