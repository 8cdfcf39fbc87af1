"""The result of a task, read from its state."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from replan.beside import beside
from replan.core.calls.site import slot_of
from replan.core.data.pieces import MANY
from replan.core.decide import paused_words
from replan.core.events import (
    ApprovalRequested,
    PlanReviewRequested,
    QuestionAsked,
    TaskCompleted,
    TaskFailed,
    TaskWaiting,
)
from replan.core.limits.outlook import outlook_words
from replan.core.references.paths import PathError, check_path, select
from replan.core.report.failure import FailureReport, reported
from replan.core.report.result import CallResult, StepResult, TaskResult, WaitingFor
from replan.core.state.progress import compose
from replan.core.state.task import Output, Slot, State, StepState
from replan.core.types import Failure, StepId, unchecked
from replan.errors import InputError, NoSuchPart
from replan.ports import ArtifactStore
from replan.run.session.outputs import Loaded, read_kept


async def result_of(state: State, store: ArtifactStore) -> TaskResult:
    """What the task came to. The answer is whole; step outputs that are kept apart are named, with head and tail."""
    outcome = state.outcome
    answer: Any = None
    score: float | None = None
    failure: Failure | None = None
    if isinstance(outcome, TaskCompleted | TaskFailed):
        answer, score = outcome.final_output, outcome.score
        if outcome.artifact is not None:
            answer = await read_kept(store, state.task_id, outcome.artifact)
    if outcome is not None and not isinstance(outcome, TaskCompleted):
        failure = outcome.failure
    result: TaskResult = TaskResult(
        task_id=state.task_id,
        status=state.status,
        is_success=state.status == "succeeded",
        final_score=score,
        total_rounds=state.round,
        final_output=answer,
        total_duration_secs=round(state.active_secs, 6),
        failure=None if failure is None else _reported(failure, state),
        shortfall=outcome.shortfall if isinstance(outcome, TaskCompleted) else (),
        waiting_for=waiting_for(state) if state.status == "waiting" else (),
        ask=_unanswered(state),
        usage=state.usage,
        steps=await beside(_steps, state) if len(state.steps) + state.tool_calls > MANY else _steps(state),
    )
    if state.plan is not None:
        result.goes_with(state.plan, {name: (one.started, one.ended) for name, one in state.steps.items()})
    return result


def _reported(failure: Failure, state: State) -> FailureReport:
    steps = state.steps.items()
    return reported(
        failure,
        kept=[step_id for step_id, step in steps if step.has_output],
        failed=[step_id for step_id, step in steps if step.status == "failed"],
    )


def _steps(state: State) -> tuple[StepResult, ...]:
    waits = _waiting_steps(state)
    return tuple([plain_result(step) or step_result(state, step, waits) for step in state.every_step()])


def waiting_for(state: State) -> tuple[WaitingFor, ...]:
    """What the task waits for: from people, from outside, or some time."""
    known, waiting = state.recovery, state.waiting
    waits: tuple[WaitingFor, ...] = ()
    if (
        state.pause is not None and state.paused
    ):  # whatever else it waits for: it does not go on by that alone
        waits = (WaitingFor(kind="pause", id="", text=paused_words(state.pause)),)
    if waiting is not None and waiting.until_resumed:
        resumed = WaitingFor(kind=waiting.because, id="", text=waiting.reason, secrets=waiting.secrets)
        return (resumed, *waits)
    ends = {one.expires for one in open_approvals(state)}
    waits = (*waits, *_waits(waiting, ends)) if waiting is not None else waits
    if (review := state.open_review()) is not None:
        waits = (reviewed(review), *waits)
    if known is None:
        return waits
    approvals = [agreed(one) for one in open_approvals(state)]
    questions = [
        WaitingFor(
            kind=one.kind, id=one.question_id, text=one.text, background=one.background, step_id=one.step_id
        )
        for one in state.open_questions()
        if one.kind != "question"
    ]
    questions += [asked(one) for one in state.open_questions() if one.kind == "question"]
    return (*approvals, *questions, *waits)


def asked(one: QuestionAsked) -> WaitingFor:
    """What a step asks a person."""
    return WaitingFor(
        kind=one.kind, id=one.question_id, text=one.text, step_id=one.step_id,
        item=None if one.index is None else one.index + 1, answer_schema=one.answer_schema,
    )  # fmt: skip


def reviewed(one: PlanReviewRequested) -> WaitingFor:
    """A plan that a person is asked about."""
    wrong = "; ".join(one.problems)
    told = [
        outlook_words(one.outlook),
        f"What was given in its place cannot be carried out: {wrong}" if wrong else "",
    ]
    return WaitingFor(
        kind="review", id=one.review_id, text=f"May plan {one.plan_version} be carried out?",
        background=". ".join(filter(None, told)), plan_version=one.plan_version, expires=one.expires,
    )  # fmt: skip


def _unanswered(state: State) -> tuple[WaitingFor, ...]:
    """What steps have asked in vain: nobody could be asked, or nobody has answered in time."""
    known = state.recovery
    if known is None or not state.ended:
        return ()
    found = []
    for one in known.questions.values():
        call = state.latest_try(one.call_key) if one.kind == "question" and one.call_key else None
        in_vain = call is not None and call.fault is not None and call.fault.kind in ("question", "limit")
        if in_vain and one.question_id not in known.answers:
            found.append(asked(one))
    return tuple(found)


def _waits(waiting: TaskWaiting, ends: Collection[float | None]) -> tuple[WaitingFor, ...]:
    """What it waits for beside people. `ends`: when those who are asked for a call are waited for no longer."""
    text = "Somebody outside uses this token, with what has come of it."
    found = [WaitingFor(kind="callback", id=token, text=text) for token in waiting.callbacks]
    if waiting.until is not None and not waiting.reviews and waiting.until not in ends:
        found.append(WaitingFor(kind="time", id="", text=waiting.reason, until=waiting.until))
    return tuple(found)


def agreed(one: ApprovalRequested) -> WaitingFor:
    """A call that a person is asked for, or has agreed to."""
    return WaitingFor(
        kind="approval", id=one.approval_id, step_id=one.step_id, tool_id=one.tool_id, parameters=one.parameters,
        text=f"May {one.tool_id!r} be called in step {one.step_id!r}{_which(one)}?" + (f" ({one.why})" if one.why else ""),
        hidden={name: mark[:8] for name, mark in one.seals.items()},
        item=None if one.index is None else one.index + 1, item_value=one.item, expires=one.expires, origin=one.origin,
    )  # fmt: skip


def _which(one: ApprovalRequested) -> str:
    """Which call of the step, where it has several; empty for the only one."""
    words = slot_of(one.action_id, one.index).words()
    return f", {words}" if words else ""


def open_approvals(state: State) -> list[ApprovalRequested]:
    """The approvals that calls of the plan wait for."""
    known = state.recovery
    steps = state.steps
    asked = known.open_approvals() if known is not None else []
    return [one for one in asked if one.step_id in steps and not steps[one.step_id].closed]


def _waiting_steps(state: State) -> set[StepId]:
    waits = {call.step_id for call in state.running_calls() if call.key in state.waits} if state.waits else ()
    return {*(one.step_id for one in open_approvals(state)), *waits}


def status_of_step(state: State, step: StepState, waits: Collection[StepId] | None = None) -> str:
    """The step's status, and `waiting` while it only waits. `waits`: the steps that wait for somebody or something."""
    waits = _waiting_steps(state) if waits is None else waits
    return "waiting" if step.step.step_id in waits and not _at_work(state, step) else step.status


