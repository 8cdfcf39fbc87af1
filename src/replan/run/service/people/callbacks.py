"""What somebody outside says to a task that waits for it, by the token that the task has given out."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from replan.core.data.strict_json import storable
from replan.core.events import CallbackReceived
from replan.core.ids import canonical
from replan.core.state.task import State
from replan.errors import AnsweredBefore, InputError, TaskEnded, TaskNotFound
from replan.run.service.people.interventions import ended
from replan.run.service.submission import MAX_METADATA_BYTES, json_size
from replan.run.session.dependencies import Parts
from replan.run.session.pages import folded
from replan.run.session.said import hidden, say_first
from replan.run.waits.beginning import callbacks_of


async def receive(parts: Parts, state: State, token: str, data: Any, by: str) -> bool:
    """Keep what was said, also for a wait that has yet to begin; False if the very same was said before.

    Its forks that wait by the same token are told, too: whoever is outside knows of the first task only.
    `InputError` for a token of nobody's, and for another word than the first; `TaskEnded` where nobody waits for it any more.
    """
    size = json_size("data", data)
    if size > MAX_METADATA_BYTES:
        raise InputError(f"data has {size} bytes; at most {MAX_METADATA_BYTES} are allowed")
    if token not in callbacks_of(state):
        if state.ended:
            raise ended(state.task_id, state.status)
        raise InputError(
            f"task {state.task_id!r} has given out no callback {token[:100]!r} (`replan tasks show` says which it waits for)"
        )
    made = CallbackReceived(token=token, data=data, by=storable(by))
    waiting = [one async for one in _forks_with(parts, state.task_id, token) if token not in one.callbacks]
    if state.ended and token not in state.callbacks and not waiting:
        raise ended(state.task_id, state.status)
    new = False
    if not state.ended or token in state.callbacks:
        new = await _tell(parts, state, made)
    for fork in waiting:
        with contextlib.suppress(TaskEnded):  # just now
            new |= await _tell(parts, fork, made)
    return new


async def _forks_with(parts: Parts, task_id: str, token: str) -> AsyncIterator[State]:
    """Those of its forks, and of theirs, that have not ended and that were given the token."""
    left, seen = [task_id], {task_id}
    while left:
        for one in await parts.store.forks(left.pop()):
            if one.task_id in seen:
                continue
            seen.add(one.task_id)
            left.append(one.task_id)
            with contextlib.suppress(TaskNotFound):
                state = await folded(parts.store, one.task_id)
                if not state.ended and token in callbacks_of(state):
                    yield state


async def _tell(parts: Parts, state: State, made: CallbackReceived) -> bool:
    """Keep it in one task's log; False if that has it already."""
    task_id = state.task_id
    said = await hidden(parts, task_id, made)

    def check(state: State) -> None:
        if (first := state.callbacks.get(made.token)) is not None:
            raise _Known(first)

    try:
        await say_first(parts, state, made, check)
    except _Known as known:
        _check_the_same(known.first, said, task_id)
        return False
    return True


class _Known(Exception):
    """Somebody was faster."""

    def __init__(self, first: CallbackReceived) -> None:
        super().__init__()
        self.first = first


def _check_the_same(first: CallbackReceived, said: CallbackReceived, task_id: str) -> None:
    if canonical(first.data) == canonical(said.data):
        return
    who = first.by or "somebody"
    raise AnsweredBefore(
        f"callback {said.token!r} of task {task_id!r} was used already by {who}, with other data: the first word counts"
    )
