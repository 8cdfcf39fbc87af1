"""Drives tasks in this process: so many at a time, the others wait in the order they came."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable

from replan.core.state import State
from replan.run.through import wait_through


class LocalEngine:
    """Calls `drive(task_id)` for each task that is started here."""

    def __init__(self, drive: Callable[[str], Awaitable[State]], max_concurrent: int) -> None:
        self._drive = drive
        self._places = asyncio.Semaphore(max(1, max_concurrent))
        self._driving: dict[str, asyncio.Task[State]] = {}
        self._context = contextvars.Context()
        """For the callbacks of all tasks: each would have one of its own."""

    def start(self, task_id: str) -> asyncio.Task[State]:
        """Drive the task as soon as there is a place; the same one if it is being driven here already."""
        known = self._driving.get(task_id)
        if known is not None and not known.done():
            return known
        task = asyncio.get_running_loop().create_task(self._take(task_id), name=task_id)
        self._driving[task_id] = task
        task.add_done_callback(self._ended, context=self._context)
        return task

    def driving(self, task_id: str) -> asyncio.Task[State] | None:
        return self._driving.get(task_id)

    async def _take(self, task_id: str) -> State:
        async with self._places:
            return await self._drive(task_id)

    def _ended(self, task: asyncio.Task[State]) -> None:
        task_id = task.get_name()
        if self._driving.get(task_id) is task:
            del self._driving[task_id]
        if not task.cancelled():
            task.exception()  # whoever waits is told; nobody has to

    async def aclose(self) -> None:
        """Stop driving. The tasks stay as they are in the log, and go on when somebody drives them again."""
        tasks = list(self._driving.values())
        for task in tasks:
            task.cancel()
        await wait_through(tasks)
