"""Which tasks a task follows: the one that its context names, and those of its session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replan.core.ids import is_session, task_id_problem
from replan.core.state.task import ENDED
from replan.core.types import JsonObject
from replan.errors import InputError, TaskGivenAway, TaskNotDone, TaskNotFound
from replan.ports import TaskIndex

PREVIOUS, SESSION = "previous_task_id", "session_id"
"""The names in a task's context."""


def named(context: JsonObject) -> str | None:
    """The task that the context names as the one before; `InputError` for what cannot be one."""
    given: Any = context.get(PREVIOUS)
    if given is None:
        return None
    if not isinstance(given, str):
        raise InputError(f"{PREVIOUS} is the id of a task, not {type(given).__name__}")
    if problem := task_id_problem(given):
        raise InputError(f"{PREVIOUS}: {problem}")
    return given


def with_names(
    context: Mapping[str, Any] | None, session_id: str | None, previous_task_id: str | None
) -> Mapping[str, Any] | None:
    """The context with what is given beside it; `InputError` where that cannot be, or says something else."""
    if session_id is None and previous_task_id is None:
        return context
    made = dict(context or {})
    for name, given in ((SESSION, session_id), (PREVIOUS, previous_task_id)):
        if given is None:
            continue
        if made.get(name, given) != given:
            raise InputError(f"{name} is given twice, as {given!r} and in the context as {made[name]!r}")
        made[name] = given
    if session_id is not None and not (
        isinstance(session_id, str) and is_session(session_id) and session_id.isprintable()
    ):
        raise InputError(f"{SESSION} is a text of 1 to 200 printable characters")
    named(made)
    return made


async def check(store: TaskIndex, context: JsonObject, task_id: str | None, tenant: str) -> None:
    """`InputError` if the context names a task that cannot be followed."""
    wanted = named(context)
    if wanted is None:
        return
    if wanted == task_id:
        raise InputError(f"{PREVIOUS}: task {wanted!r} cannot follow itself")
    try:
        summary = await store.summary(wanted)
    except TaskNotFound:
        raise _not_there(wanted) from None
    if summary.tenant != tenant:
        raise _not_there(wanted)
    if summary.given_away:
        raise TaskGivenAway(wanted, summary.given_away)
    if summary.status not in ENDED:
        raise TaskNotDone(wanted, summary.status, to_follow=True)


def _not_there(task_id: str) -> InputError:
    return InputError(
        f"{PREVIOUS}: there is no task {task_id!r}: it was deleted, moved to another database, or never there"
    )
