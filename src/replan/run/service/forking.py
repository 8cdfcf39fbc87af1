"""Forks: a new task that shares another one's history up to an event, and goes on otherwise from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.data.strict_json import storable
from replan.core.decide import why_not
from replan.core.events import (
    TERMINAL,
    AnyEvent,
    CallCompleted,
    CallFailed,
    CallStarted,
    CancelRequested,
    ForkMade,
    LlmCallCompleted,
    OutcomeUnknown,
    Record,
    RetryRequested,
    RoundCompleted,
    StepFailed,
    StepSkipped,
    TaskForked,
)
from replan.core.ids import task_id_problem
from replan.core.limits.needs import Work
from replan.core.limits.policy import Policy
from replan.core.state.fold import fold
from replan.core.state.task import State, TaskName
from replan.core.types import JsonObject
from replan.core.words import beginning, text_of
from replan.errors import InputError, SecretsMissing, TaskNotFound
from replan.ports import Counted
from replan.run.service.people.interventions import checked_hint
from replan.run.service.resumable import tools_missing, why_missing
from replan.run.service.submission import json_size
from replan.run.session.dependencies import Parts
from replan.run.session.given import not_had
from replan.run.session.said import hidden

MOST_SINCE = 30
"""Effects after the event that a fork is told of."""


class Forking(NamedTuple):
    """What a person wants of a fork. What is not given stays as it is in the other task."""

    at: int | None = None
    """The last event that is shared; None: the last there is, of an ended task the last before its end."""
    task_id: str | None = None
    hint: str = ""
    plan: JsonObject | None = None
    retry: tuple[str, ...] = ()
    judge: bool = False
    policy: Policy | None = None
    tools: tuple[str, ...] | None = None
    settings: JsonObject | None = None
    reason: str = ""
    by: str = ""
    turn: Counted | None = None
    """Of a tenant with limits."""
    secrets: Mapping[str, Any] = {}
    """Those that the other task was begun with, where this process does not have them any more."""


async def place_of(parts: Parts, origin: str, wanted: Forking) -> tuple[int, State]:
    """Where the fork goes on, and the state there. `InputError` says what is wrong with what is wanted."""
    records = await parts.store.read(origin)
    end = records[-1].seq if isinstance(records[-1].event, TERMINAL) else None
    at = wanted.at
    if at is None:
        at = records[-1].seq if end is None else end - 1 if wanted.judge else _before_end(records)
    most = records[-1].seq if end is None else end - 1
    if not 1 <= at <= most:
        told = f" (number {end} is its end)" if end is not None else ""
        raise InputError(f"task {origin!r} has the events 1 to {most} to fork from, not {at}{told}")
    while at < most and isinstance(records[at].event, OutcomeUnknown):
        at += 1  # that it failed, and that nobody knows what came of it, is one fact
    shared = records[:at]
    state = await beside(fold, shared) if at > MANY else fold(shared)
    for step_id in wanted.retry:
        asked = RetryRequested(request_id="", step_id=step_id)
        if why := why_not(state, asked):
            raise InputError(f"task {origin!r} as it was at event {at}: {why}")
    if wanted.judge and (state.plan is None or state.round == 0):
        raise InputError(f"task {origin!r} as it was at event {at}: there is nothing to judge")
    return at, state


async def fork(
    parts: Parts,
    origin: str,
    wanted: Forking,
    place: tuple[int, State] | None = None,
    *,
    work: Work | None = None,
    driven: bool = False,
) -> tuple[str, bool]:
    """Store the fork; its id, and whether it is new. `work`: how it waits for a worker. `driven`: this process goes on with it, and
    nothing is stored without the secrets and tools that this takes.
    """
    _check(wanted)
    at, state = place or await place_of(parts, origin, wanted)
    task_id = wanted.task_id or parts.ids.new("task")
    name = TaskName(task_id, parts.clock.now())
    if work is None:  # before it is stored: what is said with it is stored without them
        parts.given.pass_on(state.name, name)
    new = False
    try:
        if driven:
            try:
                _check_drivable(parts, origin, state, wanted, name)
            except InputError:
                if not await _is_stored(parts, wanted.task_id):
                    raise  # what was accepted once stays accepted
        new = await _stored(parts, origin, wanted, name, (at, state), work)
    finally:
        if not new:
            parts.given.forget(name)
    return task_id, new


def _check_drivable(parts: Parts, origin: str, state: State, wanted: Forking, name: TaskName) -> None:
    """Take the secrets that are given with it; `SecretsMissing`, or `InputError`, if it could not go on here."""
    if state.cancel is not None:
        return
    if state.submitted is not None:
        try:
            parts.given.give_again(name, state.submitted, wanted.secrets)
        except SecretsMissing as error:
            missing = parts.given.lacking(name, state.submitted)
            raise SecretsMissing(
                f"task {origin!r} {not_had(missing)}: give it with the fork, as `secrets`; nothing is stored without",
                error.names,
            ) from None
    if wanted.plan is None and not wanted.judge and (absent := tools_missing(state, parts.tools)):
        raise InputError(f"task {origin!r}: {why_missing(state, absent, parts.tools)}")


async def _is_stored(parts: Parts, task_id: str | None) -> bool:
    if task_id is None:
        return False
    try:
        await parts.store.summary(task_id)
    except TaskNotFound:
        return False
    return True


async def _stored(
    parts: Parts, origin: str, wanted: Forking, name: TaskName, place: tuple[int, State], work: Work | None
) -> bool:
    at, state = place
    line = await parts.store.rests_on(origin)
    since = done_since(await parts.store.read(origin, at))
    event = TaskForked(
        origin=origin, at=at, root=line[0].task_id if line else origin,
        by=storable(wanted.by), reason=storable(wanted.reason), hint=wanted.hint, policy=wanted.policy, plan=wanted.plan,
        tools=wanted.tools, settings=wanted.settings, retry=wanted.retry, judge=wanted.judge, since=since,
    )  # fmt: skip
    event = await hidden(parts, origin, event, None if state.submitted is None else (name, state.submitted))
    told = ForkMade(fork=name.task_id, at=at, by=event.by, reason=event.reason)
    return await parts.store.fork(name.task_id, event, told, name.created, work=work, turn=wanted.turn)


def done_since(records: Sequence[Record]) -> tuple[str, ...]:
    """The calls with an effect that have succeeded, in words; of many the latest."""
    begun = {
        one.event.call_key: one.event
        for one in records
        if isinstance(one.event, CallStarted) and one.event.effect != "reads"
    }
    done = [one.event.call_key for one in records if isinstance(one.event, CallCompleted)]
    calls = [begun[key] for key in dict.fromkeys(done) if key in begun]
    return tuple(
        f"{call.tool_id}({beginning(text_of(call.parameters), 300)})" for call in calls[-MOST_SINCE:]
    )


def _check(wanted: Forking) -> None:
    if wanted.task_id is not None and (problem := task_id_problem(wanted.task_id)):
        raise InputError(problem)
    if wanted.hint:
        checked_hint(wanted.hint)
    if wanted.plan is not None:
        json_size("plan", wanted.plan)
        if not wanted.plan.get("steps"):
            raise InputError(
                "the plan that is given has no steps: give it some, or give no plan and let one be made"
            )
        if wanted.retry or wanted.judge:
            raise InputError(
                "another plan takes the place of the steps: nothing is left to retry or to judge"
            )


def _before_end(records: Sequence[Record]) -> int:
    """The last event before what was recorded because the task ended."""
    at = len(records)
    while at > 1 and _closes(records[at - 1].event):
        at -= 1
    return records[at - 1].seq


def _closes(event: AnyEvent) -> bool:
    match event:
        case CallFailed() | StepFailed():
            return event.error.kind == "cancelled"
        case OutcomeUnknown():
            return event.reason.startswith("it was stopped")
        case StepSkipped():
            return event.kind == "ended"
        case LlmCallCompleted():
            return event.error == "it was stopped"
    return isinstance(event, (*TERMINAL, RoundCompleted, CancelRequested))


class Kin(NamedTuple):
    """Where a task was forked from, and what was forked from it."""

    origin: str | None
    at: int
    forks: Mapping[str, int]


async def kin_of(parts: Parts, task_id: str, records: Sequence[Record]) -> Kin:
    own = [one.event for one in records if isinstance(one.event, TaskForked)]
    forks = {one.task_id: one.upto for one in await parts.store.forks(task_id)}
    return Kin(own[-1].origin, own[-1].at, forks) if own else Kin(None, 0, forks)
