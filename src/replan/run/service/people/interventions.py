"""What a person can do to a task that has not ended, from any process: each is an event beside its driver, who sees it at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from replan.core.data.strict_json import storable
from replan.core.decide import why_not
from replan.core.events import (
    AnyEvent,
    HintGiven,
    JudgementRequested,
    PauseRequested,
    ResumeRequested,
    RetryRequested,
    Wish,
)
from replan.core.state.task import State
from replan.errors import InputError, NoSuchPart, TaskEnded, TaskHeld, TooLate
from replan.run.orchestrator import drive
from replan.run.session.dependencies import Parts
from replan.run.session.pages import folded
from replan.run.session.said import say_first

MOST_HINT = 20_000
"""Characters: it stands in every later prompt."""


async def pause(parts: Parts, task_id: str, *, reason: str = "", by: str = "", now: bool = False) -> None:
    """Have the task stand still once what runs has ended (`now`: is cut off, as by a crash), until it is resumed."""

    def told(state: State) -> str:
        if state.pause is not None and (state.pause.now or not now):
            return f"task {task_id!r} is paused already{_by(state.pause.by)}"
        return ""

    event = PauseRequested(reason=storable(reason), by=storable(by), now=now)
    await _say(parts, task_id, event, told)
    summary = await parts.store.summary(task_id)
    if not summary.held and not summary.queue:
        with contextlib.suppress(TaskHeld):  # taken up just now: its driver sees the signal
            await drive(task_id, parts)


async def unpause(parts: Parts, task_id: str, *, reason: str = "", by: str = "") -> None:
    """Let a paused task go on, with whoever drives it."""

    def told(state: State) -> str:
        return "" if state.pause is not None else f"task {task_id!r} is not paused ({state.status})"

    await _say(parts, task_id, ResumeRequested(reason=storable(reason), by=storable(by)), told)


async def hint(parts: Parts, task_id: str, text: str, *, by: str = "") -> State:
    """Say something that every later prompt is told. The state that it was said to."""
    event = HintGiven(request_id=parts.ids.new("hint"), hint=checked_hint(text), by=storable(by))
    return await _say(parts, task_id, event, lambda _: "")


async def retry(parts: Parts, task_id: str, step_id: str, *, reason: str = "", by: str = "") -> State:
    """Have a failed step tried again as planned, with what was left out because of it."""
    event = RetryRequested(
        request_id=parts.ids.new("retry"), step_id=step_id, reason=storable(reason), by=storable(by)
    )

    def told(state: State) -> str:
        if step_id not in state.steps:
            raise NoSuchPart(f"task {task_id!r}: {why_not(state, event)}")
        asked = (one for one in state.wishes if isinstance(one, RetryRequested) and one.step_id == step_id)
        return _cannot(state, event, next(asked, None), f"step {step_id!r} is to be tried again")

    return await _say(parts, task_id, event, told)


async def judge_again(parts: Parts, task_id: str, *, hint: str = "", by: str = "") -> State:
    """Have what was done judged anew; an end that was reached is not turned."""
    text = checked_hint(hint) if hint else ""
    event = JudgementRequested(request_id=parts.ids.new("judge"), hint=text, by=storable(by))

    def told(state: State) -> str:
        asked = (one for one in state.wishes if isinstance(one, JudgementRequested))
        return _cannot(state, event, next(asked, None), "it is to be judged again")

    return await _say(parts, task_id, event, told)


def checked_hint(text: Any) -> str:
    """What a person wants to be heeded; `InputError` if it is none."""
    if not isinstance(text, str) or not text.strip():
        raise InputError("the hint is empty: say in words what is to be heeded")
    if len(text) > MOST_HINT:
        raise InputError(f"the hint has {len(text)} characters; at most {MOST_HINT} are allowed")
    return storable(text)


def ended(task_id: str, status: str) -> TaskEnded:
    """What an ended task is answered with, and what can be done."""
    return TaskEnded(
        f"task {task_id!r} has ended ({status}); an ended task never changes: a fork goes on from before its end "
        f"(`replan tasks fork {task_id}`)"
    )


def _cannot(state: State, wanted: Wish, asked: Wish | None, what: str) -> str:
    """Why nothing can come of it, as the task stands."""
    if asked is not None:
        return f"task {state.task_id!r}: {what}, as was asked just before{_by(asked.by)}"
    why = why_not(state, wanted)
    return f"task {state.task_id!r}: {why}" if why else ""


def _by(who: str) -> str:
    return f" by {who}" if who else ""


async def _say(parts: Parts, task_id: str, event: AnyEvent, told: Callable[[State], str]) -> State:
    """Write it, unless it is `told` that it would say nothing new, or cannot be: `TooLate`, also for the second of two at once."""

    def check(state: State) -> None:
        if state.ended:
            raise ended(task_id, state.status)
        if problem := told(state):
            raise TooLate(problem)

    state = await folded(parts.store, task_id)
    try:
        await say_first(parts, state, event, check)
    except TaskEnded:
        raise ended(task_id, (await parts.store.summary(task_id)).status) from None
    return state
