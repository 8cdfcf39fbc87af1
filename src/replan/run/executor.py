"""Runs a plan: each step as soon as the last thing it needs is done, the longest way to the end first.

There is no layer barrier and no polling. A step that ends records its end and the start of what it frees in
one turn of the event loop, so a chain costs one commit a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from replan.core.events import (
    ExecutionMode,
    OverallReflectionTriggered,
    StepCompleted,
    StepFailed,
    StepReady,
    StepSkipped,
    StepStarted,
    TaskWaiting,
)
from replan.core.reflection import SuggestedAction
from replan.core.schedule import expected_secs, mode_of
from replan.core.state import ONLY, Output, Slot, StepState
from replan.core.types import Fault, JsonObject, StepId
from replan.errors import StoreError
from replan.run.attempts import Attempts, added_metadata
from replan.run.calls import Call, CannotCall, NeedsApproval, prepare, steps_referred
from replan.run.closing import close_call, close_crashed, unfinished_effect
from replan.run.context import Batch, Run
from replan.run.mending import Mending
from replan.run.outcomes import Outcomes, Parked, crashed_fault, internal_fault, summed
from replan.run.outputs import Loaded
from replan.run.parking import Parking
from replan.run.places import Places, PlacesClosed
from replan.run.readiness import items_of, skip_of, skipped_input
from replan.run.stops import BudgetReached

GRACE_SECS = 5.0
"""How long running calls may go on after a budget is used up."""
LET_GO_SECS = 1.0
"""How long cancelled calls may take to stop before they are left behind."""


def execute(run: Run, deadline: float | None) -> Coroutine[Any, Any, None]:
    """Run every open step of the plan, or record why it cannot run.

    Raises `BudgetReached` and `StoreError`; a fault of the parallel scheduler itself makes the rest serial.
    """
    mode, reason = mode_of(run.state)
    if run.state.mode is None:
        run.record(ExecutionMode(mode=mode, reason=reason))
    if mode == "serial":
        return Executor(run, deadline, serial=True).run_all()
    return _in_parallel(run, deadline)


async def _in_parallel(run: Run, deadline: float | None) -> None:
    try:
        await Executor(run, deadline, serial=False).run_all()
    except (BudgetReached, StoreError):
        raise
    except Exception as error:  # noqa: BLE001 - recorded; what is left is run another way
        close_crashed(run)
        run.record(ExecutionMode(mode="serial", reason=f"the parallel scheduler failed: {error!r}"))
        await Executor(run, deadline, serial=True).run_all()


LAUNCHED = -1
"""What a step waits for that has had its place."""


class Executor:
    """One pass over the open steps of a run's plan."""

    __slots__ = (
        "_attempts",
        "_graph",
        "_halt",
        "_idle",
        "_mending",
        "_missing",
        "_offered",
        "_parking",
        "_places",
        "_run",
        "_state",
        "_tasks",
        "_tools",
        "_urgency",
    )

    def __init__(self, run: Run, deadline: float | None, *, serial: bool) -> None:
        self._run = run
        self._state = run.state
        self._tools = run.parts.tools
        self._graph = run.state.graph()
        limit = 1 if serial else max(1, run.state.policy.parallel_max_concurrent)
        self._places = Places(limit, self._say_who_waits)
        self._attempts = Attempts(run, self._places, deadline)
        self._urgency = (
            {step: -float(n) for n, step in enumerate(self._graph.topological())}
            if serial
            else self._graph.distance_to_end(expected_secs(run.state))
        )
        self._missing: dict[StepId, int] = {}
        """How many steps each step still waits for, or `LAUNCHED`."""
        self._offered: list[StepId] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._halt: BaseException | None = None
        self._mending = Mending(run, self._attempts, self._places, self._prepare)
        self._parking = Parking(run, self._due_again)

    async def run_all(self) -> None:
        """Run until nothing is left to run."""
        try:
            self._start()
        except BaseException as error:  # noqa: BLE001 - raised below, after what has been started has ended
            self._stop(error)
        self._run.when_told = self._parking.look
        try:
            self._check_idle()
            await self._idle
            if self._halt is not None:
                await self._wind_down(self._halt)
        except asyncio.CancelledError:
            self._run.stopping = True
            await self._abandon()
            raise
        finally:
            self._run.when_told = None
        if self._halt is not None:
            raise self._halt
        if self._state.escalation is not None:
            return
        if asked := self._parking.requests():
            names = ", ".join(dict.fromkeys(f"{one.tool_id!r} in {one.step_id}" for one in asked))
            reason = f"a person has to agree to the call of {names}"
            self._run.record(TaskWaiting(reason=reason, approvals=tuple(one.approval_id for one in asked)))
            return
        if self._state.open_steps:
            left = [step.step.step_id for step in self._state.steps.values() if not step.closed]
            raise RuntimeError(f"steps were left that can never start: {', '.join(left[:10])}")

    def _start(self) -> None:
        steps = self._state.steps
        closed = {step_id for step_id in self._graph.order if steps[step_id].closed}
        for step_id, needs in self._graph.needs.items():
            self._missing[step_id] = len(set(needs) - closed) if closed else len(needs)
        for step_id in self._graph.order:
            if steps[step_id].status == "failed":  # closed before a crash, its dependents perhaps not
                self._skip_dependents(step_id)
        with self._places.together():
            for step_id in self._graph.order:
                if not steps[step_id].closed and not self._missing[step_id]:
                    self._offer(step_id)

    # ── life and death of tasks ──

    def _spawn(self, step: StepState, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=step.step.step_id)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._stop(error)
        self._check_idle()

    def _stop(self, error: BaseException) -> None:
        if self._halt is None:
            self._halt = error
        self._places.close()
        if not self._idle.done():
            self._idle.set_result(None)

    def _check_idle(self) -> None:
        if not self._tasks and not self._places.waiting and not self._idle.done():
            self._idle.set_result(None)

    async def _wind_down(self, halt: BaseException) -> None:
        """Let running calls end: for a while if a budget is used up, at all if only the scheduler broke."""
        if self._tasks and not isinstance(halt, StoreError):
            await asyncio.wait(self._tasks, timeout=GRACE_SECS if isinstance(halt, BudgetReached) else None)
        await self._abandon()

    async def _abandon(self) -> None:
        """Cancel what runs. Tasks that do not listen are left behind."""
        self._places.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LET_GO_SECS)

    # ── from ready to running ──

    def _offer(self, step_id: StepId) -> None:
        if self._state.escalation is not None:
            return  # nothing new is started
        self._offered.append(step_id)
        self._places.offer(self._urgency[step_id], lambda: self._launch(step_id))

    def _say_who_waits(self) -> None:
        """Record which of the steps that have just become ready did not get a place."""
        offered, self._offered = self._offered, []
        for step_id in offered:
            if self._missing[step_id] == 0 and self._state.steps[step_id].status == "pending":
                self._run.record(StepReady(step_id=step_id))

    def _launch(self, step_id: StepId) -> None:
        """Start a step; a place is held. Simple steps start in this very turn."""
        self._missing[step_id] = LAUNCHED
        step = self._state.steps[step_id]
        try:
            if step.step.actions or step.step.for_each or step.step.when or self._has_artifacts(step):
                self._spawn(step, self._composite(step))
            else:
                self._launch_simple(step)
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._stop(stop)

    def _has_artifacts(self, step: StepState) -> bool:
        """True if something has to be loaded before the step can start."""
        return self._state.kept_apart and any(
            call.output is not None and call.output.artifact is not None
            for one in (step, *steps_referred(step, self._state))
            for call in one.calls.values()
        )

    def _launch_simple(self, step: StepState) -> None:
        if skip := skipped_input(step, self._state):
            self._end(step, skip)
            return
        prepared = self._prepare(step, ONLY, Loaded())
        if isinstance(prepared, Parked):
            self._park(step, [prepared.call])
            return
        if not isinstance(prepared, Call):
            self._come_out(step, ONLY, prepared)
            return
        known = self._attempts.known(prepared)
        if known is not None and known.artifact is not None and prepared.tool.output_params:
            self._spawn(step, self._composite(step))  # its metadata have to be read from the artifact
            return
        if known is None:
            begun = () if step.status == "running" else (StepStarted(step_id=step.step.step_id),)
            self._spawn(step, self._see_through(step, prepared, self._attempts.begin(prepared, *begun)))
        else:
            self._announce(step, None)
            self._end(step, self._attempts.reuse(prepared, known, known.value))

    def _come_out(self, step: StepState, slot: Slot, outcome: Fault | JsonObject) -> None:
        """The only call of a step has its outcome without having been made; a place is held."""
        if isinstance(outcome, Fault) and self._mending.takes(step, slot, outcome):
            self._announce(step, None)
            self._spawn(step, self._mend(step, slot, outcome, None, 0))
        else:
            self._end(step, outcome)

    def _announce(self, step: StepState, items: int | None) -> None:
        if step.status != "running" or step.items != items:
            self._run.record(StepStarted(step_id=step.step.step_id, items=items))

    # ── steps of several calls ──

    async def _composite(self, step: StepState) -> None:
        """A step with actions, items, a condition or large inputs. Its place goes to its first call."""
        loaded = Loaded()
        try:
            needed = [step, *steps_referred(step, self._state)]
            await loaded.load_steps(self._run, self._run.task_id, needed)
            if skip := skip_of(step, self._state, loaded):
                self._end(step, skip)
                return
            items = items_of(step, self._state, loaded)
        except StoreError:
            raise
        except CannotCall as error:
            self._come_out(step, ONLY, error.fault)
            return
        except Exception as error:  # noqa: BLE001 - a fault of ours is this step's alone
            self._end(step, internal_fault(error))
            return
        self._announce(step, None if items is None else len(items))
        actions: list[str | None] = [action.action_id for action in step.step.actions]
        actions = actions or [None]
        slots: list[tuple[Slot, Any]] = [(Slot(action), None) for action in actions]
        if items is not None:
            slots = [(Slot(action, at), item) for at, item in enumerate(items) for action in actions]
        calls = Outcomes(len(slots))
        try:
            await self._make_calls(step, slots, loaded, calls)
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._stop(stop)
            return
        if calls.left:
            if calls.parked:
                self._park(step, calls.parked, held=False)
            return  # else it was stopped on the way
        faults = [outcome for outcome in calls.of if isinstance(outcome, Fault)]
        await self._conclude(step, summed(faults, len(slots)) if faults else calls.metadata())

    async def _make_calls(
        self, step: StepState, slots: list[tuple[Slot, Any]], loaded: Loaded, calls: Outcomes
    ) -> None:
        """Make every call of a step. A place is held on entry, and again when all of them have their outcome.

        Each is prepared once it has its place, so that like calls are told apart in the order they start.
        """
        running: list[asyncio.Task[None]] = []
        held = True
        for at, (slot, item) in enumerate(slots):
            if not held:
                await self._places.take(self._urgency[step.step.step_id])
                held = True
            prepared = self._prepare(step, slot, loaded, item)
            if isinstance(prepared, Call) and (known := self._attempts.known(prepared)) is not None:
                prepared = await self._reuse(prepared, known, loaded)
            if isinstance(prepared, Call):
                batch = self._attempts.begin(prepared)
                running.append(self._spawn(step, self._see_through(step, prepared, batch, calls, at)))
                held = False
            elif isinstance(prepared, Parked):
                calls.parked.append(prepared.call)
            elif isinstance(prepared, Fault) and self._mending.takes(step, slot, prepared):
                running.append(self._spawn(step, self._mend(step, slot, prepared, calls, at)))
                held = False
            else:
                calls.end(at, prepared)
        if held and calls.left:
            self._places.give()
        if running:
            await asyncio.wait(running)

    async def _reuse(self, call: Call, known: Output, loaded: Loaded) -> JsonObject:
        value = known.value
        if known.artifact is not None and call.tool.output_params:
            await loaded.load(self._run, self._run.task_id, [known.artifact])
            value = loaded.value_of(known)
        return self._attempts.reuse(call, known, value)

    # ── one call ──

    def _prepare(
        self, step: StepState, slot: Slot, loaded: Loaded, item: Any = None
    ) -> Call | Parked | Fault | JsonObject:
        """The call to make, at once or when a person has agreed; or its outcome, where it has one already or cannot
        be made."""
        known = step.calls.get(slot)
        if known is not None and known.status == "unknown":
            return known.fault or crashed_fault()
        if known is not None and known.status == "failed" and known.fault is not None:
            return known.fault
        if known is not None and known.output is not None:
            # Done before a crash, and done it stays, whatever its references would give by now.
            return added_metadata(self._tools.resolve(known.tool_id), loaded.value_of(known.output))
        try:
            call = prepare(step, slot, self._state, self._tools, loaded, item=item)
        except CannotCall as error:
            return error.fault
        except NeedsApproval as waits:
            return Parked(waits.call)
        except Exception as error:  # noqa: BLE001 - a fault of ours is this call's alone
            return internal_fault(error)
        if known is not None:
            if known.key != call.key and unfinished_effect(known):
                # Its references give something else by now: that would be a second effect, not the same again.
                text = "it was cut off, and the parameters it was made with cannot be had again"
                close_call(self._run, known, "crashed", text)
                return known.fault or crashed_fault()
            call.attempt = known.attempt + 1
            call.retries = known.retries
        elif step.healing is not None and (before := self._state.latest_try(call.key)) is not None:
            call.attempt = before.attempt + 1
        return call

    async def _see_through(
        self, step: StepState, call: Call, batch: Batch, calls: Outcomes | None = None, at: int = 0
    ) -> None:
        """See a begun call to its outcome: the step's own, or one of those in `calls`. Stopped, it has none."""
        try:
            outcome = await self._attempts.finish(call, batch, self._urgency[step.step.step_id])
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._stop(stop)
            return
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours is this call's alone
            made = step.calls.get(call.slot)
            if made is not None and made.status == "running":
                close_call(self._run, made, "crashed", f"a fault of Replan: {error!r}")
            outcome = (made.fault if made else None) or internal_fault(error)
        if isinstance(outcome, Fault) and self._mending.takes(step, call.slot, outcome):
            await self._mend(step, call.slot, outcome, calls, at)
        else:
            await self._came_out(step, outcome, calls, at)

    async def _came_out(
        self, step: StepState, outcome: Fault | JsonObject, calls: Outcomes | None, at: int
    ) -> None:
        """A call has its outcome; a place is held."""
        if calls is None:
            await self._conclude(step, outcome)
            return
        calls.end(at, outcome)
        if calls.left:
            self._places.give()

    # ── recovery ──

    async def _mend(self, step: StepState, slot: Slot, fault: Fault, calls: Outcomes | None, at: int) -> None:
        """Recover a failed call, beside everything that does not depend on it; a place is held on entry."""
        self._places.give()
        urgency = self._urgency[step.step.step_id]
        try:
            outcome = await self._mending.recovered(step, slot, fault, urgency)
            if isinstance(outcome, Parked):
                if calls is None:
                    self._park(step, [outcome.call], held=False)
                else:
                    calls.parked.append(outcome.call)
                return
            await self._places.take(urgency)
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._stop(stop)
            return
        await self._came_out(step, outcome, calls, at)

    async def _conclude(self, step: StepState, outcome: Fault | JsonObject) -> None:
        """A step has its outcome: the end, or what its recovery has still to do; a place is held."""
        action = self._mending.left_to_do(step) if isinstance(outcome, Fault) else None
        if not isinstance(outcome, Fault) or action is None:
            self._end(step, outcome)
            return
        if action.type == "repair_step":
            self._places.give()
            try:
                why_not = await self._mending.repaired(step, outcome, action)
                await self._places.take(self._urgency[step.step.step_id])
            except PlacesClosed:
                return
            except BudgetReached as stop:
                self._stop(stop)
                return
            if not why_not:
                self._spawn(step, self._composite(step))
                return
            action = SuggestedAction(type="trigger_overall_reflection", data={"summary": why_not})
        self._escalate(step, action, outcome)
        self._end(step, outcome)

    def _escalate(self, step: StepState, action: SuggestedAction, fault: Fault) -> None:
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

    def _park(self, step: StepState, calls: list[Call], *, held: bool = True) -> None:
        """Let a step wait for a person, without a place."""
        self._parking.park(step.step.step_id, calls)
        if held:
            self._places.give()

    def _due_again(self, step_id: StepId) -> None:
        """A person has spoken about a parked step."""
        self._missing[step_id] = 0
        self._offer(step_id)

    # ── ends ──

    def _end(self, step: StepState, outcome: Fault | JsonObject | StepSkipped) -> None:
        """Record the end of a step, give its place back and start what it frees, the most urgent first."""
        step_id = step.step.step_id
        with self._places.together():
            self._places.give()
            if isinstance(outcome, Fault):
                if step.status != "running":
                    self._run.record(StepStarted(step_id=step_id))
                self._run.record(StepFailed(step_id=step_id, error=outcome))
                self._skip_dependents(step_id)
                return
            self._run.record(
                outcome
                if isinstance(outcome, StepSkipped)
                else StepCompleted(step_id=step_id, metadata=outcome)
            )
            for dependent in self._graph.needed_by[step_id]:
                self._missing[dependent] -= 1
                if not self._missing[dependent] and not self._state.steps[dependent].closed:
                    self._offer(dependent)

    def _skip_dependents(self, failed: StepId) -> None:
        for step_id in self._graph.downstream([failed]):
            if not self._state.steps[step_id].closed:
                reason = f"step {failed!r}, which it depends on, failed"
                self._run.record(
                    StepSkipped(step_id=step_id, kind="dependency_failed", because=failed, reason=reason)
                )
