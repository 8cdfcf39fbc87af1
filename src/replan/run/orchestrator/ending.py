"""How a drive ends: as was decided, stopped, or with an error."""

from __future__ import annotations

import asyncio
import contextlib

from replan.core.decide import failed_with
from replan.core.events import AnyEvent, RoundCompleted, TaskCancelled, TaskLeft, TaskTimedOut, TaskWaiting
from replan.core.report import explain
from replan.core.report.explain_doubts import with_account
from replan.core.state.fold import apply
from replan.core.types import Failure
from replan.errors import ModelError, PlanInvalid, RecordingError, ReplanError, StoreError
from replan.run.calls.closing import close_asked, running_closed
from replan.run.human_input import wishes
from replan.run.orchestrator.hearing import Hearing
from replan.run.session.stops import BudgetReached, Halted, HandedOver, ModelAway


class Ending(Hearing):
    """The ends of a drive; every end is written here."""

    __slots__ = ()

    def _leave(self) -> None:
        """Say that this drive did not end by the task."""
        run = self.run
        if run.state.waiting is None:
            with contextlib.suppress(StoreError):  # it is over, or an end is on its way
                run.record(TaskLeft(driver=run.parts.driver))

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
        run, heard = self.run, self.run.heard
        if self.failed is None:
            await self._take_in()
            self.again = run.heard != heard
        if not self.again:
            closed = self._closed()
            end = failed_with(run.state, self._failure(error))
            self.again = not await self._ended(*closed, end, taken=len(closed))

    def _closed(self) -> list[AnyEvent]:
        """The ends of everything that is open, in the state: the end tells of them, and where there is none they have not been."""
        closed, now = running_closed(self.run), self.run.now()
        for event in closed:
            apply(self.run.state, event, now, self.run.state.round)
        return closed

    async def _stop(self) -> None:
        run = self.run
        if self.late:
            await self._take_in()  # what was said while there was time comes before the end of it
        paused = run.state.pause is not None
        if run.state.cancel is None and (paused if self.late else self.cut_off):
            self.again = not paused  # what ran is taken up as after a crash
            if paused:
                close_asked(run)
                wishes.stand_still(run)
            return
        limit = run.state.policy.budget.task_timeout_secs or 0.0
        reason = explain.timed_out(run.state, limit).reason  # says what had not finished
        closed = self._closed()
        while not await self._ended(*closed, self._stopped(limit, reason), taken=len(closed)):
            if run.state.cancel is None and run.state.pause is not None:
                self.again = True  # said at the last moment
                return

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
        run = self.run
        heard = None if run.unread or self.failed is not None else run.heard
        if await run.end(*events, heard=heard, taken=taken):
            return True
        await run.take_in(heard)
        return False
