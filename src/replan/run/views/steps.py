"""What the loop shows reasoning of a failed call, and of a step to be written anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from replan.core.calls.site import items_in_words
from replan.core.events import StepReflected
from replan.core.limits import budget
from replan.core.limits.policy import OlderLimits
from replan.core.plan.index import references_of
from replan.core.recovery.substitutes import substitutes
from replan.core.reflection import ActionType, SuggestedAction
from replan.core.state.step_recovery import Healing
from replan.core.state.task import CallState, Slot, StepState
from replan.core.types import Effect, Fault, StepId, ToolId, ToolSpec
from replan.reasoning.prompting.recovery_view import (
    DoneCall,
    FailureView,
    ReadingView,
    RepairView,
    TryView,
)
from replan.run.calls.outline import Outline
from replan.run.calls.shown import shown
from replan.run.session.context import Run
from replan.run.session.outputs import Loaded
from replan.run.views.task import before, report_of, view_of

_MOST_TRIES = 20
_MOST_ITEMS = 4
"""Effects of one list that are told call by call."""
_MOST_DONE = 60
"""Succeeded steps that a reflection on one step is shown."""


def tools_for(run: Run) -> list[ToolSpec]:
    """The tools that the task may use, those that were selected first."""
    every = run.parts.tools.specs()
    selection = run.state.selection
    chosen = {tool.tool_id: at for at, tool in enumerate(selection.tools)} if selection else {}
    return sorted(every, key=lambda tool: chosen.get(tool.id, len(chosen)))


def budget_left(run: Run) -> str:
    state = run.state
    return budget.left(state.policy.budget, state.usage, rounds=state.rounds, secs=state.active_secs)


def effects_of(step: StepState) -> list[str]:
    """What calls of the step have done; what was only taken from an earlier call is told there."""
    return [
        f"{call.tool_id} with {call.parameters} in {step.step.step_id}"
        for call in step.every_call()
        if call.status == "succeeded" and call.effect != "reads" and not call.reused
    ]


def done_calls(step: StepState) -> list[DoneCall]:
    """The same, told apart by whether it may be repeated."""
    made = [
        call
        for call in step.every_call()
        if call.status == "succeeded" and call.effect != "reads" and not call.reused
    ]
    if step.items is not None and len(made) > _MOST_ITEMS:  # each stands among the calls of the step
        return [
            DoneCall(
                f"{tool} for {items_in_words(sorted(items))} of {step.step.step_id}", effect == "repeatable"
            )
            for (tool, effect), items in _items_by_tool(made).items()
        ]
    return [
        DoneCall(
            f"{call.tool_id} {json.dumps(call.parameters, ensure_ascii=False, default=str)} in {step.step.step_id}",
            call.effect == "repeatable",
        )
        for call in made
    ]


def _items_by_tool(calls: Iterable[CallState]) -> dict[tuple[ToolId, Effect], list[int]]:
    found: dict[tuple[ToolId, Effect], dict[int, None]] = {}
    for call in calls:
        items = found.setdefault((call.tool_id, call.effect), {})
        if call.slot.item is not None:
            items[call.slot.item] = None
    return {key: list(items) for key, items in found.items()}


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
    style: str,
) -> FailureView:
    """A failed call, as the reflection on it is shown it. `healing` counts this failure already.

    What steps beside it happen to have done by now is left out: a replay asks the same, however fast each of them is.
    """
    tools = tools_for(run)
    tool = meant.tool
    limit = run.state.policy.max_output_bytes
    chosen = {one.tool_id for one in run.state.selection.tools} if run.state.selection else set()
    return FailureView(
        task=view_of(run, "reflection", None if style == "small" else step),
        step=step.step,
        place=_place(step, slot, style),
        tool=tool,
        parameters=meant.parameters if tool is None else shown(tool, meant.parameters, limit, run.secrets),
        fault=fault,
        tools=run.parts.record.told(tools),
        substitutes=_substitutes(tool, tools, effects=not in_doubt and style != "small")
        if tool is not None
        else run.parts.tools.nearest(meant.name, 5),
        done=[report_of(one, Loaded(), whole=False, state=run.state) for one in _near(run, step, style)],
        plan=run.state.begun,
        selected=[one.id for one in tools if one.id in chosen],
        # this failure is told above; the built-in model's recordings have it here too
        tries=tries_of(healing if style == "small" else step.healing, style, slot),
        readings=[
            ReadingView(one.tool_id, one.parameters, one.output, one.error)
            for one in healing.readings.get(slot, ())
        ],
        allowed=allowed,
        counters=_counters(healing, slot, run.state.policy.older, step.calls.get(slot)),
        budget=budget_left(run),
        repeats=[
            *(
                ["the same error has come twice: another try of the same kind will not help"]
                if healing.repeated(slot)
                else []
            ),
            *(_of_others(step.healing, healing, slot) if style != "small" else []),
        ],
        in_doubt=in_doubt,
        settled=_settled(run, tool, step.calls.get(slot)) if in_doubt else (),
        trusted=run.state.policy.trust_model_settlement,
    )


def _settled(run: Run, tool: ToolSpec | None, mine: CallState | None) -> list[str]:
    """The other calls of the tool that were in doubt and have happened, with what the record of each says."""
    state = run.state
    return [
        f"the call in {' '.join(filter(None, (call.step_id, call.slot.words())))}: "
        + json.dumps(call.output.value if call.output is not None else None, ensure_ascii=False, default=str)
        for key in state.records
        if (call := state.took_effect.get(key)) is not None
        and tool is not None
        and call.tool_id == tool.id
        and (mine is None or key != mine.key)
    ]


def _of_others(known: Healing | None, now: Healing, slot: Slot) -> list[str]:
    """Another item that failed in the same way, and what was done about it."""
    latest = now.latest(slot)
    if known is None or latest is None or slot.item is None:
        return []
    for one in known.failures():
        if one.slot != slot and one.signature == latest.signature:
            return [f"{one.slot.words()} failed in the same way; then: {_line(one.action, 'standard')}"]
    return []


def _substitutes(tool: ToolSpec, tools: Sequence[ToolSpec], *, effects: bool) -> list[ToolId]:
    """Tools that are like it; with `effects` an effect has no reading for a stand-in, but to find out whether it was had."""
    if tool.effect != "reads" and effects:
        tools = [one for one in tools if one.effect != "reads"]
    return substitutes(tool, tools)


def _place(step: StepState, slot: Slot, style: str) -> str:
    """Which call of the step failed; of an item how many there are, and whether the plan may go on without it."""
    words = slot.words()
    if slot.item is None:
        return words
    if style != "small" and step.items is not None and step.items > 1:
        words += f" of {step.items}; each is a call of its own, and the others go on"
    return words + (" (the plan may go on without it)" if step.step.allow_failed_items else "")


def tries_of(healing: Healing | None, style: str, slot: Slot | None = None) -> list[TryView]:
    """The failed tries of one call of a step, or of the whole step; of very many the latest."""
    if healing is None:
        return []
    own = healing.failures(slot)
    known = [*((one, one.step_id) for one in healing.earlier), *((one, "") for one in own)]
    return [_try(one, healing, where, style) for one, where in known[-_MOST_TRIES:]]


def _try(one: StepReflected, healing: Healing, where: str, style: str) -> TryView:
    """One failed try, and what really was done about it. `where`: the step of an earlier plan that made it."""
    proposal = one.proposal.suggested_action if one.proposal is not None else None
    proposed = _line(proposal, style) if proposal is not None else ""
    done = _line(one.action, style)
    if style != "small" and proposed == done:
        proposed = ""
    if one.action.type == "repair_step" and not any(one is each for each in healing.rewritten):
        done += " (no better step was found)"
    if style != "small" and healing.pending.get(one.slot) is one.action:  # it is about to be done
        proposed = done = ""
    return TryView(
        tool=one.tool_id,
        parameters=one.parameters,
        error=f"{one.error.category}: {one.error.message}",
        proposal=proposed,
        carried_out=done if one.by == "model" or not done else f"{done} ({one.reason})",
        where=where,
    )


def _line(action: SuggestedAction, style: str) -> str:
    if not action.data:
        return action.type
    # the built-in model's recordings have it as Python writes it
    data = action.data if style == "small" else json.dumps(action.data, ensure_ascii=False, default=str)
    return f"{action.type} {data}"


def _counters(healing: Healing, slot: Slot, older: OlderLimits, call: CallState | None) -> dict[str, str]:
    def of(count: int, limit: int | None) -> str:
        return str(count) if limit is None else f"{count} of {limit}"

    by_itself = call.retries if call is not None else 0
    return {
        **({"times the program made the call again by itself": str(by_itself)} if by_itself else {}),
        "failed tries of this call": of(len(healing.failures(slot)), older.consecutive_failure_threshold),
        "other parameters or tools tried for this call": of(healing.retries(slot), older.max_step_retries),
        "times the step was written anew": of(healing.repairs, older.max_single_step_repairs),
    }


def _near(run: Run, step: StepState, style: str) -> Iterable[StepState]:
    """The succeeded steps that stand before this one; to the built-in model, as in its recordings, others too."""
    if style != "small":
        return before(run, step)[-_MOST_DONE:]
    steps = run.state.steps
    first = [steps[name] for name in step.step.dependencies if name in steps]
    others = (*run.state.earlier.values(), *steps.values())
    found = {one.step.step_id: one for one in (*first, *others) if one.status == "succeeded"}
    return list(found.values())[:_MOST_DONE]


def repair_view(
    run: Run, step: StepState, fault: Fault, hint: str, tools: Sequence[ToolSpec], style: str
) -> RepairView:
    """A step to be written anew; as of a failure, without the luck of the steps beside it."""
    state = run.state
    assert state.plan is not None
    small = style == "small"
    return RepairView(
        task=view_of(run, "planning", None if small else step),
        plan=state.plan,
        begun=state.plan if small else state.begun,
        step=step.step,
        fault=fault,
        hint=hint,
        tries=tries_of(step.healing, style),
        done=[report_of(one, Loaded(), whole=False, state=run.state) for one in _near(run, step, style)],
        needed_by=[
            f"{name} refers to {', '.join(paths)}"
            for name, paths in referred_paths(run, step.step.step_id).items()
        ],
        tools=tools,
        budget=budget_left(run),
        done_effects=effects_of(step) if small else [one.text for one in done_calls(step)],
    )


def referred_paths(run: Run, step_id: StepId) -> dict[StepId, list[str]]:
    """What other steps take from the output of this one: step → references as written."""
    found: dict[StepId, list[str]] = {}
    for name in run.state.graph().needed_by.get(step_id, ()):
        refs = [ref.raw for ref in references_of(run.state.steps[name].step) if ref.head == step_id]
        if refs:
            found[name] = list(dict.fromkeys(refs))
    return found
