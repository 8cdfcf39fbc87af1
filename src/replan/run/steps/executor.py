"""Runs a plan: each step as soon as the last thing it needs is done, the longest way to the end first.

There is no layer barrier and no polling. A step that ends records its end and the start of what it frees in
one turn of the event loop, so a chain costs one commit a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from replan.core.data.pieces import MANY
from replan.core.decide import why_not
from replan.core.events import (
    ExecutionMode,
    OverallReflectionTriggered,
    RetryRequested,
    StepCompleted,
    StepFailed,
    StepReady,
    StepSkipped,
    StepStarted,
)
from replan.core.plain_calls import PlainEnd
from replan.core.recovery.cut_off import cut_off_steps
from replan.core.reflection import SuggestedAction
from replan.core.state.progress import ALONE_AFTER, CLOSED
from replan.core.state.schedule import expected_secs, mode_of
from replan.core.state.task import StepState
from replan.core.types import Fault, JsonObject, StepId, unchecked
from replan.errors import StoreError
from replan.run.calls.build import Call
from replan.run.calls.closing import close_crashed
from replan.run.calls.slots import Place, Places, PlacesClosed
from replan.run.human_input.wishes import take_retry
from replan.run.session.context import Batch, Run
from replan.run.session.stops import BudgetReached, Halted, HandedOver, ModelAway, Paused
from replan.run.steps.standstill import Standstill
from replan.run.steps.step import Steps

GRACE_SECS = 5.0
"""How long running calls may go on after a budget is used up."""
LET_GO_SECS = 1.0
"""How long cancelled calls may take to stop before they are left behind."""


def execute(run: Run, deadline: float | None) -> Coroutine[Any, Any, None]:
    """Run every open step of the plan, or record why it cannot run.

    Raises `BudgetReached` and `StoreError`; a fault of the parallel scheduler itself makes the rest serial.
    """
    mode, reason = mode_of(run.state)
    if run.state.mode is None or run.state.mode.beside:
        run.record(ExecutionMode(mode=mode, reason=reason))
    return Executor(run, deadline, serial=True).run_all() if mode == "serial" else _in_parallel(run, deadline)


async def _in_parallel(run: Run, deadline: float | None) -> None:
    try:
        await Executor(run, deadline, serial=False).run_all()
    except (BudgetReached, Halted, HandedOver, ModelAway, StoreError):
        raise
    except Exception as error:  # noqa: BLE001 - recorded; what is left is run another way
        close_crashed(run)
        run.record(ExecutionMode(mode="serial", reason=f"the parallel scheduler failed: {error!r}"))
        await Executor(run, deadline, serial=True).run_all()


_step_completed = unchecked(StepCompleted)
LAUNCHED = -1
"""What a step waits for that has had its place."""


class Executor:
    """One pass over the open steps of a run's plan."""

    __slots__ = (
        "_cut_off",
        "_graph",
        "_halt",
        "_held",
        "_idle",
        "_missing",
        "_offered",
        "_places",
        "_plain_tasks",
        "_run",
        "_standstill",
        "_state",
        "_steps",
        "_tasks",
        "_urgency",
    )

    def __init__(self, run: Run, deadline: float | None, *, serial: bool) -> None:
        self._run = run
        self._state = run.state
        self._graph = run.state.graph()
        limit = 1 if serial else max(1, run.state.policy.parallel_max_concurrent)
        one_by_one = run.state.fruitless >= ALONE_AFTER
        self._places = Places(1 if one_by_one else limit, self._say_who_waits)
        if one_by_one:
            run.when_cleared(partial(self._open_places, limit - 1))
        self._urgency = (
            {step: -float(n) for n, step in enumerate(self._graph.topological())}
            if serial
            else self._graph.distance_to_end(expected_secs(run.state))
        )
        self._cut_off = (
            frozenset(cut_off_steps(run.state)) if run.state.escalation is not None else frozenset()
        )
        self._missing: dict[StepId, int] = {}
        """How many steps each step still waits for, or `LAUNCHED`."""
        self._offered: list[StepId] = []
        self._tasks: dict[asyncio.Task[None], Place] = {}
        loop = asyncio.get_running_loop()
        self._plain_tasks = _makes_plain_tasks(loop)
        self._idle: asyncio.Future[None] = loop.create_future()
        self._halt: BaseException | None = None
        self._held: Exception | None = None
        """Why steps that have failed could not be asked about: raised once nothing else can go on."""
        self._steps = Steps(run, self._places, self._urgency, deadline, self)
        self._standstill: Standstill | None = None
        """Made when a step has to wait."""

    async def run_all(self) -> None:
        """Run until nothing is left to run."""
        try:
            self._start()
        except BaseException as error:  # noqa: BLE001 - raised below, after what has been started has ended
            self.stop(error)
        self._run.heard_by(self._look)
        self._run.parts.leaving.heard_by(self._hand_over)
        try:
            self.look_idle()
            await self._idle
            while self._halt is None and (self._tasks or self._places.waiting):  # somebody has just spoken
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
            if self._halt is not None:
                await self._wind_down(self._halt)
        except asyncio.CancelledError:
            self._run.stopping = True
            await self._abandon()
            raise
        finally:
            self._run.heard_by(None)
            self._run.parts.leaving.forget(self._hand_over)
            waiting = self._standstill.waiting() if self._standstill is not None else None
            if self._standstill is not None:
                self._standstill.close()
        if self._halt is not None and (self._state.open_steps or not isinstance(self._halt, HandedOver)):
            raise self._halt
        if self._state.escalation is not None:
            if self._held is not None and cut_off_steps(self._state):
                raise self._held  # whoever decides would have it asked about again at once, without end
            return
        if waiting is not None:
            self._run.record(waiting)
            return
        if self._held is not None:
            raise self._held
        if self._state.open_steps:
            left = [step.step.step_id for step in self._state.steps.values() if not step.closed]
            raise RuntimeError(f"steps were left that can never start: {', '.join(left[:10])}")

    def _start(self) -> None:
        steps = self._state.steps
        if self._state.open_steps == len(steps):
            self._missing = {step_id: len(needs) for step_id, needs in self._graph.needs.items()}
        else:
            closed = {step_id for step_id in self._graph.order if steps[step_id].closed}
            for step_id, needs in self._graph.needs.items():
                self._missing[step_id] = len(set(needs) - closed)
            walked: set[StepId] = set()
            for step_id in self._graph.order:
                if steps[step_id].status == "failed":  # closed before a crash, its dependents perhaps not
                    self._skip_dependents(step_id, walked)
        with self._places.together():
            for step_id in self._graph.order:
                if not self._missing[step_id] and not steps[step_id].closed:
                    self._offer(step_id)

    # ── life and death of tasks ──

    def spawn(self, step: StepState, work: Coroutine[Any, Any, None], place: Place) -> asyncio.Task[None]:
        loop, name = asyncio.get_running_loop(), step.step.step_id
        task = (
            asyncio.Task(work, loop=loop, name=name)
            if self._plain_tasks
            else loop.create_task(work, name=name)
        )
        self._tasks[task] = place
        place.owner = task
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        try:
            self._tasks.pop(task).ended(task)
        except Exception as error:  # noqa: BLE001 - a log that is another's by now, say: nobody hears a callback
            self.stop(error)
        if task.cancelled():
            self._run.send_soon()  # it may not even have begun, and what it was to send off is left
        elif (failed := task.exception()) is not None:
            self.stop(failed)
        self.look_idle()

    def stop(self, error: BaseException) -> None:
        if self._halt is None:
            self._halt = error
        self._places.close()
        self._steps.call_off()
        if not self._idle.done():
            self._idle.set_result(None)

    def hold(self, why: Exception) -> None:
        """A step that has failed is left open: the others go on as far as they can without it."""
        self._held = why

    def _open_places(self, more: int) -> None:
        """It is not what ends the process: it goes on as any other."""
        try:
            self._places.add(more)
        except Exception as error:  # noqa: BLE001 - nobody hears this either
            self.stop(error)

    def _hand_over(self) -> None:
        self.stop(HandedOver())

    def look_idle(self) -> None:
        """See whether nothing runs any more, and nothing is about to."""
        if self._tasks or self._places.waiting or self._idle.done():
            return
        soon = self._standstill is not None and self._state.escalation is None and self._standstill.soon()
        if not soon:
            self._idle.set_result(None)

    async def _wind_down(self, halt: BaseException) -> None:
        """Let running calls end: for a while if a budget is used up, at all if only the scheduler broke."""
        if self._tasks and not isinstance(halt, StoreError):
            await asyncio.wait(self._tasks, timeout=GRACE_SECS if isinstance(halt, BudgetReached) else None)
        await self._abandon()

    async def _abandon(self) -> None:
        """Cancel what runs. Tasks that do not listen are left behind, but for those that write an output down."""
        self._places.close()
        self._steps.abandon()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        while tasks:
            _, tasks = await asyncio.wait(tasks, timeout=LET_GO_SECS)
            tasks &= self._steps.landing

    # ── from ready to running ──

    def _offer(self, step_id: StepId) -> None:
        if self._state.escalation is not None and step_id not in self._cut_off:
            return  # nothing new is started
        self._offered.append(step_id)
        self._places.offer(self._urgency[step_id], self._launch, step_id)

    def _say_who_waits(self, waiting: int) -> None:
        """Record which of the steps that have just become ready did not get a place."""
        if not waiting:
            self._offered.clear()
            return
        offered, self._offered = self._offered[:MANY], self._offered[MANY:]
        if self._offered:  # the others in a later turn: so many events at once would hold everything else up
            asyncio.get_running_loop().call_soon(self._say_who_still_waits)
        for step_id in offered:
            if self._missing[step_id] == 0 and self._state.steps[step_id].status == "pending":
                self._run.record(StepReady(step_id=step_id))

    def _say_who_still_waits(self) -> None:
        if not self._places.closed and not self._run.closed and not self._state.ended:
            self._say_who_waits(self._places.waiting)

    def _launch(self, step_id: StepId, place: Place) -> None:
        """Start a step. Simple steps start in this very turn."""
        self._missing[step_id] = LAUNCHED
        step = self._state.steps[step_id]
        try:
            self._steps.launch(step, place)
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self.stop(stop)

    # ── recovery ──

    def escalate(self, step: StepState, action: SuggestedAction, fault: Fault) -> None:
        """The step cannot be recovered by itself: nothing new is started, and the round is reflected upon."""
        if self._state.escalation is None and self._state.reflects:
            words = action.words()
            self._run.record(
                OverallReflectionTriggered(
                    step_id=step.step.step_id,
                    reason=words or fault.message,
                    replan=action.type == "replan",
                    advice=words if action.type == "replan" else "",
                )
            )
            self._places.refuse_offers()
            self._steps.call_off(unstarted=True)

    def park(self, step: StepState, calls: list[Call], place: Place) -> None:
        """Let a step wait without a place: for a person, or for what its own calls wait for."""
        if self._standstill is None:
            self._standstill = Standstill(
                self._run, self._steps.attempts, self._places, self._urgency, self, self._due_again
            )
        try:
            self._standstill.park(step, calls)
        except BudgetReached as stop:
            self.stop(stop)
        except PlacesClosed:
            pass
        place.give()

    def _look(self) -> None:
        """People have spoken."""
        if self._state.pause is not None:
            self.stop(Paused())
        self._try_again()
        if self._standstill is not None:
            self._standstill.look()

    def _try_again(self) -> None:
        """Steps that a person wants tried again. Where nothing new is started any more, that is for the next pass."""
        for wish in self._state.wishes:
            if self._halt is not None or self._state.escalation is not None:
                return
            if not isinstance(wish, RetryRequested) or why_not(self._state, wish):
                continue
            for step_id in take_retry(self._run, wish.request_id):
                needs = self._graph.needs[step_id]
                self._missing[step_id] = sum(not self._state.steps[need].closed for need in needs)
                if not self._missing[step_id]:
                    self._offer(step_id)

    def _due_again(self, step_id: StepId) -> None:
        """A parked step can go on."""
        self._missing[step_id] = 0
        self._offer(step_id)

    # ── ends ──

    def end(
        self, step: StepState, outcome: Fault | JsonObject | StepSkipped | PlainEnd, place: Place
    ) -> None:
        """Record the end of a step, give its place back and start what it frees, the most urgent first."""
        step_id = step.step.step_id
        places = self._places
        batch: Batch | None = None
        places.take_back(place)
        try:
            if isinstance(outcome, PlainEnd):
                batch = self._run.record(
                    outcome, soon=False
                )  # what it frees may send it off with its own start
            elif isinstance(outcome, Fault):
                if step.status != "running":
                    self._run.record(StepStarted(step_id=step_id))
                self._run.record(StepFailed(step_id=step_id, error=outcome))
                self._skip_dependents(step_id)
                return
            elif isinstance(outcome, StepSkipped):
                self._run.record(outcome)
            else:
                left_out = step.left_out if step.items is not None else ()
                self._run.record(_step_completed(step_id=step_id, metadata=outcome, failed_items=left_out))
            missing = self._missing
            for dependent in self._graph.needed_by[step_id]:
                left = missing[dependent] = missing[dependent] - 1
                if not left and self._state.steps[dependent].status not in CLOSED:
                    self._offer(dependent)
        finally:
            try:
                places.hold(-1)
            finally:
                if batch is not None and not batch.awaited:
                    self._run.send_soon(batch)
        if batch is not None and (task := place.owner) is not None:  # its own task, which ends by this
            task.remove_done_callback(self._done)
            del self._tasks[task]
            if not self._tasks:
                self.look_idle()

    def _skip_dependents(self, failed: StepId, walked: set[StepId] | None = None) -> None:
        """`walked`: beyond these all is skipped already; without it, beyond every step that was skipped for such a reason."""
        steps = self._state.steps

        def goes_on(step_id: StepId) -> bool:
            if walked is not None:
                return step_id not in walked
            skip = steps[step_id].skip
            return skip is None or skip.kind != "dependency_failed"

        found = self._graph.downstream([failed], past=goes_on)
        for step_id in found:
            if not steps[step_id].closed:
                reason = f"step {failed!r}, which it depends on, failed"
                self._run.record(
                    StepSkipped(step_id=step_id, kind="dependency_failed", because=failed, reason=reason)
                )
        if walked is not None:
            walked.update(found)


def _makes_plain_tasks(loop: asyncio.AbstractEventLoop) -> bool:
    """True if a task of this loop is made by asyncio's own class and nothing else: a call has one, and the way round costs."""
    own = getattr(type(loop), "create_task", None)
    return own is asyncio.BaseEventLoop.create_task and loop.get_task_factory() is None
