"""A task that waits for a time, or for somebody outside, in the process that has driven it: nobody drives it meanwhile."""

from __future__ import annotations

import asyncio

from replan.core.events import TaskWaiting
from replan.core.state.task import State
from replan.run.human_input.signals import People
from replan.run.orchestrator import goes_on
from replan.run.session.dependencies import Parts

LOOK_SECS = 30.0
"""The clock is looked at so often: it may be set, or the machine may have slept."""
OVERDUE_SECS = 10.0
"""So long after its time a task that waits should have been taken up."""


async def until_it_goes_on(state: State, parts: Parts) -> bool:
    """Wait until the task is due, or somebody has spoken to it. False, at once, for one that waits for a person, or for no time."""
    until = state.waiting.by_itself if state.waiting is not None else None
    if state.ended or until is None:
        return False
    task_id = state.task_id
    spoken = asyncio.Event()
    people = People(task_id, parts)

    async def read() -> None:
        if await parts.store.read(task_id, state.last_seq, 1, signals_only=True):
            spoken.set()

    try:
        people.attend(read)
        await read()  # what was said before there was somebody to hear it
        while not (spoken.is_set() or goes_on(state, now := parts.clock.now())):
            try:
                async with asyncio.timeout(min(LOOK_SECS, max(0.001, until - now))):
                    await spoken.wait()
            except TimeoutError:
                pass
        return True
    finally:
        people.close()


async def due_by_itself(task_id: str, parts: Parts, last_seq: int) -> float | None:
    """Until when a task that nobody drives waits, if it then goes on by itself; None: it waits for people alone."""
    for record in reversed(await parts.store.read(task_id, max(0, last_seq - MOST_BACK))):
        if isinstance(record.event, TaskWaiting):
            return record.event.by_itself
    return None


MOST_BACK = 50
"""Events after the one that says what a task waits for: people may have spoken since."""
