"""What the events of the task itself, of its rounds, its model calls, and of what people ask for add to its state.

A person's event may land anywhere between two of the driver's: it only says what is wanted. What is done about it is
the driver's own event (`RequestTaken`), so that a log folds to what its driver had before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replan.core import events as e
from replan.core.begun import APPROVAL, wants_yes
from replan.core.limits.policy import stricter_approval, with_approval
from replan.core.state import fold_recovery
from replan.core.state.fold_plans import leave_all_steps, reopen
from replan.core.state.human_input import Said
from replan.core.state.progress import done_before
from replan.core.state.task import State
from replan.core.trace import SETTING, parent_of
from replan.core.types import JsonObject, StepId, Usage, shared

MOST_LEFT = 200
"""So often in its life a task may be let go of without that being held against it."""
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
    state.yes_by_rules = wants_yes(event.settings)
    if SETTING in event.settings:
        state.caller = parent_of(event.settings[SETTING])
    state.given = event.plan is not None
    state.workflow = event.workflow
    state.modelled = event.plan is None or event.policy.evaluation == "model"
    state.created = state.last_ts = ts
    state.given_at = ts if event.plan is not None else 0.0
    state._metadata = None


def _previous_read(state: State, event: e.PreviousTasksRead, ts: float) -> None:
    """What the tasks have given that this one follows can be referred to; none of it was done by this one."""
    state.following, state.previous = event, {}
    for task in event.tasks:
        for name, step, kept in task.values():
            tool = step.tool if step is not None else ""
            state.previous[name] = done_before(name, tool, kept, task.task_id, ts, masked=event.masked)
            state.any_lost = state.any_lost or kept.masked
            files = [file for file in (kept.artifact, *kept.files) if file is not None]
            state.kept_apart = state.kept_apart or bool(files)
            if named := {file.artifact_id: file for file in files if file.media_type or file in kept.files}:
                state.files = {**state.files, **named}


def _started(state: State, event: e.TaskStarted, ts: float) -> None:
    state.started, state.driver, state.fruitless = True, event.driver, 0
    if state.waiting is not None and state.waiting.until_resumed:  # before it had begun
        state.waiting = None
    _approves(state, event)


def _approves(state: State, event: e.TaskStarted | e.TaskResumed) -> None:
    """Whoever drives it from here on asks a person about more calls, or fewer, than it was begun with."""
    if "config" in event.instead:
        state.yes_by_rules = wants_yes(event.instead)
    if APPROVAL in event.instead and state.submitted is not None:
        policy = with_approval(state.policy, event.instead[APPROVAL])
        # what only a process wants is always more than what there was
        state.approval_said = not stricter_approval(policy.approval, state.policy.approval)
        state.submitted = state.submitted.lean(policy=shared(policy))


def _resumed(state: State, event: e.TaskResumed, ts: float) -> None:
    state.started = state.resumed = True
    state.driver = event.driver or state.driver
    _approves(state, event)
    state.llm_running.clear()
    state.llm_since.clear()
    waiting = state.waiting
    state.fruitless, state.beside = state.fruitless_next, event.beside
    if waiting is not None and (waiting.until_resumed or waiting.until is not None):
        state.waiting = None  # its time has come, or somebody looks again whether it has
    if state.cancel is not None and state.cancel.until_resumed:
        state.cancel = None


def _left(state: State, event: e.TaskLeft, ts: float) -> None:
    """The next time that it is taken up is not held against it; more often than that, what ends its processes may be the task after all."""
    if state.left < MOST_LEFT:
        state.left += 1
        state.fruitless -= 1
        for call in state.running_calls():
            call.alone = False


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
    state.fruitless = 0
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
    if event.scene is not None:
        state.scene = shared(event.scene)


def _rejected(state: State, event: e.PlanRejected, ts: float) -> None:
    state.rejections.append(event)


def _mode(state: State, event: e.ExecutionMode, ts: float) -> None:
    state.mode = shared(event)
    if event.beside:
        state.beside = True
        for call in state.running_calls():
            call.alone = False


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


# ── what people ask for ──


def _pause(state: State, event: e.PauseRequested, ts: float) -> None:
    if state.pause is None or (event.now and not state.pause.now):
        state.pause = event


def _resume(state: State, event: e.ResumeRequested, ts: float) -> None:
    state.pause = None
    if state.waiting is not None and state.waiting.paused:
        state.waiting = None


def _wish(state: State, event: e.Wish, ts: float) -> None:
    state.wishes = (*state.wishes, event)
    if not isinstance(event, e.HintGiven) and state.waiting is not None and not state.waiting.paused:
        state.waiting = None  # something is to be done


def _taken(state: State, event: e.RequestTaken, ts: float) -> None:
    wish = next((one for one in state.wishes if one.request_id == event.request_id), None)
    state.wishes = tuple(one for one in state.wishes if one.request_id != event.request_id)
    if wish is None or event.refused:
        return
    match wish:
        case e.HintGiven():
            _hear(state, wish.hint, wish.by)
        case e.RetryRequested():
            _retry(state, (wish.step_id,))
        case e.JudgementRequested():
            _judge_anew(state, wish.hint, wish.by)


def _hear(state: State, hint: str, by: str) -> None:
    """A hint is for every later prompt; with it, what was tried before may come out otherwise."""
    known = state.mending()
    known.hear(Said("", hint, by))
    note = known.note(state.round)
    note.news = note.better = note.heard = True  # a person's word is something new


def _retry(state: State, steps: tuple[StepId, ...]) -> None:
    """Steps that have failed are due again as planned, with all that was left out because of them."""
    due = [name for name in steps if (step := state.steps.get(name)) and step.status == "failed"]
    known = state.mending()
    known.lapsed = {place: key for place, key in known.lapsed.items() if place[0] not in due}
    for name in due:
        if any(
            call.fault is not None and call.fault.kind == "undone"
            for call in state.steps[name].calls.values()
        ):
            state.counted |= {name}
        if (healing := state.steps[name].healing) is not None:
            healing.restart()
    reopen(state, due)
    _open_verdict(state)


def _judge_anew(state: State, hint: str, by: str) -> None:
    if hint:
        _hear(state, hint, by)
    _open_verdict(state)


def _open_verdict(state: State) -> None:
    """What was judged, reflected and said about the end counts no more: it comes out anew."""
    known = state.mending()
    if state.evaluation is not None:
        known.evaluation = state.evaluation
    known.word, known.outdated = "", False
    state.evaluation = state.reflection = state.escalation = state.impasse = None


def _forked(state: State, event: e.TaskForked, ts: float) -> None:
    state.fork, state.kin, state.approval_said = event, True, False
    if event.settings is not None:
        state.yes_by_rules = wants_yes(event.settings)
    state.created = ts
    state.cancel = state.pause = state.waiting = None
    state.wishes, state.fruitless, state.driver = (), -1, ""
    # what is shared was spent by the other task
    state._asked, state.tool_calls, state.active_secs = Usage(), 0, 0.0
    state.rounds_before = state.round
    state.llm_running.clear()
    state.llm_since.clear()
    if state.recovery is not None:
        state.recovery.warned.clear()
    if event.policy is not None and state.submitted is not None:
        state.submitted = state.submitted.lean(policy=shared(event.policy))
    if event.plan is not None and state.submitted is not None:
        leave_all_steps(state)
        state.workflow = None
        state.submitted = state.submitted.lean(plan=event.plan)
        state.given, state.replanning, state.given_at = True, None, ts
        _open_verdict(state)
    state.modelled = not state.given or state.policy.evaluation == "model"
    judged = state.evaluation
    if (
        event.policy is not None
        and event.policy.evaluation == "model"
        and judged is not None
        and judged.by == "steps"
    ):
        _open_verdict(state)  # by a model now
    if event.since:
        asked = "what has the task that this one was forked from done after that? It is not to be done again"
        state.mending().said.append(Said(asked, "; ".join(event.since), event.origin))
    if event.hint:
        _hear(state, event.hint, event.by)
        if not event.judge:
            _ask_anew(state)
    if event.retry:
        _retry(state, event.retry)
    if event.judge:
        _open_verdict(state)


def _ask_anew(state: State) -> None:
    """Whether to go on is asked anew, now that a person has spoken."""
    known = state.mending()
    state.impasse = state.reflection = None
    known.word = ""
    if state.evaluation is not None and state.evaluation.by == "model":
        known.evaluation, known.outdated = state.evaluation, True
        state.evaluation = state.escalation = None


def _fork_made(state: State, event: e.ForkMade, ts: float) -> None:
    state.kin = True


HANDLERS: dict[type, Callable[[Any, Any, float], None]] = {
    e.TaskSubmitted: _submitted,
    e.PreviousTasksRead: _previous_read,
    e.TaskStarted: _started,
    e.TaskResumed: _resumed,
    e.TaskLeft: _left,
    e.RoundStarted: _round,
    e.LlmCallStarted: _llm_started,
    e.LlmCallCompleted: _llm_completed,
    e.ToolSelectionCompleted: _selected,
    e.PlanRejected: _rejected,
    e.ExecutionMode: _mode,
    e.EvaluationCompleted: _evaluated,
    e.CancelRequested: _cancel,
    **dict.fromkeys(e.TERMINAL, _ended),
    e.TaskForked: _forked,
    e.ForkMade: _fork_made,
    e.PauseRequested: _pause,
    e.ResumeRequested: _resume,
    e.HintGiven: _wish,
    e.RetryRequested: _wish,
    e.JudgementRequested: _wish,
    e.RequestTaken: _taken,
}  # fmt: skip