def statuses_of(state: State) -> dict[StepId, str]:
    """The same of every step of the plan."""
    waits = _waiting_steps(state)
    return {name: status_of_step(state, step, waits) for name, step in state.steps.items()}


def _at_work(state: State, step: StepState) -> bool:
    """True if some call of the step runs, other than as a wait, or is about to be tried again."""
    return any(
        call.status in ("running", "retrying") and call.key not in state.waits for call in step.calls.values()
    )


_step_result, _call_result = unchecked(StepResult), unchecked(CallResult)


def plain_result(step: StepState) -> StepResult | None:
    """A step that has made one call, which has succeeded."""
    call = step.plain_call()
    if call is None or call.output is None:
        return None
    reused = not call.was_made
    made = _call_result(
        tool=call.tool_id,
        parameters=dict(call.parameters),
        status=call.status,
        plan_version=call.plan,
        attempts=call.attempt,
        reused=reused,
        effect=call.effect,
    )
    return _step_result(
        step_id=step.step.step_id,
        name=step.step.name,
        tool=step.step.tool,
        status=step.status,
        output=call.output.value if call.output.artifact is None else _named(call.output),
        attempts=call.attempt,
        reused=reused,
        duration_secs=round(step.secs or 0.0, 6),
        plan_version=step.born,
        removed_by=step.gone or None,
        repeat_reason=step.step.repeat_reason,
        calls=(made,),
    )


