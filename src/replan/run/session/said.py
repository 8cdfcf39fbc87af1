"""What people and callers outside say to a task: no secret that whoever stores it knows goes into the log with it.

What only another process knows is taken out by that one: whoever drives the task, as soon as it hears of it, or who speaks to it, or reads
it, next. What nobody can know, but everybody see, is never written: a key of a known kind, what stands behind `password:`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard, TypeVar, cast

from replan.core.events import AnyEvent, ForkMade, QuestionAnswered, Record, TaskSubmitted
from replan.core.secrets import KnownSecrets, is_said, lost, secrets_said, without_secrets_said
from replan.core.state.fold import fold
from replan.core.state.task import State, TaskName
from replan.errors import InputError, NotHeard, TaskEnded, TaskHeld, TaskNotFound
from replan.run.session.context import Run
from replan.run.session.dependencies import Parts
from replan.run.session.given import read_source
from replan.run.session.known_secrets import LateSecrets, known_to
from replan.run.session.shielding import see_through

E = TypeVar("E", bound=AnyEvent)
_WORDS = ("hint", "reason", "by")
_VALUES = ("data", "output", "parameters")


async def known_here(parts: Parts, task_id: str, first: Sequence[Record] = ()) -> KnownSecrets:
    """What is known here to be secret of the task: to whoever drives it, or to whoever has given it or can have it.

    `first`: the first record of its log, where that is at hand.
    """
    known = parts.under_way.secrets_of(task_id)
    if known is not None:
        return known
    first = first or await parts.store.read(task_id, 0, 1)
    if not first or not isinstance(request := first[0].event, TaskSubmitted):
        return parts.secrets
    created = (await parts.store.summary(task_id)).created
    found = _known_here(parts, TaskName(task_id, created), request)
    for one in await parts.store.rests_on(task_id):  # whoever has forked it may know nothing
        if (known := parts.under_way.secrets_of(one.task_id)) is not None:
            found.also(known)
        elif parts.given.holds(one.task_id):
            name = TaskName(one.task_id, (await parts.store.summary(one.task_id)).created)
            found.also(known_to(parts.given.restored(name, request), parts.tools, parts.secrets))
    return found


async def hidden(
    parts: Parts, task_id: str, event: E, heir: tuple[TaskName, TaskSubmitted] | None = None
) -> E:
    """The event without any secret of the task that is known here, or that can be seen in it. `heir`: a fork of it that is yet to be
    stored, with the request; what was given for that one is known, too.
    """
    known = await known_here(parts, task_id)
    if heir is not None:
        known = KnownSecrets(known)
        known.also(_known_here(parts, *heir))
    return known.masked_event(in_words(event))


def in_words(event: E) -> E:
    """The event without what looks like a secret in what somebody has said in words."""
    words = (*_WORDS, "answer") if _is_answer(event) else _WORDS
    said = {name: getattr(event, name, None) for name in words}
    shown = {name: without_secrets_said(text) for name, text in said.items() if isinstance(text, str)}
    changed = {name: text for name, text in shown.items() if text != said[name]}
    if not changed:
        return event
    return cast(E, event.model_copy(update=changed))


def seen_in(event: AnyEvent) -> list[tuple[str, Any]]:
    """What looks like a secret in an answer that a step goes on with: masked as in words, and still used where it was said."""
    return list(secrets_said(event.output)) if _is_answer(event) else []


def _is_answer(event: AnyEvent) -> TypeGuard[QuestionAnswered]:
    """True for an answer that is somebody's word; else it says whether a call took effect, and what that gave."""
    return isinstance(event, QuestionAnswered) and event.happened is None


async def say(
    parts: Parts,
    task_id: str,
    event: AnyEvent,
    secrets: Iterable[tuple[str, Any]] = (),
    *,
    clears: bool = True,
    heard: int | None = None,
) -> Record:
    """Write it to the task's log. `secrets`: what in it is known to be one by what it is for. `clears`: what was said before is looked at,
    too; who drives the task at once does that. `heard`: see `ports.EventLog.signal`."""
    event = in_words(event)
    known = await known_here(parts, task_id)
    if secrets := [*secrets, *seen_in(event)]:
        known = KnownSecrets(known)
        known.add_all(secrets)
    shown = known.masked_event(event)
    if shown is event:
        record = await parts.store.signal(task_id, shown, parts.clock.now(), heard=heard)
    else:
        record = await see_through(_said_here(parts, task_id, event, shown, heard))
    if clears:
        await clear(parts, task_id, known)
    return record


