"""What a task reads, at its beginning, of the tasks that it follows: once, so that it knows the same ever after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from replan.core.events import PreviousTasksRead
from replan.core.following.told import PreviousTask
from replan.core.state.task import ENDED, State
from replan.errors import TaskNotFound
from replan.ports import NewArtifact, Store, TaskSummary
from replan.run.following import recorded
from replan.run.following.told import Telling
from replan.run.following.wanted import PREVIOUS
from replan.run.session.context import Run

MOST_TASKS = 5
"""Tasks that have ended of which all is told that there is room for."""
MOST_UNDER_WAY = 3
"""Others of the session, of which it is told that they are there."""
MOST_LOOKED_AT = 100
"""Rows of the session that are looked at."""
_GONE = "it was deleted, or moved to another database, before this task was begun"
_GIVEN_AWAY = "it was given away to a file, and goes on in another database"


async def read_previous(run: Run, store: Store | None = None) -> None:
    """Record what the tasks have come to that this one follows, if it follows any and has not read them yet.

    `store`: where they are, if not where the task is.
    """
    state = run.state
    if state.submitted is None or state.following is not None or state.plan is not None:
        return
    if state.cancel is not None:  # nothing of it is planned any more
        return
    if state.submitted.session or PREVIOUS in state.submitted.context:
        where = store or run.parts.store
        if (found := await recorded.taken(run, where)) is None:
            found = await _read(run, where, keeps=store is None)
            if found[0].tasks:
                recorded.keep(run, *found)
        event, artifacts = found
        if event.tasks:
            run.record(event, artifacts=artifacts if store is None else ())


async def _read(run: Run, store: Store, *, keeps: bool) -> tuple[PreviousTasksRead, Sequence[NewArtifact]]:
    state, telling = run.state, Telling(run, store, keeps=keeps)
    named, rows = _named(state), await _session(state, store)
    others = [one for one in rows if one.task_id != named]
    ended = [one for one in others if one.status in ENDED and not one.given_away]
    under_way = [one for one in others if one not in ended]
    found: list[PreviousTask] = []
    names = _names()
    if named is not None:
        found.append(await _one(named, next(names), state, store, telling))
    latest = ended[: MOST_TASKS - len(found)]
    found += [await _one(row.task_id, next(names), state, store, telling) for row in latest]
    found += [_unfinished(row) for row in under_way[:MOST_UNDER_WAY]]
    more = len(rows) - len(found) + (named is not None and named not in {row.task_id for row in rows})
    event = PreviousTasksRead(tasks=tuple(found), more=more, at_least=len(rows) == MOST_LOOKED_AT)
    return event, telling.artifacts


def _names() -> Iterator[str]:
    yield "previous"
    for number in range(2, 100):
        yield f"previous_{number}"


def _named(state: State) -> str | None:
    given: Any = state.submitted.context.get(PREVIOUS) if state.submitted is not None else None
    return given if isinstance(given, str) else None


async def _session(state: State, store: Store) -> list[TaskSummary]:
    """The tasks of its session that are older than it, the latest first; none that it is a fork of."""
    submitted = state.submitted
    if submitted is None or not submitted.session:
        return []
    itself = state.fork.root if state.fork is not None else state.task_id
    before: str | None = itself
    try:
        await store.summary(itself)
    except TaskNotFound:  # it is not stored: it would be the latest
        before = None
    rows = await store.list_tasks(
        limit=MOST_LOOKED_AT, before=before, tenant=submitted.tenant, session=submitted.session
    )
    return [row for row in rows if row.task_id != state.task_id]


async def _one(task_id: str, name: str, state: State, store: Store, telling: Telling) -> PreviousTask:
    """A task, as far as it may be known."""
    tenant = state.submitted.tenant if state.submitted is not None else ""
    try:
        summary = await store.summary(task_id)
        if summary.tenant != tenant:
            raise TaskNotFound(task_id)
        if summary.given_away:
            return PreviousTask(name="", task_id=task_id, status="unknown", why=_GIVEN_AWAY)
        if summary.status not in ENDED:
            return _unfinished(summary)
        return await telling.task(summary, name)
    except TaskNotFound:
        return PreviousTask(name="", task_id=task_id, status="unknown", why=_GONE)


def _unfinished(row: TaskSummary) -> PreviousTask:
    given_away = _GIVEN_AWAY if row.given_away else ""
    return PreviousTask(
        name="", task_id=row.task_id, description=row.description[:300], left_out=max(0, len(row.description) - 300),
        status=row.status, why=given_away,
    )  # fmt: skip
