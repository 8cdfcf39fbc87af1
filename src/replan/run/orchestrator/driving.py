"""A drive, from its turn to its end, and which tasks are driven on."""

from __future__ import annotations

import asyncio
import contextlib

from replan.core.events import ExecutionMode, TaskResumed, TaskStarted, TaskWaiting
from replan.core.state.progress import ALONE_AFTER
from replan.core.state.task import State
from replan.core.types import JsonObject
from replan.core.waits.state import was_set_back
from replan.errors import TaskHeld
from replan.run.calls.closing import close_crashed
from replan.run.family import relatives
from replan.run.following.reading import read_previous
from replan.run.human_input import wishes
from replan.run.human_input.signals import People
from replan.run.human_input.stricter import stricter_here
from replan.run.orchestrator.deciding import Deciding
from replan.run.rounds import drift
from replan.run.rounds.held_tools import hold
from replan.run.session.dependencies import Parts
from replan.run.session.given import wanted_again
from replan.run.session.opening import Claimed
from replan.run.session.stops import Halted, Paused
from replan.run.turns import Turn

MOST_FRUITLESS = 8
"""So often a task is taken up again with nothing done in between; then it waits until somebody wants it: something of it may end its process."""


async def drive(task_id: str, parts: Parts, *, steal: bool = False) -> State:
    """Drive a task until it ends, or until there is nothing to drive. Raises `StoreError` if the log is lost.

    A cancelled `drive` leaves the task where it is: it can be resumed.
    """
    state, heard, again = None, 0, False
    while state is None or again or await _spoken_since(state, heard, parts):
        people = People(task_id, parts)
        try:
            async with Claimed(task_id, parts, steal=steal and state is None) as run:
                driving = Drive(run, people)
                try:
                    if run.state.said_in_clear:
                        await driving.clear()
                    if not run.state.ended and goes_on(run.state, run.now()):
                        await driving.attend()
                finally:
                    state, heard, again = run.state, run.heard, driving.again
                    if state.ended:
                        parts.given.forget(state.name)
        except TaskHeld:
            if state is None:
                raise
            break  # somebody else goes on
        finally:
            people.close()
    return state


def goes_on(state: State, now: float) -> bool:
    """True if the task does not wait, or no longer: its time has come, or is counted anew as the clock was set back."""
    waiting = state.waiting
    if waiting is None or waiting.until_resumed:
        return True
    return waiting.until is not None and (waiting.until <= now or was_set_back(state.last_ts, now))


async def _spoken_since(state: State, heard: int, parts: Parts) -> bool:
    """True if a waiting task was answered while it was being let go of: whoever spoke has relied on its driver."""
    if state.waiting is None:
        return False
    return bool(await parts.store.read(state.task_id, heard, 1, signals_only=True))