async def say_first(
    parts: Parts,
    state: State,
    event: AnyEvent,
    check: Callable[[State], object],
    secrets: Iterable[tuple[str, Any]] = (),
) -> Record:
    """Write it, if `check` raises nothing for the state that the task is in by then: what others have said meanwhile is taken in first.

    So of two who say the same at once one is written, and the other one is told. `state` goes on with what is read.
    """
    secrets = list(secrets)
    while True:
        check(state)
        try:
            return await say(parts, state.task_id, event, secrets, heard=state.last_seq)
        except NotHeard:
            fold(await parts.store.read(state.task_id, state.last_seq), state)


async def _said_here(
    parts: Parts, task_id: str, event: AnyEvent, shown: AnyEvent, heard: int | None
) -> Record:
    """Write it, and keep what the log has not: whoever drives the task may read it before that."""
    with parts.given.saying(task_id):
        record = await parts.store.signal(task_id, shown, parts.clock.now(), heard=heard)
        created = (await parts.store.summary(task_id)).created
        parts.given.keep_said(TaskName(task_id, created), record.seq, event)
    return record


class _OfWords(LateSecrets):
    """What is known to be secret, in words alone: what the task goes on with (`data`, `output`) is taken out by who takes it in."""

    def event(self, event: AnyEvent) -> AnyEvent:
        made = super().event(event)
        if made is event or not is_said(event):
            return made
        left = {name: getattr(event, name) for name in _VALUES if getattr(event, name, None) is not None}
        if not left:
            return made
        same = all(
            getattr(made, name) == getattr(event, name)
            for name in (*_WORDS, "answer")
            if hasattr(event, name)
        )
        return event if same else made.model_copy(update={**left, "masked": event.masked})


async def clear(parts: Parts, task_id: str, known: KnownSecrets | None = None) -> None:
    """Take what is known here to be secret out of what was said in words to a task that nobody drives."""
    if parts.under_way.secrets_of(task_id) is not None:
        return  # its driver does
    known = known or await known_here(parts, task_id)
    if not known.any:
        return
    words = _OfWords(known, ())
    try:
        said = [one for one in await _said_to(parts, task_id) if words.event(one) is not one]
    except TaskNotFound:
        return
    if not said:
        return
    with contextlib.suppress(TaskHeld, TaskEnded, TaskNotFound):
        claim = await parts.store.claim(task_id)
        try:
            await parts.store.redact(claim, words)
        finally:
            await see_through(parts.store.release(claim))
    for one in said:
        if isinstance(one, ForkMade):
            await clear(parts, one.fork, known)


async def clear_forks(run: Run) -> None:
    """The same of what was said as forks of the task were made."""
    for record in await run.parts.store.read(run.task_id, signals_only=True):
        if isinstance(record.event, ForkMade):
            await clear(run.parts, record.event.fork, run.secrets)


async def _said_to(parts: Parts, task_id: str) -> list[AnyEvent]:
    """What people have said to it, as its log has it; with what it was forked for."""
    said = await parts.store.read(task_id, signals_only=True)
    if line := await parts.store.rests_on(task_id):
        said += await parts.store.read(task_id, line[-1].upto, 1)
    return [one.event for one in said if is_said(one.event)]


def _known_here(parts: Parts, name: TaskName, request: TaskSubmitted) -> KnownSecrets:
    known = known_to(parts.given.restored(name, request), parts.tools, parts.secrets)
    for place, source in request.secrets.items():
        try:
            value = read_source(source, place) if source else None
        except InputError:
            continue  # it is not there in this process
        if value is not None:
            known.add(value, place.rpartition(".")[2])
    return known


def taken_in(run: Run, record: Record) -> tuple[AnyEvent, bool]:
    """What was said, as the driver goes by it; and whether the log has a secret in it that only the driver knows."""
    said = run.parts.given.said(run.name, record.seq)
    run.secrets.add_all(seen_in(record.event if said is None else said))
    if said is not None:
        return run.secrets.masked_event(said), False
    event = record.event
    if event.masked:
        run.state.any_lost = True
        event = lost(event)
    seen = run.secrets.masked_event(event)
    return seen, seen is not event and run.secrets.masked_event(record.event) is not record.event
