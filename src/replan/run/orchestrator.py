"""Drive one task to its end: decide, do, record, again. Every front end, engine and test calls `drive`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, assert_never

from replan.core.decide import (
    ChangePlan,
    Evaluate,
    Execute,
    Finish,
    MakePlan,
    Pause,
    Reflect,
    Replan,
    SelectTools,
    Settle,
    StartRound,
    Stop,
    Take,
    Wait,
    decide,
    failed_with,
)
from replan.core.events import (
    AnyEvent,
    ExecutionMode,
    OverallReflectionTriggered,
    RoundCompleted,
    RoundStarted,
    TaskCancelled,
    TaskLeft,
    TaskResumed,
    TaskStarted,
    TaskTimedOut,
    TaskWaiting,
)
from replan.core.limits.budget import limit_reached
from replan.core.report import explain
from replan.core.report.explain_doubts import with_account
from replan.core.state.fold import apply
from replan.core.state.progress import ALONE_AFTER
from replan.core.state.task import State
from replan.core.types import Failure, JsonObject
from replan.core.waits.state import was_set_back
from replan.errors import ModelError, PlanInvalid, RecordingError, ReplanError, StoreError, TaskHeld
from replan.run.calls.closing import close_asked, close_crashed, close_running, running_closed
from replan.run.family import relatives
from replan.run.following.reading import read_previous
from replan.run.human_input import questions as asking
from replan.run.human_input import wishes
from replan.run.human_input.signals import People
from replan.run.human_input.stricter import stricter_here
from replan.run.rounds import drift, judging, stages
from replan.run.rounds import next_round as rounds
from replan.run.rounds.held_tools import hold
from replan.run.session.context import Run
from replan.run.session.dependencies import Parts
from replan.run.session.given import wanted_again
from replan.run.session.opening import Claimed
from replan.run.session.said import clear_forks, taken_in
from replan.run.session.shielding import noticed
from replan.run.session.stops import BudgetReached, Halted, HandedOver, ModelAway, Paused, warn
from replan.run.steps.executor import execute
from replan.run.turns import Turn

_LONG = (SelectTools, MakePlan, Execute, Reflect, ChangePlan)
"""What a process that is about to end does not begin."""
MOST_FRUITLESS = 8
"""So often a task is taken up again with nothing done in between; then it waits until somebody wants it: something of it may end its process."""
STOP_SECS = 1.5
"""How long cancelled work may take to stop before it is left behind."""


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
                    state, heard, again = run.state, driving.heard, driving.again
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


class Drive:
    """The loop of one claimed task, with whatever may stop it from outside.

    It runs in the task of whoever drives. What stops it cancels that task, and takes the cancellation back once
    the loop has let go.
    """

    __slots__ = (
        "again",
        "beside",
        "cut_off",
        "deadline",
        "drift",
        "failed",
        "heard",
        "late",
        "people",
        "run",
        "unread",
        "why",
    )

    def __init__(self, run: Run, people: People) -> None:
        self.run = run
        self.people = people
        self.deadline: float | None = None
        run.hear = self._take_in
        self.heard = run.state.last_seq
        """Up to where people's signals have been taken in."""
        self.unread = False
        """What people have written last is of a kind that cannot be read here, as a newer release has: it keeps no end off."""
        self.drift: drift.Drift | None = None
        """What is otherwise than when the plan was made."""
        self.late = False
        """Its time is up: nothing is begun any more."""
        self.cut_off = False
        """What ran was cut off for a pause."""
        self.again = False
        """It was cut off, or has not begun, and is looked at anew."""
        self.why = ""
        """It goes on one call at a time, in words."""
        self.beside = False
        """It goes on beside another task that may end the process, too."""
        self.failed: Exception | None = None
        """What went wrong beside the loop, as people's words were taken in."""

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
            self.deadline = loop.time() + budget - run.state.active_secs
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

    async def _take_in(self) -> None:
        """Take in what people have written."""
        run, in_clear = self.run, False
        records = await run.parts.store.read(run.task_id, self.heard, signals_only=True)
        await run.parts.given.all_said(run.task_id)
        await run.end_told()  # what was written after all came before it, or was refused
        for record in records:
            if record.seq <= self.heard:  # somebody else has just read it
                continue
            self.heard = record.seq
            event, known_only_here = taken_in(run, record)
            in_clear |= known_only_here
            apply(run.state, event, record.ts)
        if in_clear:
            await self.clear()
            await run.end_told()
        pause = run.state.pause
        self.cut_off |= pause is not None and pause.now and run.state.waiting is None
        if run.state.cancel is not None or self.cut_off:
            run.stop()
        wishes.take_hints(run)
        run.people_heard()

    async def clear(self) -> None:
        """Take out of the log what people have said with a secret that only this process knows."""
        await self.run.redact({})
        await clear_forks(self.run)

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

    def _fail(self, error: Exception) -> None:
        self.failed = error
        self.run.stop()

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

    def _leave(self) -> None:
        """Say that this drive did not end by the task."""
        run = self.run
        if run.state.waiting is None:
            with contextlib.suppress(StoreError):  # it is over, or an end is on its way
                run.record(TaskLeft(driver=run.parts.driver))

    # ── ends ──

    async def _conclude(self, error: BaseException | None, *, stopped: bool) -> None:
        """Record how the loop ended, if it has not done so: stopped, or with an error."""
        run = self.run
        await run.end_told()
        if run.broken is not None:
            raise run.broken.with_traceback(None)
        if not run.state.ended and (error is not None or stopped or run.state.waiting is None):
            error = self.failed or error
            if stopped and self.failed is None:
                await self._stop()
            elif isinstance(error, StoreError):
                raise error
            elif isinstance(error, HandedOver):
                self._leave()  # else it stays as it is
            elif isinstance(error, ModelAway):
                await run.settle()
                raise error
            elif isinstance(error, Halted):
                run.record(TaskWaiting(reason=str(error), until_resumed=True, because=error.because))
            elif error is not None:
                await self._fail_with(error)
        await run.settle()  # an end that cannot be written is none

    async def _fail_with(self, error: BaseException) -> None:
        """End with an error of the loop, or with a limit that was reached; or, if people have said something meanwhile, go on once more,
        as where it was heard before."""
        run, heard = self.run, self.heard
        if self.failed is None:
            await self._take_in()
            self.again = self.heard != heard
        if not self.again:
            closed, now = running_closed(run), run.now()
            for event in closed:  # the end tells of them, and where there is none they have not been
                apply(run.state, event, now, run.state.round)
            end = failed_with(run.state, self._failure(error))
            self.again = not await self._ended(*closed, end, taken=len(closed))

    async def _stop(self) -> None:
        run = self.run
        if (
            run.state.cancel is None and self.cut_off and not self.late
        ):  # what ran is taken up as after a crash
            self.again = run.state.pause is None
            if not self.again:
                close_asked(run)
                wishes.stand_still(run)
            return
        limit = run.state.policy.budget.task_timeout_secs or 0.0
        reason = explain.timed_out(run.state, limit).reason  # says what had not finished
        close_running(run)
        while not await self._ended(self._stopped(limit, reason)):
            pass  # by what has been said meanwhile, it may have been cancelled

    def _stopped(self, limit: float, reason: str) -> AnyEvent:
        state = self.run.state
        if state.cancel is not None:
            return TaskCancelled(failure=with_account(state, explain.cancelled(state)))
        failure = explain.timed_out(state, limit).model_copy(update={"reason": reason})
        return TaskTimedOut(failure=with_account(state, failure))

    def _failure(self, error: BaseException) -> Failure:
        state = self.run.state
        match error:
            case BudgetReached():
                return explain.budget(state, error.limit)
            case PlanInvalid():
                return explain.planning_failed(state, error.violations)
            case RecordingError():
                return explain.internal(state, str(error), ours=False)
            case ModelError():
                return explain.model_failed(state, str(error))
            case asyncio.CancelledError():
                return explain.internal(state, "RuntimeError: the loop was cut off from inside")
            case ReplanError():
                return explain.internal(state, str(error), ours=False)
            case _:
                return explain.internal(state, f"{type(error).__name__}: {error}")

    # ── the loop ──

    def _next(self) -> Coroutine[Any, Any, None] | None:
        """Do what can be done at once; then what comes next, to be waited for. None: that was all."""
        run = self.run
        while not run.stopping:
            step = decide(run.state)
            if run.parts.leaving.now and isinstance(step, _LONG):
                raise HandedOver
            match step:
                case Stop():
                    return None
                case StartRound(number):
                    self._start_round(number)
                case SelectTools():
                    if not stages.take_all_tools(run):
                        return _apart(run, stages.choose_tools(run))
                case MakePlan():
                    if not stages.take_plan(run):
                        return _apart(run, stages.plan(run))
                case Execute():
                    return execute(run, self.deadline)
                case Evaluate():
                    judged = judging.judge(run)
                    return judged if run.state.policy.evaluation == "steps" else _apart(run, judged)
                case Reflect():
                    if run.state.escalation is None:  # it is the judgement that calls for it
                        run.record(OverallReflectionTriggered(reason=explain.shortfall(run.state)))
                    return _apart(run, rounds.reflect(run))
                case Replan(strategy, reason, continues):
                    self._allow_round()
                    started = rounds.begin(run, strategy, reason, continues=continues)
                    run.record(RoundCompleted(round=run.state.round))
                    run.record(RoundStarted(round=run.state.round + 1))
                    run.record(started)  # one append with the start of its round
                    warn(run)
                case ChangePlan():
                    return _apart(run, rounds.change_plan(run))
                case Pause():
                    wishes.stand_still(run)
                case Take(request_id, refused):
                    wishes.take(run, request_id, refused)
                case Settle(question_id):
                    return asking.settle(run, question_id)
                case Wait(reason, text, kind, background) as wait:
                    asking.ask(run, reason, text, kind, background)
                    if run.state.waiting is None and decide(run.state) == wait:
                        raise RuntimeError(f"nobody is asked, and still it waits: {reason}")
                case Finish(event):
                    return self._finish(event)
                case other:
                    assert_never(other)
        return None

    async def _finish(self, event: AnyEvent) -> None:
        """End as was decided, if people have written nothing that was not heard: else it is decided anew."""
        run = self.run
        events = running_closed(run)
        if run.state.round:
            events.append(RoundCompleted(round=run.state.round))
        await self._ended(*events, event)

    async def _ended(self, *events: AnyEvent, taken: int = 0) -> bool:
        """End with these, if people have written nothing that was not heard: what they were promised comes before the end that it would
        prevent. Else that is taken in, and nothing of them recorded. Every end is written here."""
        run, heard = self.run, self.heard
        if await run.end(
            *events, heard=None if self.unread or self.failed is not None else heard, taken=taken
        ):
            return True
        await self._take_in()
        self.unread = self.heard == heard
        return False

    def _allow_round(self) -> None:
        state = self.run.state
        if limit := limit_reached(state.policy.budget, state.usage, what="round", rounds=state.rounds):
            raise BudgetReached(limit)

    def _start_round(self, number: int) -> None:
        self._allow_round()
        self.run.record(RoundStarted(round=number))


async def _apart(run: Run, stage: Coroutine[Any, Any, None]) -> None:
    """Do a stage that asks a model in a task of its own: one that does not listen when it is stopped is left behind."""
    work = asyncio.get_running_loop().create_task(stage)
    work.add_done_callback(noticed)  # at once: a second cancellation may leave any wait below
    try:
        await asyncio.wait({work})
    except asyncio.CancelledError:
        run.stopping = True
        work.cancel()
        await asyncio.wait({work}, timeout=STOP_SECS)
        raise
    work.result()
