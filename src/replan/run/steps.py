"""Runs one step: its calls prepared, made, recovered, and put together.

A step of one plain call starts in the turn of the event loop in which it gets its place; everything else has a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from replan.core.events import AnyEvent, StepReady, StepSkipped, StepStarted
from replan.core.reflection import SuggestedAction
from replan.core.state import ONLY, Output, Slot, StepState
from replan.core.types import Fault, JsonObject, StepId
from replan.errors import StoreError
from replan.run.attempts import Attempts
from replan.run.calls import Call, CannotCall, steps_referred
from replan.run.closing import close_call
from replan.run.context import Batch, Run
from replan.run.mending import Mending
from replan.run.outcomes import Outcomes, Parked, goes_without, internal_fault, summed
from replan.run.outputs import Loaded
from replan.run.places import Places, PlacesClosed
from replan.run.preparing import prepared_call
from replan.run.readiness import items_of, skip_of, skipped_input
from replan.run.stops import BudgetReached


class Host(Protocol):
    """Whoever schedules the steps: it owns their tasks, and is told how they come out."""

    def spawn(self, step: StepState, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...
    def stop(self, error: BaseException) -> None: ...
    def end(self, step: StepState, outcome: Fault | JsonObject | StepSkipped) -> None:
        """The step has come to an end; the place that it holds is given back."""
        ...

    def escalate(self, step: StepState, action: SuggestedAction, fault: Fault) -> None: ...
    def park(self, step: StepState, calls: list[Call], *, held: bool = True) -> None: ...


class Steps:
    """The running of steps in one pass over a plan."""

    __slots__ = ("_attempts", "_host", "_mending", "_places", "_run", "_state", "_urgency")

    def __init__(
        self, run: Run, places: Places, urgency: Mapping[StepId, float], deadline: float | None, host: Host
    ) -> None:
        self._run = run
        self._state = run.state
        self._places = places
        self._urgency = urgency
        self._attempts = Attempts(run, places, deadline)
        self._mending: Mending | None = None
        """Made when something fails: most tasks need none."""
        self._host = host

    def launch(self, step: StepState) -> None:
        """Start a step; a place is held. Raises `PlacesClosed` and `BudgetReached`."""
        if step.step.actions or step.step.for_each or step.step.when or self._has_artifacts(step):
            self._host.spawn(step, self._composite(step))
        else:
            self._launch_simple(step)

    def call_off(self, *, unstarted: bool = False) -> None:
        """Let no call wait for the limits of its tool any more. `unstarted`: only those of steps yet to start."""
        self._attempts.call_off(unstarted=unstarted)

    def _has_artifacts(self, step: StepState) -> bool:
        """True if something has to be loaded before the step can start."""
        return self._state.kept_apart and any(
            call.output is not None and call.output.artifact is not None
            for one in (step, *steps_referred(step, self._state))
            for call in one.calls.values()
        )

    def _launch_simple(self, step: StepState) -> None:
        if skip := skipped_input(step, self._state):
            self._host.end(step, skip)
            return
        prepared = prepared_call(self._run, step, ONLY, Loaded())
        if isinstance(prepared, Parked):
            self._host.park(step, [prepared.call])
            return
        if not isinstance(prepared, Call):
            self._come_out(step, ONLY, prepared)
            return
        known = self._attempts.known(prepared)
        if known is not None and known.artifact is not None and prepared.tool.output_params:
            self._host.spawn(step, self._composite(step))  # its metadata have to be read from the artifact
            return
        if known is not None:
            self._announce(step, None)
            self._host.end(step, self._attempts.reuse(prepared, known, known.value))
        elif self._attempts.may_begin(prepared):
            begun = () if step.status == "running" else (StepStarted(step_id=step.step.step_id),)
            self._begin(step, prepared, begun)
        else:
            self._host.spawn(step, self._when_admitted(step, prepared, Loaded(), None))

    def _begin(
        self,
        step: StepState,
        call: Call,
        begun: tuple[AnyEvent, ...] = (),
        calls: Outcomes | None = None,
        at: int = 0,
    ) -> asyncio.Task[None]:
        """Record the start of an admitted call, after what comes before it, and see it through in a task of its own."""
        try:
            batch = self._attempts.begin(call, *begun)
        except BaseException:
            self._attempts.leave(call)
            raise
        task = self._host.spawn(step, self._see_through(step, call, batch, calls, at))
        if call.gate is not None:  # a task that is cancelled before it has begun does nothing at all
            task.add_done_callback(lambda _: self._attempts.leave(call))
        return task

    async def _when_admitted(
        self,
        step: StepState,
        call: Call,
        loaded: Loaded,
        item: Any,
        calls: Outcomes | None = None,
        at: int = 0,
    ) -> None:
        """Wait for the limits of a call's tool, then make it. A place is held on entry, none while it waits.

        It is prepared anew then: a like call may have been made in the meantime.
        """
        urgency = self._urgency[step.step.step_id]
        if step.status == "pending":
            self._run.record(StepReady(step_id=step.step.step_id))
        while True:
            self._places.give()
            try:
                await self._attempts.admitted(call, urgency)
                await self._places.take(urgency)
            except BaseException as error:
                self._attempts.leave(call)
                if isinstance(error, BudgetReached):
                    self._host.stop(error)
                elif not isinstance(error, PlacesClosed):
                    raise
                return
            if self._state.escalation is not None and step.status != "running":  # nothing new is started
                self._attempts.leave(call)
                self._places.give()
                return
            prepared = prepared_call(self._run, step, call.slot, loaded, item)
            known = self._attempts.known(prepared) if isinstance(prepared, Call) else None
            if isinstance(prepared, Call) and known is None:
                if prepared.tool.id != call.tool.id:  # changed in the meantime: it has limits of its own
                    self._attempts.leave(call)
                    call = prepared
                    continue
                prepared.gate, call.gate = call.gate, None
                break
            self._attempts.leave(call)
            await self._without_call(step, call.slot, prepared, known, loaded, calls, at)
            return
        begun = (
            () if calls is not None or step.status == "running" else (StepStarted(step_id=step.step.step_id),)
        )
        try:
            batch = self._attempts.begin(prepared, *begun)
        except (PlacesClosed, BudgetReached) as stop:
            self._attempts.leave(prepared)
            if isinstance(stop, BudgetReached):
                self._host.stop(stop)
            return
        await self._see_through(step, prepared, batch, calls, at)

    async def _without_call(
        self,
        step: StepState,
        slot: Slot,
        outcome: Call | Parked | Fault | JsonObject,
        known: Output | None,
        loaded: Loaded,
        calls: Outcomes | None,
        at: int,
    ) -> None:
        """What waited to be called has its outcome without that; a place is held."""
        if calls is None:
            self._announce(step, None)
        if isinstance(outcome, Parked):
            if calls is None:
                self._host.park(step, [outcome.call])
            else:
                calls.parked.append(outcome.call)
                self._places.give()
            return
        if isinstance(outcome, Call):
            assert known is not None
            outcome = await self._reuse(outcome, known, loaded)
        if isinstance(outcome, Fault) and self._takes(step, slot, outcome):
            await self._mend(step, slot, outcome, calls, at)
        else:
            await self._came_out(step, outcome, calls, at)

    def _come_out(self, step: StepState, slot: Slot, outcome: Fault | JsonObject) -> None:
        """The only call of a step has its outcome without having been made; a place is held."""
        if isinstance(outcome, Fault) and self._takes(step, slot, outcome):
            self._announce(step, None)
            self._host.spawn(step, self._mend(step, slot, outcome, None, 0))
        else:
            self._host.end(step, outcome)

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
                self._host.end(step, skip)
                return
            items = items_of(step, self._state, loaded)
        except StoreError:
            raise
        except CannotCall as error:
            self._come_out(step, ONLY, error.fault)
            return
        except Exception as error:  # noqa: BLE001 - a fault of ours is this step's alone
            self._host.end(step, internal_fault(error))
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
            self._host.stop(stop)
            return
        if calls.left:
            if calls.parked:
                self._host.park(step, calls.parked, held=False)
            return  # else it was stopped on the way
        faults = [
            (slot, outcome)
            for (slot, _), outcome in zip(slots, calls.of, strict=True)
            if isinstance(outcome, Fault)
        ]
        if faults and not goes_without(step, faults):
            await self._conclude(step, summed(faults, len(slots)))
        else:
            await self._conclude(step, calls.metadata())

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
            prepared = prepared_call(self._run, step, slot, loaded, item)
            if isinstance(prepared, Call) and (known := self._attempts.known(prepared)) is not None:
                prepared = await self._reuse(prepared, known, loaded)
            if isinstance(prepared, Call):
                if self._attempts.may_begin(prepared):
                    running.append(self._begin(step, prepared, (), calls, at))
                else:
                    waits = self._when_admitted(step, prepared, loaded, item, calls, at)
                    running.append(self._host.spawn(step, waits))
                held = False
            elif isinstance(prepared, Parked):
                calls.parked.append(prepared.call)
            elif isinstance(prepared, Fault) and self._takes(step, slot, prepared):
                running.append(self._host.spawn(step, self._mend(step, slot, prepared, calls, at)))
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

    async def _see_through(
        self, step: StepState, call: Call, batch: Batch, calls: Outcomes | None = None, at: int = 0
    ) -> None:
        """See a begun call to its outcome: the step's own, or one of those in `calls`. Stopped, it has none."""
        try:
            outcome = await self._attempts.finish(call, batch, self._urgency[step.step.step_id])
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._host.stop(stop)
            return
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours is this call's alone
            made = step.calls.get(call.slot)
            if made is not None and made.status == "running":
                close_call(self._run, made, "crashed", f"a fault of Replan: {error!r}")
            outcome = (made.fault if made else None) or internal_fault(error)
        if isinstance(outcome, Fault) and self._takes(step, call.slot, outcome):
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

    def _takes(self, step: StepState, slot: Slot, fault: Fault) -> bool:
        """True if the failure is one to recover from."""
        return self._state.heals and self._mended().takes(step, slot, fault)

    def _mended(self) -> Mending:
        if self._mending is None:
            self._mending = Mending(self._run, self._attempts, self._places)
        return self._mending

    async def _mend(self, step: StepState, slot: Slot, fault: Fault, calls: Outcomes | None, at: int) -> None:
        """Recover a failed call, beside everything that does not depend on it; a place is held on entry."""
        self._places.give()
        urgency = self._urgency[step.step.step_id]
        try:
            outcome = await self._mended().recovered(step, slot, fault, urgency)
            if isinstance(outcome, Parked):
                if calls is None:
                    self._host.park(step, [outcome.call], held=False)
                else:
                    calls.parked.append(outcome.call)
                return
            await self._places.take(urgency)
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._host.stop(stop)
            return
        await self._came_out(step, outcome, calls, at)

    async def _conclude(self, step: StepState, outcome: Fault | JsonObject) -> None:
        """A step has its outcome: the end, or what its recovery has still to do; a place is held."""
        action = self._mended().left_to_do(step) if isinstance(outcome, Fault) else None
        if not isinstance(outcome, Fault) or action is None:
            self._host.end(step, outcome)
            return
        if action.type == "repair_step":
            self._places.give()
            try:
                why_not = await self._mended().repaired(step, outcome, action)
                await self._places.take(self._urgency[step.step.step_id])
            except PlacesClosed:
                return
            except BudgetReached as stop:
                self._host.stop(stop)
                return
            if not why_not:
                self._host.spawn(step, self._composite(step))
                return
            action = SuggestedAction(type="trigger_overall_reflection", data={"summary": why_not})
        self._host.escalate(step, action, outcome)
        self._host.end(step, outcome)
