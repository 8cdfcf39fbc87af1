"""What somebody outside says to a task that waits for it, by the token that the task has given out."""

from __future__ import annotations

from typing import Any

from replan.core.data.strict_json import storable
from replan.core.events import CallbackReceived
from replan.core.ids import canonical
from replan.core.state.task import State
from replan.errors import InputError
from replan.run.service.submission import MAX_METADATA_BYTES, json_size
from replan.run.session.dependencies import Parts
from replan.run.session.said import hidden, say
from replan.run.waits.beginning import callbacks_of


async def receive(parts: Parts, state: State, token: str, data: Any, by: str) -> bool:
    """Keep what was said, also for a wait that has yet to begin; False if the very same was said before.

    `InputError` for a token of nobody's, and for another word than the first.
    """
    task_id = state.task_id
    size = json_size("data", data)
    if size > MAX_METADATA_BYTES:
        raise InputError(f"data has {size} bytes; at most {MAX_METADATA_BYTES} are allowed")
    if token not in (known := callbacks_of(state)):
        there = ", ".join(known) or "none"
        raise InputError(f"task {task_id!r} has no callback {token[:100]!r}; it has: {there}")
    made = CallbackReceived(token=token, data=data, by=storable(by))
    said = await hidden(parts, task_id, made)
    if (first := state.callbacks.get(token)) is not None:
        return _unless_the_same(first, said, task_id)
    record = await say(parts, task_id, made)
    for other in await parts.store.read(task_id, signals_only=True):
        if (
            isinstance(other.event, CallbackReceived)
            and other.event.token == token
            and other.seq < record.seq
        ):
            return _unless_the_same(other.event, said, task_id)  # somebody was faster
    return True


def _unless_the_same(first: CallbackReceived, said: CallbackReceived, task_id: str) -> bool:
    if canonical(first.data) == canonical(said.data):
        return False
    who = first.by or "somebody"
    raise InputError(
        f"callback {said.token!r} of task {task_id!r} was used already by {who}, with other data: the first word counts"
    )
