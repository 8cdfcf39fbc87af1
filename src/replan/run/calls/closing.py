"""The ends of calls and steps that nobody will see through any more."""

from __future__ import annotations

from replan.core.events import AnyEvent, CallFailed, LlmCallCompleted, OutcomeUnknown, StepFailed, StepSkipped
from replan.core.recovery.cut_off import left_open
from replan.core.state.progress import CLOSED
from replan.core.state.task import CallState, Slot, StepState
from replan.core.types import Category, Fault, JsonObject, ToolSpec
from replan.run.session.context import Run
from replan.run.session.model_calls import cut_off

MOST_CUT_OFF = 2
"""Tries of one call, made beside nothing else, that may be cut off; then it is what ends the process, most likely."""


def close_call(run: Run, call: CallState, kind: str, message: str) -> None:
    """End a started call without a result; nobody knows whether it took effect."""
    run.record(*_closed(run, call, kind, message))


def take_on(run: Run, call: CallState, step: StepState, slot: Slot) -> None:
    """Go on in this step with a call in doubt that no step of the plan has."""
    run.record(
        OutcomeUnknown(
            call_key=call.key, step_id=step.step.step_id, action_id=slot.action_id, index=slot.item, attempt=call.attempt,
            tool_id=call.tool_id, reason="an earlier plan has begun this very call, and nobody knows whether it took effect",
            taken_on=True,
        )
    )  # fmt: skip


def _closed(run: Run, call: CallState, kind: str, message: str) -> list[AnyEvent]:
    category: Category = "tool_error" if kind == "process_ended" else "external_error"
    fault = Fault(category=category, kind=kind, message=message, happened="unknown")
    labels = _labels(call)
    events: list[AnyEvent] = [CallFailed.model_validate({**labels, "error": fault})]
    if _once(call, run.parts.tools.resolve(call.tool_id)):
        events.append(OutcomeUnknown.model_validate({**labels, "reason": message}))
    return events


def _labels(call: CallState) -> JsonObject:
    return {
        "call_key": call.key, "step_id": call.step_id, "action_id": call.slot.action_id,
        "index": call.slot.item, "attempt": call.attempt, "tool_id": call.tool_id,
    }  # fmt: skip


def close_crashed(run: Run) -> None:
    """End the calls that were cut off and must not be made again; all others can simply be made again."""
    for call in run.state.running_calls():
        tool = run.parts.tools.resolve(call.tool_id)
        if _once(call, tool) and not _by_key(tool):
            close_call(run, call, "crashed", "the process ended before its result was recorded")
        elif call.cut_off + call.alone >= MOST_CUT_OFF and call.key not in run.state.waits:
            why = "each process that made it has ended, twice while nothing ran beside it: it is not made again unasked"
            close_call(run, call, "process_ended", why)


def close_left(run: Run, *, to_run: bool) -> bool:
    """End the calls that nobody makes again: only steps were to that the plan has no more, or that call something else by now. True if there
    are any: nothing runs here, and whoever drove the task was gone, or let go of it, before they had come to their ends.

    `to_run`: steps are, and one of them may make a call of a tool that honours keys once more, with its key.
    """
    state, resolve = run.state, run.parts.tools.resolve
    left = [call for call in state.under_way() if not state.holds(call) and call.key not in state.waits]
    if to_run:
        left = [call for call in left if not (_once(call, tool := resolve(call.tool_id)) and _by_key(tool))]
    for call in left:
        _close_left(run, call, "it was cut off, and the plan has no place for it any more")
    return bool(left)


def _close_left(run: Run, call: CallState, message: str) -> None:
    if call.status == "retrying" and call.fault is not None and not call.may_have_been_made:
        run.record(CallFailed.model_validate({**_labels(call), "error": call.fault}))
    else:
        close_call(run, call, "crashed", message)


def close_cut_off(run: Run) -> bool:
    """End the calls with an effect that were cut off, before the task ends: its end tells of them. True if there were any."""
    left = left_open(run.state)
    for call in left:
        _close_left(run, call, "it was cut off before its result was recorded, and the task ends")
    return bool(left)


def _once(call: CallState, tool: ToolSpec | None) -> bool:
    """True if it was, or by now is, a call that must not be repeated."""
    return call.effect == "once" or (tool is not None and tool.effect == "once")


def _by_key(tool: ToolSpec | None) -> bool:
    """True if it may be called again with the same key."""
    return tool is not None and tool.honours_key


def close_asked(run: Run) -> None:
    """Give the model calls that are open their end, with what has come of their answers."""
    for event in _asked_closed(run):
        run.record(event)
        run.asking.pop(event.call_id, None)


def _asked_closed(run: Run) -> list[LlmCallCompleted]:
    return [cut_off(run, asked, "it was stopped") for asked in run.state.llm_running.values()]


def running_closed(run: Run) -> list[AnyEvent]:
    """The ends of everything that is open."""
    events: list[AnyEvent] = [*_asked_closed(run)]
    faults: dict[str, Fault] = {}
    for call in run.state.running_calls():
        for event in _closed(run, call, "cancelled", "it was stopped before it had answered"):
            if isinstance(event, CallFailed):
                faults[call.key] = event.error
            events.append(event)
    for step in run.state.steps.values():
        if step.status == "running":
            known = (faults.get(call.key) or call.fault for call in step.calls.values())
            stopped = Fault(category="external_error", kind="cancelled", message="it was stopped")
            fault = next((one for one in known if one), stopped)
            events.append(StepFailed(step_id=step.step.step_id, error=fault))
        elif step.status not in CLOSED:
            reason = "the task ended before it was started"
            events.append(StepSkipped(step_id=step.step.step_id, kind="ended", reason=reason))
    return events
