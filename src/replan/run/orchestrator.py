"""Drive one task to its end: decide, do, record, again. Every front end, engine and test calls `drive`."""

from __future__ import annotations

import asyncio
from typing import assert_never

from replan.core import explain
from replan.core.budget import limit_reached
from replan.core.decide import (
    Evaluate,
    Execute,
    Finish,
    MakePlan,
    SelectTools,
    StartRound,
    Stop,
    decide,
)
from replan.core.events import (
    CancelRequested,
    RoundCompleted,
    RoundStarted,
    TaskCancelled,
    TaskFailed,
    TaskResumed,
    TaskStarted,
    TaskTimedOut,
)
from replan.core.state import State
from replan.core.types import Failure
from replan.errors import ModelError, PlanInvalid, StoreError
from replan.run import stages
from replan.run.closing import close_crashed, close_running
from replan.run.context import Run
from replan.run.executor import execute
from replan.run.parts import Parts
from replan.run.stops import BudgetReached
from replan.run.through import noticed, see_through

STOP_SECS = 1.5
"""How long cancelled work may take to stop before it is left behind."""
LISTEN_AGAIN_SECS = 0.5


async def drive(task_id: str, parts: Parts, *, steal: bool = False) -> State:
    """Drive a task until it ends, or until there is nothing to drive. Raises `StoreError` if the log is lost.

    A cancelled `drive` leaves the task where it is: it can be resumed.
    """
    run = await Run.open(task_id, parts, steal=steal)
    try:
        if not run.state.ended:
            await _Drive(run).attend()
        return run.state
    finally:
        await see_through(run.close())


class _Drive:
    """The loop of one claimed task, with whatever may stop it from outside."""

    def __init__(self, run: Run) -> None:
        self.run = run
        loop = asyncio.get_running_loop()
        budget = run.state.policy.budget.task_timeout_secs
        self.deadline = None if budget is None else loop.time() + budget - run.state.active_secs
        self.cancelled: asyncio.Future[None] = loop.create_future()
        self.heard = run.state.last_seq
        """Up to where people's signals have been taken in."""

    async def attend(self) -> None:
        """Run the loop beside what may stop it; record how it ended."""
        self._begin()
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._loop())
        listening = loop.create_task(self._listen())
        for task in (work, listening):  # at once: a second cancellation may leave any wait below
            task.add_done_callback(noticed)
        try:
            left = None if self.deadline is None else max(0.0, self.deadline - loop.time())
            await asyncio.wait(
                {work, self.cancelled, self.run.broken}, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            await self._conclude(work)
        except asyncio.CancelledError:
            # Not the task's end: what runs is cut off, as by a crash, and goes on at the next start.
            await self._stop(work)
            raise
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    def _begin(self) -> None:
        run = self.run
        if not run.state.started:
            run.record(TaskStarted(driver=run.parts.driver))
            return
        run.record(TaskResumed(driver=run.parts.driver))
        close_crashed(run)

    async def _listen(self) -> None:
        """Take in what people write to the task. A log that cannot be read just now is read again."""
        run = self.run
        while not run.state.ended:
            try:
                async for record in run.parts.store.follow(run.task_id, self.heard, signals_only=True):
                    self.heard = record.seq
                    run.state.apply(record.event, record.ts)
                    if isinstance(record.event, CancelRequested) and not self.cancelled.done():
                        self.cancelled.set_result(None)
            except StoreError:
                await run.parts.clock.sleep(LISTEN_AGAIN_SECS)
            else:
                return

    async def _stop(self, work: asyncio.Task[None]) -> None:
        self.run.stopping = True
        work.cancel()
        await asyncio.wait({work}, timeout=STOP_SECS)

    # ── ends ──

    async def _conclude(self, work: asyncio.Task[None]) -> None:
        run = self.run
        if run.broken.done():
            await self._stop(work)
            run.broken.result()
        if work.done():
            await self._conclude_by_itself(work)
            return
        await self._stop(work)
        if run.broken.done():
            run.broken.result()
        if run.state.ended:
            await run.settle()  # an end that cannot be written is none
            return
        if self.cancelled.done():
            close_running(run)
            run.record(TaskCancelled(failure=explain.cancelled(run.state)))
        else:
            limit = run.state.policy.budget.task_timeout_secs or 0.0
            reason = explain.timed_out(run.state, limit).reason  # says what had not finished
            close_running(run)
            failure = explain.timed_out(run.state, limit)
            run.record(TaskTimedOut(failure=failure.model_copy(update={"reason": reason})))
        await run.settle()

    async def _conclude_by_itself(self, work: asyncio.Task[None]) -> None:
        run = self.run
        error = RuntimeError("the loop was cut off from inside") if work.cancelled() else work.exception()
        if error is None or run.state.ended:
            await run.settle()
            return
        if isinstance(error, StoreError):
            raise error
        close_running(run)
        run.record(TaskFailed(failure=self._failure(error)))
        await run.settle()

    def _failure(self, error: BaseException) -> Failure:
        state = self.run.state
        match error:
            case BudgetReached():
                return explain.budget(state, error.limit)
            case PlanInvalid():
                return explain.planning_failed(state, error.violations)
            case ModelError():
                return explain.model_failed(state, str(error))
            case _:
                return explain.internal(state, f"{type(error).__name__}: {error}")

    # ── the loop ──

    async def _loop(self) -> None:
        run = self.run
        while not run.stopping:
            match decide(run.state):
                case Stop():
                    return
                case StartRound(number):
                    budget = run.state.policy.budget
                    if limit := limit_reached(budget, run.state.usage, what="round", rounds=run.state.round):
                        raise BudgetReached(limit)
                    run.record(RoundStarted(round=number))
                case SelectTools():
                    await stages.choose_tools(run)
                case MakePlan():
                    await stages.plan(run)
                case Execute():
                    await execute(run, self.deadline)
                case Evaluate():
                    await stages.judge(run)
                case Finish(event):
                    close_running(run)
                    if run.state.round:
                        run.record(RoundCompleted(round=run.state.round))
                    run.record(event)
                    await run.settle()
                    return
                case other:
                    assert_never(other)
