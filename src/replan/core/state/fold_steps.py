"""What the events of steps and of their calls add to a task's state: a handler for each kind, as in `core.state.task`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replan.core import events as e
from replan.core.calls.site import ONLY, READING, slot_of
from replan.core.failures.faults import NOT_MADE
from replan.core.plain_calls import PlainEnd, PlainStart
from replan.core.state import fold_people, fold_recovery
from replan.core.state.fold_plans import looked_at, reopen
from replan.core.state.progress import CallState, Output, StepState, StepStatus
from replan.core.state.step_recovery import Healing
from replan.core.state.task import State
from replan.core.waits.state import Reading, Wait


def _step_ready(state: State, event: e.StepReady, ts: float) -> None:
    if (step := state.steps.get(event.step_id)) and step.status == "pending":
        step.status = "ready"


def _step_started(state: State, event: e.StepStarted, ts: float) -> None:
    if step := state.steps.get(event.step_id):
        if step.closed:
            state.open_steps += 1
            step.fault = step.skip = step.ended = None
        step.status = "running"
        step.items = event.items
        if step.started is None:
            step.started = ts


def _call_started(state: State, event: e.CallStarted, ts: float) -> None:
    state.tool_calls += 1
    ledger, slot = state.ledger, slot_of(event.action_id, event.index)
    if slot.action_id is not None and slot.action_id.startswith(READING):
        fold_recovery.reading_started(state, event, ts)
        return
    if slot.polled_for() is not None:
        if event.attempt == 1 and (wait := _polling(state, event)) is not None:
            wait.readings += 1
        return
    ledger.occupy(event.call_key, (event.step_id, slot))
    call = CallState(
        event.call_key, event.step_id, slot, event.tool_id, event.attempt,
        event.effect, event.parameters, started=ts, first=ts, effects_before=ledger.effects, plan=state.plans,
        keys_in=event.keys_in,
    )  # fmt: skip
    if (earlier := state._calls.get(call.key)) is not None:
        call.retries, call.first = earlier.retries, earlier.first
        call.unsure = earlier.status == "unknown" or earlier.may_have_been_made
        if earlier.fault is None or earlier.fault.happened != "no":
            call.keys_in = earlier.keys_in
        call.cut_off = earlier.cut_off + (earlier.status == "running" and earlier.alone)
    call.alone = state.alone
    ledger.touch(call.effect)
    state._calls[call.key] = call
    if call.effect == "once":
        state.made.setdefault(call.tool_id, []).append(call)
    if step := state.steps.get(event.step_id):
        if (before := step.calls.get(slot)) is not None and before.key != call.key:
            step.put_away(slot)
        step.calls[slot] = call
        if (mine := step.healing) is not None:
            mine.pending.pop(slot, None)
            call.mended = slot in mine.overrides or mine.repairs > mine.repairs_before


def _result_of(state: State, event: e.OfCall, ts: float) -> CallState | None:
    """The call that the event ends."""
    call = state._calls.get(event.call_key)
    state.fruitless = 0
    if call is not None:
        call.ended = ts
        state.ledger.touch(call.effect)
    return call


def _output_of(state: State, event: e.CallCompleted | e.OutcomeSettled) -> Output:
    output = Output(event.output, event.artifact, event.masked, event.files)
    if event.artifact is not None or event.files:
        state.kept_apart = True
        streamed = (event.artifact,) if event.artifact is not None and event.artifact.media_type else ()
        for file in (*streamed, *event.files):
            state.files = state.files or {}
            state.files[file.artifact_id] = file
    return output


def _stands_for(state: State, effect: str) -> None:
    """What another task has had under this key has been had here, too."""
    if effect:
        state.stood_for = state.stood_for or set()
        state.stood_for.add(effect)


def _call_completed(state: State, event: e.CallCompleted, ts: float) -> None:
    output = _output_of(state, event)
    if event.action_id is not None and event.action_id.startswith(READING):
        fold_recovery.reading_ended(state, event)
    elif event.action_id is not None and (wait := _polling(state, event)) is not None:
        wait.read_at, wait.error, wait.failures = ts, "", 0
        wait.latest = Reading(*output)
    elif event.reused and not event.of_task:
        _reused(state, event, output, ts)
    elif call := _result_of(state, event, ts):
        if event.of_task:
            call.of_task, call.of_call = event.of_task, event.of_call
            state.tool_calls -= 1
            _stands_for(state, event.of_call)
        _succeeded(state, call, output)
    state.in_doubt.pop(event.call_key, None)


def _reused(state: State, event: e.CallCompleted, output: Output, ts: float) -> None:
    slot = slot_of(event.action_id, event.index)
    state.any_reused = True
    state.ledger.occupy(event.call_key, (event.step_id, slot))
    entry = state.ledger.entries.get(event.call_key)
    if step := state.steps.get(event.step_id):
        step.calls[slot] = CallState(
            event.call_key, event.step_id, slot, event.tool_id, event.attempt,
            entry.effect if entry else "reads", entry.parameters if entry else {}, "succeeded", output, True, None,
            ts, ts, plan=state.plans,
        )  # fmt: skip


def _succeeded(state: State, call: CallState, output: Output) -> None:
    if call.effect == "once":
        state.took_effect[call.key] = call
    call.status = "succeeded"
    call.output = output
    call.fault = None
    state._calls.pop(call.key, None)
    state.ledger.enter(call, output, state.round)


def _call_failed(state: State, event: e.CallFailed, ts: float) -> None:
    if event.action_id is not None and event.action_id.startswith(READING):
        fold_recovery.reading_ended(state, event)
    elif event.action_id is not None and (wait := _polling(state, event)) is not None:
        wait.error = event.error.message
        if event.retry_in_secs is None:
            wait.read_at = ts
            wait.failures += 1
    elif call := _result_of(state, event, ts):
        if event.error.kind == "repeated" and event.retry_in_secs is not None:
            _meant_beyond(state, call, event)
            return
        call.status = "failed" if event.retry_in_secs is None else "retrying"
        call.fault = event.error
        if event.error.kind not in NOT_MADE:  # what it says it has not done, it may have half done
            state.ledger.may_have_done(call)
        call.retries += event.retry_in_secs is not None and event.error.kind != "cancelled"


def _meant_beyond(state: State, call: CallState, event: e.CallFailed) -> None:
    """Another task has made it, and the plan means the effect once more: another one of the like calls is made in its place."""
    state.tool_calls -= 1
    state.ledger.vacate(call.key, (call.step_id, call.slot))
    state._calls.pop(call.key, None)
    call.status, call.fault = "failed", event.error
    step = state.steps.get(call.step_id)
    if step is not None and step.calls.get(call.slot) is call:
        step.put_away(call.slot)


def _polling(state: State, event: e.OfCall) -> Wait | None:
    """The wait that a reading is made for; None if it is no such reading, or the wait is over."""
    slot = slot_of(event.action_id, event.index).polled_for()
    step = state.steps.get(event.step_id) if slot is not None else None
    call = step.calls.get(slot) if step is not None and slot is not None else None
    return state.waits.get(call.key) if call is not None and call.status == "running" else None


def _wait_started(state: State, event: e.WaitStarted, ts: float) -> None:
    before = state.waits.get(event.call_key)
    begun = Wait(since=ts, until=event.until, token=event.token)
    if (
        before is not None
        and (call := state._calls.get(event.call_key)) is not None
        and call.status == "running"
    ):
        begun.readings = before.readings  # its time was counted anew
    if not state.waits:
        state.waits = {}
    state.waits[event.call_key] = begun


def _callback(state: State, event: e.CallbackReceived, ts: float) -> None:
    if state.ended:
        return
    if event.token not in state.callbacks:
        state.callbacks = {**state.callbacks, event.token: event}
    if state.waiting is not None and not state.waiting.until_resumed:
        state.waiting = None  # what is still open is waited for anew


def _outcome_unknown(state: State, event: e.OutcomeUnknown, ts: float) -> None:
    if call := _result_of(state, event, ts):
        call.status = "unknown"
        state.in_doubt[call.key] = call
        if event.taken_on:
            _take_on(state, event, call)
        if event.of_try:
            state.tries_elsewhere = {**state.tries_elsewhere, call.key: (event.of_try, False)}


def _take_on(state: State, event: e.OutcomeUnknown, call: CallState) -> None:
    """The call is another step's from here on: what becomes of it is what becomes of that one's."""
    step, slot = state.steps.get(event.step_id), slot_of(event.action_id, event.index)
    if step is None:
        return
    for one in state.every_step():
        one.let_go(call)
    call.step_id, call.slot = event.step_id, slot
    step.put_away(slot)
    step.calls[slot] = call
    state.ledger.occupy(call.key, (call.step_id, slot))
    state.failures += 1  # what was noted of its earlier step is of this one


def _outcome_settled(state: State, event: e.OutcomeSettled, ts: float) -> None:
    call = state.in_doubt.pop(event.call_key, None)
    if call is None:
        return
    state.ledger.touch(call.effect)
    if state.recovery is not None:
        state.recovery.use_up_answers(event.call_key)
    step = state.steps.get(call.step_id)
    if step is not None and step.healing is not None:
        step.healing.readings.pop(call.slot, None)
    if event.record:
        state.records[event.call_key] = event.record
    if event.happened:
        # what was done about it since came after it: that nobody knew of it was seen later, perhaps much later
        call.had_at = event.at if event.at is not None else call.started
        call.ended = max(call.ended or 0.0, call.had_at)
        _succeeded(state, call, _output_of(state, event))
        call.settled = state.any_settled = True
        call.refused = event.refused
        if like := state.like_in_doubt(call.key):  # it is that one, whatever its key is here
            call.of_call = event.of_call or like[0]
            _stands_for(state, call.of_call)
    else:
        call.status = "failed"
        # of like ones elsewhere, none was made here
        again = call.key not in state.undone or not state.like_in_doubt(call.key)
        if (tried := state.tries_elsewhere.get(call.key)) is not None:
            state.tries_elsewhere = {**state.tries_elsewhere, call.key: (tried[0], True)}
        state.undone[event.call_key] = state.undone.get(event.call_key, 0) + again
        if step is not None and step.healing is None:
            step.healing = Healing()  # its next try is not its first
        if step is not None and step.calls.get(call.slot) is call:
            step.put_away(call.slot)  # it did not happen: it may be made
    if step is not None and step.status == "failed":
        reopen(state, [call.step_id])


def _close(state: State, step: StepState, status: StepStatus, ts: float) -> None:
    if not step.closed:
        state.open_steps -= 1
    step.status = status
    step.ended = ts


def _step_completed(state: State, event: e.StepCompleted, ts: float) -> None:
    if step := state.steps.get(event.step_id):
        _close(state, step, "succeeded", ts)
        if event.metadata:
            step.metadata = event.metadata
            if state._metadata is not None:
                state._metadata.add(event.step_id, event.metadata)


_NO_MORE = Output()[1:]
_NOT_BEGUN = frozenset({"pending", "ready"})


def _plain_start(state: State, start: PlainStart, ts: float) -> None:
    """`_step_started` and `_call_started` in one, where there is nothing of the step and of the call yet."""
    step_id, key, ledger = start.step_id, start.call_key, state.ledger
    step = state.steps.get(step_id)
    if (
        step is None
        or step.calls
        or step.healing is not None
        or step.status not in _NOT_BEGUN
        or key in state._calls
    ):
        _one_by_one(state, start, ts)
        return
    step.status = "running"
    step.items = None
    if step.started is None:
        step.started = ts
    state.tool_calls += 1
    ledger.occupy(key, (step_id, ONLY))
    call = CallState(
        key, step_id, ONLY, start.tool_id, 1,
        start.effect, start.parameters, started=ts, first=ts, effects_before=ledger.effects, plan=state.plans,
    )  # fmt: skip
    call.alone = state.alone
    if start.effect != "reads":
        ledger.effects += 1
        if start.effect == "once":
            state.made.setdefault(start.tool_id, []).append(call)
    state._calls[key] = step.calls[ONLY] = call


def _plain_end(state: State, end: PlainEnd, ts: float) -> None:
    """`_call_completed` and `_step_completed` in one, where both have gone on as they began."""
    key, step, call = end.call_key, state.steps.get(end.step_id), state._calls.get(end.call_key)
    if step is None or call is None or step.status != "running" or call.status != "running" or state.in_doubt:
        _one_by_one(state, end, ts)
        return
    del state._calls[key]
    state.fruitless = 0
    call.ended = step.ended = ts
    call.status = step.status = "succeeded"
    call.output = output = tuple.__new__(Output, (end.output, *_NO_MORE))
    if call.effect != "reads":
        state.ledger.effects += 1
        if call.effect == "once":
            state.took_effect[key] = call
    state.ledger.enter(call, output, state.round)
    state.open_steps -= 1


def _one_by_one(state: State, plain: PlainStart | PlainEnd, ts: float) -> None:
    for event in plain.events():
        HANDLERS[type(event)](state, event, ts)


def _step_failed(state: State, event: e.StepFailed, ts: float) -> None:
    if step := state.steps.get(event.step_id):
        _close(state, step, "failed", ts)
        for call in step.calls.values():
            call.refused = ""  # it has failed of that
        looked_at(state, event.step_id)
        step.fault = event.error
        if event.error.kind == "approval":
            fold_people.refused(state)
        if state.modelled:
            fold_recovery.step_failed(state, step, event)


def _step_skipped(state: State, event: e.StepSkipped, ts: float) -> None:
    if step := state.steps.get(event.step_id):
        _close(state, step, "skipped", ts)
        state.any_skipped = True
        step.skip = event


HANDLERS: dict[type, Callable[[Any, Any, float], None]] = {
    PlainStart: _plain_start,
    PlainEnd: _plain_end,
    e.StepReady: _step_ready,
    e.StepStarted: _step_started,
    e.CallStarted: _call_started,
    e.CallCompleted: _call_completed,
    e.CallFailed: _call_failed,
    e.WaitStarted: _wait_started,
    e.CallbackReceived: _callback,
    e.OutcomeUnknown: _outcome_unknown,
    e.OutcomeSettled: _outcome_settled,
    e.StepCompleted: _step_completed,
    e.StepFailed: _step_failed,
    e.StepSkipped: _step_skipped,
}
