"""Drives tasks in this process: so many at a time, the others wait in the order they came.

A task that another one waits for, in a call of a tool, needs no place: the other one holds a place and does nothing
meanwhile. It might be the very place that this one waits for. Where it cannot be seen that a tool waits for a task
(its job is done by a worker, or in a thread), a place is lent: see `engine.lending`.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Awaitable, Callable, Collection
from contextvars import ContextVar

from replan.core.state.task import State
from replan.engine.lending import Lending, Still
from replan.errors import TaskGivenAway, TaskHeld
from replan.ports import Listening
from replan.run.session.shielding import wait_through


class LocalEngine:
    """Calls `drive(task_id)` for each task that is started here."""

    def __init__(
        self,
        drive: Callable[[str], Awaitable[State]],
        max_concurrent: int,
        hear: Callable[[str, Callable[[], None]], Listening] | None = None,
        *,
        still: Still | None = None,
        lend_after: Callable[[Collection[str]], float] = lambda _: 0.0,
        asleep: Callable[[State], Awaitable[bool]] | None = None,
        elsewhere: Callable[[str], Awaitable[State]] | None = None,
    ) -> None:
        """`hear(task_id, tell)` calls `tell` when a task that nobody drives yet is cancelled, in whatever process.

        `still(task_ids)`: for how many seconds none of them has done anything but wait for its tools. After `lend_after(task_ids)`
        of these a place is lent; 0: never.

        `asleep(state)` waits, without a place, until a task that was let go of is due by itself; False for any other.
        `elsewhere(task_id)`: what becomes of one that somebody else has taken up then.
        """
        self._asleep, self._elsewhere = asleep, elsewhere
        self._sleeping: set[str] = set()
        self._drive = drive
        self._hear = hear
        self._free = self._places = max(1, max_concurrent)
        self._queue: dict[str, asyncio.Future[bool]] = {}
        """Who waits for a place and has not been told yet; the result: whether it has got one."""
        self._driving: dict[str, asyncio.Task[State]] = {}
        self._new: set[str] = set()
        """Who has been started, and has not asked for a place yet."""
        self._through: set[str] = set()
        """Who needs no place, before they have asked for one."""
        self._count = itertools.count()
        self._came: dict[str, int] = {}
        """When each began to wait for a place, as a number that counts up."""
        self._placed: dict[str, int] = {}
        """When each that has a place got it."""
        self._context = contextvars.Context()
        """For the callbacks of all tasks: each would have one of its own."""
        self._lending = None if still is None else Lending(still, lend_after, self)
        self.broken: Callable[[str, BaseException], None] | None = None
        """Told of a drive that has ended by an error."""
        self.let_go: Callable[[State], None] | None = None
        """Told of a task as it stands where nobody drives it here any more."""

    def start(self, task_id: str, *, stays: bool = True) -> asyncio.Task[State]:
        """Drive the task as soon as there is a place; the same one if it is being driven here already.

        `stays`: also where it waits for a time in between; else somebody else wakes it up.
        """
        known = self._driving.get(task_id)
        if known is not None and not known.done():
            return known
        task = asyncio.get_running_loop().create_task(self._take(task_id, stays), name=task_id)
        self._new.add(task_id)
        self._driving[task_id] = task
        task.add_done_callback(self._ended, context=self._context)
        return task

    def driving(self, task_id: str) -> asyncio.Task[State] | None:
        return self._driving.get(task_id)

    def awaited(self, task_id: str) -> asyncio.Task[State] | None:
        """The same for a caller that waits for the task: from within another task it needs no place."""
        if any(engine is self for engine, _ in _WITHIN.get()):
            self.let_through(task_id)
        return self._driving.get(task_id)

    def within(self, task_id: str) -> bool:
        """True for a caller that is a part of the task itself."""
        return (self, task_id) in _WITHIN.get()

    def let_through(self, task_id: str) -> None:
        """Drive a task that waits for a place at once, without one: it only has to end, or another waits for it."""
        waiter = self._queue.pop(task_id, None)
        if waiter is None:
            if task_id in self._driving:
                self._through.add(task_id)
        elif not waiter.done():
            waiter.set_result(False)

    @property
    def places(self) -> int:
        return self._places

    @property
    def queued(self) -> int:
        """Tasks that wait for a place, or will have to."""
        return len(self._queue) + max(0, len(self._new) - self._free)

    def may_be_waited_for(self) -> str | None:
        """The task that came last for a place, if it came while one that has a place was under way."""
        last = next(reversed(self._queue), None)
        return last if last is not None and self._came[last] > min(self._placed.values(), default=0) else None

    @property
    def running(self) -> int:
        """How many are going. Asked with each task that comes, so it is no count of all that wait."""
        return len(self._driving) - len(self._queue) - len(self._sleeping)

    def going(self) -> list[str]:
        """The tasks that have a place, or need none."""
        away = self._queue.keys() | self._sleeping
        return [task_id for task_id in self._driving if task_id not in away]

    async def _take(self, task_id: str, stays: bool) -> State:
        state: State | None = None
        while True:
            try:
                has_place = await self._got_place(task_id)
                if has_place:
                    self._placed[task_id] = next(self._count)
                if not self.within(task_id):
                    _WITHIN.set((*_WITHIN.get(), (self, task_id)))
                try:
                    state = await self._drive(task_id)
                finally:
                    if has_place:
                        del self._placed[task_id]
                        self._give()
            except TaskGivenAway:
                raise
            except TaskHeld:
                if state is None or self._elsewhere is None:
                    raise
                state = await self._elsewhere(task_id)  # somebody was faster to take it up
                if not state.ended and state.waiting is None:
                    continue
            if not stays or self._asleep is None or state.ended or state.waiting is None:
                return state
            self._sleeping.add(task_id)
            try:
                if not await self._asleep(state):
                    return state
            finally:
                self._sleeping.discard(task_id)

    async def _got_place(self, task_id: str) -> bool:
        self._new.discard(task_id)
        if self._free:  # then nobody waits who could take it: places are handed on, not laid down
            self._free -= 1
            return True
        if task_id in self._through:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue[task_id] = waiter
        self._came[task_id] = next(self._count)
        hearing = self._hear(task_id, lambda: self.let_through(task_id)) if self._hear else None
        if self._lending is not None:
            self._lending.look_out()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self._give()
            raise
        finally:
            del self._came[task_id]
            if self._queue.get(task_id) is waiter:
                del self._queue[task_id]
            if hearing is not None:
                hearing.close()

    def _give(self) -> None:
        """Hand a place to who has waited longest."""
        while self._queue:
            waiter = self._queue.pop(next(iter(self._queue)))
            if not waiter.done():
                waiter.set_result(True)
                return
        self._free += 1

    def _ended(self, task: asyncio.Task[State]) -> None:
        task_id = task.get_name()
        self._new.discard(task_id)
        if self._driving.get(task_id) is task:
            del self._driving[task_id]
            self._through.discard(task_id)
            if self._lending is not None:
                self._lending.ended(task_id)
        if task.cancelled():
            return
        # Whoever waits is told of an error; nobody has to.
        if (error := task.exception()) is not None:
            if self.broken is not None:
                self.broken(task_id, error)
        elif self.let_go is not None:
            self.let_go(task.result())

    async def aclose(self) -> None:
        """Stop driving. The tasks stay as they are in the log, and go on when somebody drives them again."""
        tasks = list(self._driving.values())
        for task in tasks:
            task.cancel()
        await wait_through(tasks)


def task_within() -> str | None:
    """The task that the code which asks is a part of; None: of none."""
    within = _WITHIN.get()
    return within[-1][1] if within else None


_WITHIN: ContextVar[tuple[tuple[LocalEngine, str], ...]] = ContextVar("replan_within", default=())
"""The tasks that the code that runs is a part of, each with its engine: the one whose call it is, and those that wait for that one."""
