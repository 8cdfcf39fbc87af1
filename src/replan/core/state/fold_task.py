"""What the events of the task itself, of its rounds and of its model calls add to its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replan.core import events as e
from replan.core.state import fold_recovery
from replan.core.state.task import State
from replan.core.types import JsonObject, shared

_NOTHING: JsonObject = {}
"""Shared by all states: nobody writes into what was submitted."""


def _submitted(state: State, event: e.TaskSubmitted, ts: float) -> None:
    # The settings are for whoever takes the task up, and are read from the log.
    state.submitted = event.lean(
        policy=shared(event.policy),
        metadata=event.metadata or _NOTHING,
        context=event.context or _NOTHING,
        settings=_NOTHING,
    )
    state.given = event.plan is not None
    state.modelled = event.plan is None or event.policy.evaluation == "model"
    state.created = state.last_ts = ts
    state._metadata = None


def _started(state: State, event: e.TaskStarted, ts: float) -> None:
    state.started = True


def _resumed(state: State, event: e.TaskResumed, ts: float) -> None:
    state.started = state.resumed = True
    state.llm_running.clear()
    state.llm_since.clear()
    waiting = state.waiting
    if waiting is not None and (waiting.until_resumed or waiting.until is not None):
        state.waiting = None  # its time has come, or somebody looks again whether it has
    if state.cancel is not None and state.cancel.until_resumed:
        state.cancel = None


def _round(state: State, event: e.RoundStarted, ts: float) -> None:
    state.round = event.round
    if state.evaluation is not None:
        state.mending().evaluation = state.evaluation
    if state.recovery is not None:
        state.recovery.outdated = False
    state.evaluation = state.reflection = None


def _llm_started(state: State, event: e.LlmCallStarted, ts: float) -> None:
    state._asked = state._asked.model_copy(update={"llm_calls": state._asked.llm_calls + 1})
    state.llm_running[event.call_id] = event
    state.llm_since[event.call_id] = ts


def _llm_completed(state: State, event: e.LlmCallCompleted, ts: float) -> None:
    state.llm_running.pop(event.call_id, None)
    state.llm_since.pop(event.call_id, None)
    mine, more = state._asked, event.usage
    state._asked = mine.model_copy(
        update={
            # the first request was counted when the call started
            "llm_calls": mine.llm_calls + max(0, more.llm_calls - 1),
            "input_tokens": mine.input_tokens + more.input_tokens,
            "output_tokens": mine.output_tokens + more.output_tokens,
            "cost_usd": mine.cost_usd + more.cost_usd,
        }
    )


def _selected(state: State, event: e.ToolSelectionCompleted, ts: float) -> None:
    state.selection = event


def _rejected(state: State, event: e.PlanRejected, ts: float) -> None:
    state.rejections.append(event)


def _mode(state: State, event: e.ExecutionMode, ts: float) -> None:
    state.mode = shared(event)


def _evaluated(state: State, event: e.EvaluationCompleted, ts: float) -> None:
    state.evaluation = event
    if state.modelled:
        fold_recovery.judged(state, event)


def _cancel(state: State, event: e.CancelRequested, ts: float) -> None:
    if state.cancel is None or state.cancel.until_resumed:
        state.cancel = event
    state.waiting = None


def _ended(state: State, event: e.AnyEvent, ts: float) -> None:
    if isinstance(event, e.TERMINAL):
        state.outcome = event


HANDLERS: dict[type, Callable[[Any, Any, float], None]] = {
    e.TaskSubmitted: _submitted,
    e.TaskStarted: _started,
    e.TaskResumed: _resumed,
    e.RoundStarted: _round,
    e.LlmCallStarted: _llm_started,
    e.LlmCallCompleted: _llm_completed,
    e.ToolSelectionCompleted: _selected,
    e.PlanRejected: _rejected,
    e.ExecutionMode: _mode,
    e.EvaluationCompleted: _evaluated,
    e.CancelRequested: _cancel,
    **dict.fromkeys(e.TERMINAL, _ended),
}  # fmt: skip