def step_result(state: State, step: StepState, waits: Collection[StepId] | None = None) -> StepResult:
    """A step with every call that it made."""
    output = compose(step, _named) if step.has_output else None
    replaced = state.recovery.replaced if state.recovery is not None else {}
    return StepResult(
        step_id=step.step.step_id,
        name=step.step.name,
        tool=step.step.tool or ", ".join(dict.fromkeys(action.tool for action in step.step.actions)),
        status=status_of_step(state, step, waits),
        output=output,
        error=step.fault.message if step.fault else None,
        reason=step.skip.reason if step.skip else None,
        attempts=step.attempts,
        reused=bool(step.calls) and all(not call.was_made for call in step.calls.values()),
        duration_secs=round(step.secs or 0.0, 6),
        plan_version=step.born,
        removed_by=step.gone or None,
        repeat_reason=step.step.repeat_reason,
        replaced_by=replaced.get(step.step.step_id) if step.gone else None,
        failed_items=tuple(item + 1 for item in step.left_out) if step.closed and step.calls else (),
        calls=tuple(_calls(step)),
    )


def _calls(step: StepState) -> Iterator[CallResult]:
    """The calls, each with its output where the step's does not hold it."""
    without = set(step.left_out) if step.has_output else set()
    for call in step.every_call():
        held = step.has_output and step.calls.get(call.slot) is call and call.slot.item not in without
        yield CallResult(
            tool=call.tool_id,
            parameters=call.parameters,
            status=call.status,
            action_id=call.slot.action_id,
            item=None if call.slot.item is None else call.slot.item + 1,
            plan_version=call.plan,
            attempts=call.attempt,
            reused=not call.was_made,
            effect=call.effect,
            output=None if held or call.output is None else _named(call.output),
            error=call.fault.message if call.fault is not None and call.status != "succeeded" else None,
        )


def _named(output: Output) -> Any:
    return output.value if output.artifact is None else output.artifact.model_dump(mode="json")


def step_of(state: State, step_id: str) -> StepState:
    """A step of any plan."""
    every = {step.step.step_id: step for step in state.every_step()}
    if step_id not in every:
        there = ", ".join(list(every)[:20]) or "none"
        raise NoSuchPart(f"task {state.task_id!r} has no step {step_id!r}; it has: {there}")
    return every[step_id]


def part_at(value: Any, path: str, *, option: str = "path") -> Any:
    """What a path selects; `InputError` where it selects nothing."""
    if wrong := check_path(path):
        raise InputError(f"{option} {path}: {wrong}")
    try:
        return select(path, value)
    except PathError as error:
        has = f"; there is: {', '.join(error.available[:20])}" if error.available else ""
        raise InputError(
            f"{option} {path}: selects nothing{f': {error.why}' if error.why else ''}{has}"
        ) from None


def part_of(step: StepState, item: int | None, loaded: Loaded) -> Any:
    """What calls of a step gave: those of one item, or of a step that did not get through."""
    name = step.step.step_id
    if item is not None and step.items is None:
        raise InputError(f"step {name!r} is no `for_each`: it has no items")
    if item is not None and not 1 <= item <= (step.items or 0):
        raise NoSuchPart(f"step {name!r} has {step.items} items; they are counted from 1")
    found = {
        call.slot: loaded.value_of(call.output)
        for call in step.every_call()
        if call.output is not None and (item is None or call.slot.item == item - 1)
    }
    if not found:
        where = f"item {item} of step {name!r}" if item is not None else f"step {name!r}"
        raise NoSuchPart(f"{where} has no output" + (f": it is {step.status}" if item is None else ""))
    if item is not None and not step.step.actions:
        return found[Slot(None, item - 1)]
    if item is not None:
        return {slot.action_id: value for slot, value in found.items()}
    return {slot.words() or "the call": value for slot, value in found.items()}
