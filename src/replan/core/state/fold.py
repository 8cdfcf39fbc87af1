"""From events to the state of a task.

`apply` takes one event and cannot fail. The state is changed in place, so that a task of ten thousand steps folds in
linear time. Nothing here reads a clock: time comes from the records.
"""

from __future__ import annotations

from collections.abc import Iterable

from replan.core import events as e
from replan.core.plain_calls import Recorded
from replan.core.state import fold_people, fold_plans, fold_recovery, fold_steps, fold_task
from replan.core.state.progress import BRINGS, status_of
from replan.core.state.task import State

_HANDLERS = {
    **fold_task.HANDLERS,
    **fold_plans.HANDLERS,
    **fold_steps.HANDLERS,
    **fold_recovery.HANDLERS,
    **fold_people.HANDLERS,
}


def apply(state: State, event: Recorded, ts: float, round: int = 0, seq: int | None = None) -> None:
    """Take one event, or what stands for several."""
    if seq is not None:
        state.last_seq = max(state.last_seq, seq)
    kind = type(event)
    if ts != state.last_ts and not event.signal:
        if kind in _MAY_BEGIN and begins_drive(event):
            _idle(state, ts - state.last_ts)
        elif ts > state.last_ts and state.started and state.waiting is None:
            state.active_secs += ts - state.last_ts
        state.last_ts = ts
    if kind in BRINGS and (status := status_of(event)) is not None and not (event.signal and state.ended):
        state.status = status  # else somebody spoke as the end was on its way to the log
    handler = _HANDLERS.get(kind)
    if handler is not None:
        handler(state, event, ts)


_MAY_BEGIN = frozenset([e.TaskWaiting, e.TaskResumed, e.TaskForked])


def begins_drive(event: Recorded) -> bool:
    """True for what a driver records first of a task that was begun before: until then nobody drove it.

    Of a pause that does not say so the same is taken to be: a task that is paused after a crash must not lose all its
    time, and one that is driven comes to stand still as the last of its calls ends.
    """
    kind = type(event)
    if kind is e.TaskWaiting:
        return event.paused and not event.driven  # type: ignore[union-attr]
    return kind is e.TaskResumed or kind is e.TaskForked


def _idle(state: State, secs: float) -> None:
    """For so long nobody drove the task: none of it is a step's own. Less than 0: the clock was set back meanwhile.

    Nor does it count for what waits until a call in doubt must have come to its end: that it was so long the log does not know.
    """
    for step in state.steps.values():
        if step.started is not None and step.ended is None:
            step.idle += secs
        if step.healing is not None:
            step.healing.pause(secs)
    for call in state.in_doubt.values():
        if call.ended is not None:
            call.ended += secs


def fold(records: Iterable[e.Record], state: State | None = None) -> State:
    """The state that the records add up to."""
    state = State() if state is None else state
    for record in records:
        state.task_id = record.task_id
        apply(state, record.event, record.ts, record.round, record.seq)
    return state
