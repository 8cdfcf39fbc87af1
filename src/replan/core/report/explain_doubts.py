"""Calls in doubt in words: what a person is asked about one, and how a task ends that has one."""

from __future__ import annotations

from itertools import islice

from replan.core.calls.site import items_in_words
from replan.core.ids import canonical
from replan.core.report.explain import attempts_made, call_words, few, find_out, step_words
from replan.core.state.task import CallState, State, StepState
from replan.core.types import Failure
from replan.core.words import beginning, one_line

_MOST = 50
"""Lines of an account."""
_ONLY_THE_REST = "What is listed as done has taken effect and stays so: ask for the rest only."


def question_about(call: CallState) -> str:
    """What a person is asked of a call in doubt."""
    why = f" ({beginning(one_line(call.fault.message))})" if call.fault else ""
    return (
        f"Did {call_words(call)} with {beginning(one_line(canonical(call.parameters)))} take effect? Nobody can tell{why}. "
        "Look it up, and answer yes, no or cannot tell: yes keeps it as done (with what it gave as output), no makes it "
        "again, cannot tell ends the task."
    )


def known_about(state: State, call: CallState) -> str:
    """What was found out about it: readings, and what a model makes of them."""
    lines = [f"read: {line}" for line in _readings(state, call)]
    step = state.steps.get(call.step_id)
    latest = step.healing.latest(call.slot) if step is not None and step.healing is not None else None
    if latest is not None and (words := latest.action.words()):
        lines.append(words)
    return "\n".join(lines)


def outcome_unknown(state: State) -> Failure:
    """The end of a task with a call in doubt: what is done, what is not, and what nobody can tell."""
    calls = list(state.in_doubt.values())
    first = calls[0]
    return Failure(
        kind="outcome_unknown",
        reason=f"nobody can tell whether {call_words(first)} took effect (call key {first.key})"
        + (f", and {len(calls) - 1} more are in doubt" if len(calls) > 1 else ""),
        root_causes=few(_cause(call) for call in calls),
        tried=attempts_made(state),
        advice=few(find_out(call) for call in calls),
        call_key=first.key,
        undone=_undone(state),
        in_doubt=few(
            "; ".join([_of(call), *(f"read: {line}" for line in _readings(state, call))]) for call in calls
        ),
    )


def with_account(state: State, failure: Failure) -> Failure:
    """Every end says which effects the task has had; with a call in doubt also what it has not had, and what nobody can tell."""
    told: dict[str, tuple[str, ...]] = {}
    if state.in_doubt and not failure.in_doubt:
        known = outcome_unknown(state)
        told = {"undone": known.undone, "in_doubt": known.in_doubt}
    if state.took_effect and not (failure.done and _ONLY_THE_REST in failure.advice):
        told |= {"done": _done(state), "advice": (*failure.advice, _ONLY_THE_REST)}
    return failure.model_copy(update=told) if told else failure


def _cause(call: CallState) -> str:
    why = call.fault.message if call.fault else "it was cut off before its result was recorded"
    return f"{call_words(call)}, attempt {call.attempt}: {why}"


def _done(state: State) -> tuple[str, ...]:
    """Effects that have taken place."""
    return tuple(_of(call) for call in islice(state.took_effect.values(), _MOST))


def _undone(state: State) -> tuple[str, ...]:
    """Calls that are known not to have happened, and steps that were not run or failed before anything happened."""
    doubted = {call.step_id for call in state.in_doubt.values()}
    found = []
    for step in state.steps.values():
        if step.status == "succeeded":
            continue
        if step.step.step_id in doubted:
            found += _beside_a_doubt(step)
            continue
        if step.skip is not None:
            why = step.skip.reason
        elif step.fault is not None:
            why = step.fault.message
        else:
            why = "not started"
        found.append(f"{step_words(step)}: {beginning(one_line(why))}")
    return tuple(found[:_MOST])


def _beside_a_doubt(step: StepState) -> list[str]:
    """Of a step with a call in doubt its other calls that are known not to have happened."""
    found = [
        f"{_of(call)}: {beginning(one_line(call.fault.message))}"
        for call in step.calls.values()
        if call.status == "failed" and call.fault is not None and call.fault.happened == "no"
    ]
    if step.items is not None and (left := set(range(step.items)) - {slot.item for slot in step.calls}):
        found.append(f"{step_words(step)}: {items_in_words(sorted(left))} not started")
    return found


def _of(call: CallState) -> str:
    return f"{call_words(call)} with {beginning(one_line(canonical(call.parameters)))}"


def _readings(state: State, call: CallState) -> list[str]:
    """What was read about the call since it is in doubt; of equal readings the latest."""
    step = state.steps.get(call.step_id)
    made = step.healing.readings.get(call.slot, []) if step is not None and step.healing is not None else []
    told = {
        f"{one.tool_id} {canonical(one.parameters)}": f"error: {one.error}" if one.error else one.output
        for one in made
        if one.output or one.error
    }
    return [f"{asked} → {beginning(one_line(gave))}" for asked, gave in told.items()]
