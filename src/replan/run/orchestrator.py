"""Drive one task to its end: decide, do, record, again. Every front end, engine and test calls `drive`."""

from __future__ import annotations

import asyncio
import contextlib
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
    CallFailed,
    CancelRequested,
    OutcomeUnknown,
    RoundCompleted,
    RoundStarted,
    StepFailed,
    TaskCancelled,
    TaskFailed,
    TaskResumed,
    TaskStarted,
    TaskTimedOut,
)
from replan.core.faults import in_doubt
from replan.core.state import CallState, State
from replan.core.types import Failure, Fault, ToolSpec
from replan.errors import ModelError, PlanInvalid, ReplanError, StoreError
from replan.run import stages
from replan.run.context import Run
from replan.run.executor import execute
from replan.run.parts import Parts
from replan.run.stops import BudgetReached

STOP_SECS = 1.5
"""How long cancelled work may take to stop before it is left behind."""


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
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(run.close())


class _Drive:
    """The loop of one claimed task, with whatever may stop it from outside."""

    def __init__(self, run: Run) -> None:
        self.run = run
        loop = asyncio.get_running_loop()
        budget = run.state.policy.budget.task_timeout_secs
        self.deadline = None if budget is None else loop.time() + budget - run.state.active_secs
        self.cancelled: asyncio.Future[None] = loop.create_future()

    async def attend(self) -> None:
        """Run the loop beside what may stop it; record how it ended."""
        self._begin()
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._loop())
        listening = loop.create_task(self._listen())
        try:
            left = None if self.deadline is None else max(0.0, self.deadline - loop.time())
            await asyncio.wait(
                {work, self.cancelled, self.run.broken}, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            await self._conclude(work)
        except asyncio.CancelledError:
            # Not the task's end: what runs is stopped unrecorded, as after a crash, and goes on at the next start.
            with contextlib.suppress(ReplanError):
                await self.run.settle()
            self.run.closed = True
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
        for call in run.state.running_calls():
            tool = run.parts.tools.resolve(call.tool_id)
            if call.effect == "once" and not (tool is not None and tool.honours_key):
                self._close_call(call, "crashed", "the process ended before its result was recorded", tool)

    async def _listen(self) -> None:
        """Take in what people write to the task."""
        run = self.run
        async for record in run.parts.store.follow(run.task_id, run.state.last_seq, signals_only=True):
            run.state.apply(record.event, record.ts)
            if isinstance(record.event, CancelRequested) and not self.cancelled.done():
                self.cancelled.set_result(None)

    async def _stop(self, work: asyncio.Task[None]) -> None:
        work.cancel()
        await asyncio.wait({work}, timeout=STOP_SECS)
        if work.done() and not work.cancelled():
            work.exception()

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
            return
        self._close_running()
        if self.cancelled.done():
            run.record(TaskCancelled(failure=explain.cancelled(run.state)))
        else:
            limit = run.state.policy.budget.task_timeout_secs or 0.0
            run.record(TaskTimedOut(failure=explain.timed_out(run.state, limit)))
        await run.settle()

    async def _conclude_by_itself(self, work: asyncio.Task[None]) -> None:
        run = self.run
        error = work.exception()
        if error is None:
            return
        if isinstance(error, StoreError):
            raise error
        self._close_running()
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

    def _close_running(self) -> None:
        """Give every open call and step its end, in one append with the task's."""
        run = self.run
        for call in run.state.running_calls():
            tool = run.parts.tools.resolve(call.tool_id)
            self._close_call(call, "cancelled", "it was stopped before it had answered", tool)
        for step in run.state.steps.values():
            if step.status == "running":
                fault = next((call.fault for call in step.calls.values() if call.fault), None)
                stopped = Fault(category="external_error", kind="cancelled", message="it was stopped")
                run.record(StepFailed(step_id=step.step.step_id, error=fault or stopped))

    def _close_call(self, call: CallState, kind: str, message: str, tool: ToolSpec | None) -> None:
        fault = Fault(category="external_error", kind=kind, message=message, happened="unknown")
        labels = {
            "call_key": call.key, "step_id": call.step_id, "action_id": call.slot.action_id,
            "index": call.slot.item, "attempt": call.attempt, "tool_id": call.tool_id,
        }  # fmt: skip
        self.run.record(CallFailed.model_validate({**labels, "error": fault}))
        known = tool or ToolSpec(id=call.tool_id, effect=call.effect)
        if call.effect == "once" and in_doubt(fault, known):
            self.run.record(OutcomeUnknown.model_validate({**labels, "reason": message}))

    # ── the loop ──

    async def _loop(self) -> None:
        run = self.run
        while True:
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
                    run.record(RoundCompleted(round=run.state.round), event)
                    await run.settle()
                    return
                case other:
                    assert_never(other)
