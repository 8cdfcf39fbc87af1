"""What people and callers outside say to a task: no secret that whoever stores it knows goes into the log with it."""

from __future__ import annotations

from typing import TypeVar

from replan.core.events import AnyEvent, Record, TaskSubmitted
from replan.core.secrets import KnownSecrets, lost
from replan.core.state.task import TaskName
from replan.errors import InputError
from replan.run.session.context import Run
from replan.run.session.dependencies import Parts
from replan.run.session.given import read_source
from replan.run.session.known_secrets import known_to

E = TypeVar("E", bound=AnyEvent)


async def hidden(parts: Parts, task_id: str, event: E) -> E:
    """The event without any secret of the task that is known here: to whoever drives it, or to whoever says it."""
    known = parts.under_way.secrets_of(task_id)
    if known is None:
        first = await parts.store.read(task_id, 0, 1)
        if not first or not isinstance(request := first[0].event, TaskSubmitted):
            return parts.secrets.masked_event(event)
        created = (await parts.store.summary(task_id)).created
        known = _known_here(parts, TaskName(task_id, created), request)
    return known.masked_event(event)


async def say(parts: Parts, task_id: str, event: AnyEvent) -> Record:
    """Write it to the task's log."""
    shown = await hidden(parts, task_id, event)
    record = await parts.store.signal(task_id, shown, parts.clock.now())
    if shown is not event:
        created = (await parts.store.summary(task_id)).created
        parts.given.keep_said(TaskName(task_id, created), record.seq, event)
    return record


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
    if said is not None:
        return run.secrets.masked_event(said), False
    event = record.event
    if event.masked:
        run.state.any_lost = True
        event = lost(event)
    seen = run.secrets.masked_event(event)
    return seen, seen is not event and run.secrets.masked_event(record.event) is not record.event