class Drive(Deciding):
    """The loop of one claimed task, with whatever may stop it from outside.

    It runs in the task of whoever drives. What stops it cancels that task, and takes the cancellation back once
    the loop has let go.
    """

    __slots__ = ()

    async def attend(self) -> None:
        """Run the loop beside what may stop it; record how it ended."""
        run, task = self.run, asyncio.current_task()
        cancels = task.cancelling() if task is not None else 0
        if await self._stands_still() or await self._lacks_secrets():
            return
        await relatives.enter(run)
        turn, times = None, run.state.fruitless_next if run.state.started else 0
        if 0 < times < MOST_FRUITLESS and run.state.cancel is None:
            turn = run.parts.turns.ask(
                run.task_id, had=max(0, times - ALONE_AFTER), waits=times >= ALONE_AFTER
            )
        try:
            if turn is None or await self._has_come(turn):
                await self._go_on(cancels)
        finally:
            if turn is not None:
                turn.over()

    async def _has_come(self, turn: Turn) -> bool:
        """Wait for the task's turn, before any of its time is counted. False: somebody has spoken meanwhile, or this process is to end."""
        if not turn.come.done() and not await self._waited_for(turn):
            return False
        if self.run.state.fruitless_next >= ALONE_AFTER:
            self.beside, turn.told = turn.beside, self._shares_turn
            self.why = "something of it may end its process: one call at a time" + (
                "" if turn.beside else ", beside no other task of which that is so"
            )
        self.run.when_cleared(turn.over)
        return True

    async def _waited_for(self, turn: Turn) -> bool:
        leaving = self.run.parts.leaving
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        async def heard() -> None:
            wake()

        self.people.attend(heard)
        leaving.heard_by(wake)
        try:
            await asyncio.wait({turn.come, woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.forget(wake)
        self.again = woken.done() and not leaving.now  # the log is read anew, with what was said
        return not woken.done()

    def _shares_turn(self) -> None:
        """Another task that may end the process has begun beside this one."""
        run = self.run
        if run.broken is None and not (run.closed or run.state.ended):
            mode = run.state.mode.mode if run.state.mode is not None else "serial"
            reason = "another task that may end the process goes on beside it"
            run.record(ExecutionMode(mode=mode, reason=reason, beside=True))

    async def _go_on(self, cancels: int) -> None:
        run, task = self.run, asyncio.current_task()
        assert task is not None
        timer, loop = None, asyncio.get_running_loop()
        self._begin()
        if (budget := run.state.policy.budget.task_timeout_secs) is not None:
            self.deadline = run.deadline = loop.time() + budget - run.state.active_secs
        self.late = self.deadline is not None and loop.time() >= self.deadline
        if self.deadline is not None:
            timer = loop.call_at(self.deadline, self._time_is_up)
        self.people.attend(self._take_in, self._fail)
        error: BaseException | None = None
        run.stoppable(task)
        try:
            if self.drift is not None:
                await drift.record(run, self.drift)
            if not self.late:
                await read_previous(run)
            if run.state.fruitless >= MOST_FRUITLESS and run.state.cancel is None:
                raise Halted(
                    f"whoever drove it was gone {run.state.fruitless} times with nothing done in between",
                    "process",
                )
            while not self.late:
                while (work := self._next()) is not None:
                    try:  # noqa: SIM105  (what `suppress` makes is held as long as the task waits)
                        await work
                    except Paused:
                        pass
                if run.state.waiting is None or run.stopping:
                    break
                paused = run.state.waiting.paused
                await run.settle()  # people are heard meanwhile
                await self._take_in()  # an answer may have come just now
                if run.state.waiting is not None:
                    break
                if paused:
                    self._record_resumed()
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - recorded as the task's end
            error = raised
        finally:
            run.stoppable(None)
            self.people.close()
            if timer is not None:
                timer.cancel()
        try:
            if run.stopped:
                if not isinstance(
                    error, asyncio.CancelledError
                ):  # it has been put off, and comes at this wait
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(0)
                task.uncancel()
            if task.cancelling() > cancels:
                # Not the task's end: what runs is cut off, and goes on at the next start as after a crash.
                self._leave()
                raise error if isinstance(error, asyncio.CancelledError) else asyncio.CancelledError
            await self._conclude(error, stopped=run.stopped or self.late)
        finally:
            error = None  # it holds this frame

    def _time_is_up(self) -> None:
        self.late = True
        self.run.stop()

    async def _stands_still(self) -> bool:
        """True if the task is paused: nothing of it is begun, and the log says so."""
        run, pause = self.run, self.run.state.pause
        if pause is None or run.state.waiting is not None or run.state.cancel is not None:
            return False
        wishes.stand_still(run, driven=False)
        await run.settle()
        await self._take_in()
        return run.state.waiting is not None

    async def _lacks_secrets(self) -> bool:
        """True if the task goes on with secrets that were given to another process: nothing of it is begun, and the log says so."""
        run, state = self.run, self.run.state
        if state.submitted is None or state.cancel is not None:
            return False
        missing = run.parts.given.lacking(state.name, state.submitted)
        if not missing:
            return False
        waiting = state.waiting
        if waiting is None or not waiting.secrets:  # else it is said, be it by one who lacks others of them
            run.record(
                TaskWaiting(
                    reason=f"it {wanted_again(missing)}",
                    until_resumed=True,
                    because="key",
                    secrets=tuple(missing),
                )
            )
            await run.settle()
        return True

    def _begin(self) -> None:
        run, parts = self.run, self.run.parts
        instead = stricter_here(run, parts.given.taken_instead(run.state.name))
        if not run.state.started:
            run.record(TaskStarted(driver=parts.driver, version=parts.version, instead=instead))
            hold(run, run.state.held)
            return
        self._record_resumed(instead)
        found = drift.found(run)  # before calls are taken for what they were
        self.drift = (
            found if run.state.cancel is None else None
        )  # who only ends it may have looked for no tools
        close_crashed(run)

    def _record_resumed(self, instead: JsonObject | None = None) -> None:
        parts, status = self.run.parts, wishes.status_at(self.run.state)
        resumed = TaskResumed(
            driver=parts.driver, version=parts.version, instead=instead or {}, status=status, beside=self.beside,
            reason=self.why,
        )  # fmt: skip
        self.run.record(resumed)
