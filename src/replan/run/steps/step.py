"""Runs one step: its calls prepared, made, recovered, and put together.

A step of one plain call starts in the turn of the event loop in which it gets its place; everything else has a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE, weight
from replan.core.events import StepReady, StepSkipped, StepStarted
from replan.core.plain_calls import PlainEnd
from replan.core.reflection import SuggestedAction
from replan.core.state.task import ONLY, Output, Slot, StepState
from replan.core.types import Fault, JsonObject, StepId
from replan.errors import StoreError
from replan.run.calls.attempts import Attempts, MeantOnceMore
from replan.run.calls.build import Call, CannotCall, constant
from replan.run.calls.closing import close_call
from replan.run.calls.outcomes import Outcomes, Parked, goes_without, internal_fault, summed
from replan.run.calls.preparation import prepared_beside, prepared_call
from replan.run.calls.readiness import items_of, skip_of, skipped_input
from replan.run.calls.scope import steps_referred, takes_much
from replan.run.calls.slots import Place, Places, PlacesClosed
from replan.run.recovery.actions import Mending
from replan.run.session.context import Batch, Run
from replan.run.session.outputs import Loaded
from replan.run.session.stops import BudgetReached
from replan.run.steps.inside import Inside

_AT_ONCE = 50
"""Calls that only wait are prepared in one turn of the event loop."""


class Host(Protocol):
    """Whoever schedules the steps: it owns their tasks, and is told how they come out."""

    def spawn(self, step: StepState, work: Coroutine[Any, Any, None], place: Place) -> asyncio.Task[None]:
        """A task for the work; it owns the place from now on."""
        ...

    def stop(self, error: BaseException) -> None: ...
    def hold(self, why: Exception) -> None:
        """A step is left open, as it cannot be asked about for now."""
        ...

    def end(
        self, step: StepState, outcome: Fault | JsonObject | StepSkipped | PlainEnd, place: Place
    ) -> None:
        """The step has come to an end; its place is given back."""
        ...

    def escalate(self, step: StepState, action: SuggestedAction, fault: Fault) -> None: ...
    def park(self, step: StepState, calls: list[Call], place: Place) -> None: ...


class Steps:
    """The running of steps in one pass over a plan."""

    __slots__ = ("_host", "_mending", "_places", "_run", "_state", "_urgency", "attempts")

    def __init__(
        self, run: Run, places: Places, urgency: Mapping[StepId, float], deadline: float | None, host: Host
    ) -> None:
        self._run = run
        self._state = run.state
        self._places = places
        self._urgency = urgency
        self.attempts = Attempts(run, places, deadline)
        self._mending: Mending | None = None
        """Made when something fails: most tasks need none."""
        self._host = host

    def launch(self, step: StepState, place: Place) -> None:
        """Start a step. Raises `PlacesClosed` and `BudgetReached`."""
        wanted = step.step
        kept_apart = self._state.kept_apart and self._has_artifacts(step)
        if wanted.actions or wanted.for_each or wanted.when or kept_apart:
            self._host.spawn(step, self._composite(step, place), place)
            return
        if self._state.any_skipped and (skip := skipped_input(step, self._state)):
            self._host.end(step, skip, place)
            return
        call = constant(step, self._state, self._run.parts.tools)
        small = call is not None and (call.short or not takes_much(step, self._state))
        if call is not None and small and self.attempts.may_begin(call):
            self._begin_only(step, call, place)
        else:
            self._launch_simple(step, place)

    def call_off(self, *, unstarted: bool = False) -> None:
        """Let no call wait for the limits of its tool any more. `unstarted`: only those of steps yet to start."""
        self.attempts.call_off(unstarted=unstarted)

    @property
    def landing(self) -> frozenset[asyncio.Task[Any] | None]:
        """Those who write down what a call has given."""
        return self.attempts.landing

    def abandon(self) -> None:
        """What runs is about to be cancelled: what it says then says nothing about its calls."""
        self.attempts.abandoned = True

    def _has_artifacts(self, step: StepState) -> bool:
        """True if something has to be loaded before the step can start."""
        return any(
            call.output is not None and call.output.artifact is not None
            for one in (step, *steps_referred(step, self._state))
            for call in one.calls.values()
        )

    def _launch_simple(self, step: StepState, place: Place) -> None:
        """Start a step with one call, which has to be prepared."""
        if takes_much(step, self._state):
            self._host.spawn(step, self._composite(step, place), place)
            return
        prepared = prepared_call(self._run, step, ONLY, Loaded())
        if isinstance(prepared, Parked):
            if prepared.call.waits:  # the place is not free before the next turn: thousands may wait
                self._host.spawn(step, self._wait(step, prepared.call, place), place)
            else:
                self._host.park(step, [prepared.call], place)
            return
        if not isinstance(prepared, Call):
            self._come_out(step, ONLY, prepared, place)
            return
        known = self.attempts.known(prepared)
        if known is not None and known.artifact is not None and prepared.tool.output_params:
            self._host.spawn(
                step, self._composite(step, place), place
            )  # its metadata have to be read from the artifact
            return
        if known is not None:
            self._announce(step, None)
            self._host.end(step, self.attempts.reuse(prepared, known, known.value), place)
        elif self.attempts.may_begin(prepared):
            self._begin_only(step, prepared, place)
        else:
            self._host.spawn(step, self._when_admitted(step, prepared, place, Loaded(), None), place)

    async def _wait(self, step: StepState, call: Call, place: Place) -> None:
        self._host.park(step, [call], place)

    def _begin_only(self, step: StepState, call: Call, place: Place) -> None:
        """`_begin` of a step with its only call."""
        call.plain = (
            step.status != "running"
            and not step.calls
            and step.healing is None
            and call.attempt == 1
            and not call.tool.keys_in
        )
        if call.plain and call.right is None:  # as most
            batch = self.attempts.begin_plain(call)
            self._host.spawn(step, self._see_through(step, call, batch, place), place)
            return
        with call.holding():
            if call.plain:
                batch = self.attempts.begin_plain(call)
            elif step.status == "running":
                batch = self.attempts.begin(call)
            else:
                batch = self.attempts.begin(call, StepStarted(step_id=step.step.step_id))
            self._go_on(step, call, batch, place)

    def _begin(
        self, step: StepState, call: Call, place: Place, calls: Outcomes, at: int
    ) -> asyncio.Task[None]:
        """Record the start of an admitted call, and see it through in a task of its own."""
        with call.holding():
            return self._go_on(step, call, self.attempts.begin(call), place, calls, at)

    def _go_on(
        self,
        step: StepState,
        call: Call,
        batch: Batch,
        place: Place,
        calls: Outcomes | None = None,
        at: int = 0,
    ) -> asyncio.Task[None]:
        task = self._host.spawn(step, self._see_through(step, call, batch, place, calls, at), place)
        if call.right is not None:
            call.right.belongs_to(task)
        return task

    async def _when_admitted(
        self,
        step: StepState,
        call: Call,
        place: Place,
        loaded: Loaded,
        item: Any,
        calls: Outcomes | None = None,
        at: int = 0,
    ) -> None:
        """Wait for the limits of a call's tool, without a place, then make it.

        It is prepared anew then: a like call may have been made in the meantime.
        """
        urgency = self._urgency[step.step.step_id]
        if step.status == "pending":
            self._run.record(StepReady(step_id=step.step.step_id))
        while True:
            with call.holding():
                try:
                    async with place.away(urgency):
                        await self.attempts.admitted(call, urgency)
                except BudgetReached as error:
                    self._host.stop(error)
                    return
                except PlacesClosed:
                    return
                if self._state.escalation is not None and step.status != "running":  # nothing new is started
                    return
                prepared = prepared_call(self._run, step, call.slot, loaded, item)
                known = self.attempts.known(prepared) if isinstance(prepared, Call) else None
                if isinstance(prepared, Call) and known is None:
                    if prepared.tool.id != call.tool.id:  # changed in the meantime: it has limits of its own
                        call = prepared
                        continue
                    prepared.right = call.holding().moved()
                    break
            await self._without_call(step, call.slot, prepared, known, loaded, place, calls, at)
            return
        begun = (
            () if calls is not None or step.status == "running" else (StepStarted(step_id=step.step.step_id),)
        )
        with prepared.holding():
            try:
                batch = self.attempts.begin(prepared, *begun)
            except PlacesClosed:
                return
            except BudgetReached as stop:
                self._host.stop(stop)
                return
            await self._see_through(step, prepared, batch, place, calls, at)

    async def _without_call(
        self,
        step: StepState,
        slot: Slot,
        outcome: Call | Parked | Fault | JsonObject,
        known: Output | None,
        loaded: Loaded,
        place: Place,
        calls: Outcomes | None,
        at: int,
    ) -> None:
        """What waited to be called has its outcome without that."""
        if calls is None:
            self._announce(step, None)
        if isinstance(outcome, Parked):
            if calls is None:
                self._host.park(step, [outcome.call], place)
            else:
                calls.parked.append(outcome.call)
            return
        if isinstance(outcome, Call):
            assert known is not None
            outcome = await self._reuse(outcome, known, loaded)
        if isinstance(outcome, Fault) and self._mended().takes(step, slot, outcome):
            await self._mend(step, slot, outcome, place, calls, at)
        else:
            await self._came_out(step, outcome, place, calls, at)

    def _come_out(self, step: StepState, slot: Slot, outcome: Fault | JsonObject, place: Place) -> None:
        """The only call of a step has its outcome without having been made."""
        if isinstance(outcome, Fault) and self._mended().takes(step, slot, outcome):
            self._announce(step, None)
            self._host.spawn(step, self._mend(step, slot, outcome, place, None, 0), place)
        else:
            self._host.end(step, outcome, place)

    def _announce(self, step: StepState, items: int | None) -> None:
        if step.status != "running" or step.items != items:
            self._run.record(StepStarted(step_id=step.step.step_id, items=items))

    # ── steps of several calls ──

    async def _composite(self, step: StepState, place: Place) -> None:
        """A step with actions, items, a condition or large inputs. Its place goes to its first call."""
        loaded = Loaded()
        try:
            needed = [step, *steps_referred(step, self._state)]
            await loaded.load_steps(self._run, self._run.task_id, needed)
            if skip := skip_of(step, self._state, loaded):
                self._host.end(step, skip, place)
                return
            much = takes_much(step, self._state)
            items = (
                await beside(items_of, step, self._state, loaded)
                if much
                else items_of(step, self._state, loaded)
            )
            if much and items is not None:
                much = takes_much(step, self._state, items=True)
        except StoreError:
            raise
        except CannotCall as error:
            self._come_out(step, ONLY, error.fault, place)
            return
        except Exception as error:  # noqa: BLE001 - a fault of ours is this step's alone
            self._host.end(step, internal_fault(error), place)
            return
        self._announce(step, None if items is None else len(items))
        actions: list[str | None] = [action.action_id for action in step.step.actions]
        actions = actions or [None]
        slots: list[tuple[Slot, Any]] = [(Slot(action), None) for action in actions]
        if items is not None:
            slots = [(Slot(action, at), item) for at, item in enumerate(items) for action in actions]
        calls = Outcomes(len(slots))
        try:
            place = await self._make_calls(step, slots, loaded, place, calls, much=much)
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._host.stop(stop)
            return
        if calls.left:
            if calls.parked:
                self._host.park(step, calls.parked, place)
            return  # else it was stopped on the way
        faults = [
            (slot, outcome)
            for at, ((slot, _), outcome) in enumerate(zip(slots, calls.of, strict=True))
            if isinstance(outcome, Fault) and at not in calls.without
        ]
        if faults and not goes_without(step, faults):
            await self._conclude(step, summed(faults, len(slots)), place)
        else:
            await self._conclude(step, calls.metadata(), place)

    async def _make_calls(
        self,
        step: StepState,
        slots: list[tuple[Slot, Any]],
        loaded: Loaded,
        place: Place,
        calls: Outcomes,
        *,
        much: bool,
    ) -> Place:
        """Make every call of a step. Gives the place that is held when all of them have their outcome.

        `much`: what they take may be large.

        Each is prepared once it has its place, so that like calls are told apart in the order they start. One that needs others of its
        item comes once these are done.
        """
        mine, urgency = asyncio.current_task(), self._urgency[step.step.step_id]
        assert mine is not None
        order = Inside(step.step, [slot for slot, _ in slots], calls)
        while True:
            for at in order.due():
                if place.owner is not mine:
                    place = Place(self._places)
                    place.belongs_to(mine)
                await place.take(urgency)
                if artifacts := order.needed_artifacts(step, at):
                    await loaded.load(self._run, self._run.task_id, artifacts)
                task = await self._make_one(step, slots[at], loaded, place, calls, at, much=much)
                if task is not None:
                    order.is_made_by(task)
            if not order.running:
                break
            if place.owner is mine:
                place.give()
            await order.news()
        if calls.place is not None:
            calls.place.belongs_to(mine)
        return calls.place or place

    async def _make_one(
        self,
        step: StepState,
        what: tuple[Slot, Any],
        loaded: Loaded,
        place: Place,
        calls: Outcomes,
        at: int,
        *,
        much: bool,
    ) -> asyncio.Task[None] | None:
        """Make one call of several; None: it has its outcome already, or is parked."""
        slot, item = what
        if much or (item is not None and weight(item, AT_ONCE) > AT_ONCE):
            prepared = await prepared_beside(self._run, step, slot, loaded, item)
        else:
            prepared = prepared_call(self._run, step, slot, loaded, item)
        if isinstance(prepared, Call) and (known := self.attempts.known(prepared)) is not None:
            prepared = await self._reuse(prepared, known, loaded)
        if isinstance(prepared, Call):
            if self.attempts.may_begin(prepared):
                return self._begin(step, prepared, place, calls, at)
            waits = self._when_admitted(step, prepared, place, loaded, item, calls, at)
            return self._host.spawn(step, waits, place)
        if isinstance(prepared, Parked):
            calls.parked.append(prepared.call)
            if not len(calls.parked) % _AT_ONCE:
                await asyncio.sleep(0)
        elif isinstance(prepared, Fault) and self._mended().takes(step, slot, prepared):
            return self._host.spawn(step, self._mend(step, slot, prepared, place, calls, at), place)
        else:
            calls.end(at, prepared)
        return None

    async def _reuse(self, call: Call, known: Output, loaded: Loaded) -> JsonObject:
        value = known.value
        if known.artifact is not None and call.tool.output_params:
            await loaded.load(self._run, self._run.task_id, [known.artifact])
            value = loaded.value_of(known)
        return self.attempts.reuse(call, known, value)

    # ── one call ──

    async def _see_through(
        self,
        step: StepState,
        call: Call,
        batch: Batch,
        place: Place,
        calls: Outcomes | None = None,
        at: int = 0,
    ) -> None:
        """See a begun call to its outcome: the step's own, or one of those in `calls`. Stopped, it has none."""
        outcome: Fault | JsonObject | PlainEnd
        try:
            try:
                outcome = await self.attempts.finish(call, batch, place, self._urgency[step.step.step_id])
            finally:
                if call.right is not None:  # each further try has one
                    call.right.end()
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._host.stop(stop)
            return
        except MeantOnceMore:
            await self._anew(step, call, place, calls, at)
            return
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours is this call's alone
            made = step.calls.get(call.slot)
            if made is not None and made.status == "running":
                close_call(self._run, made, "crashed", f"a fault of Replan: {error!r}")
            outcome = (made.fault if made else None) or internal_fault(error)
        if isinstance(outcome, PlainEnd):
            self._host.end(step, outcome, place)
        elif isinstance(outcome, Fault) and self._mended().takes(step, call.slot, outcome):
            await self._mend(step, call.slot, outcome, place, calls, at)
        elif calls is None and not isinstance(outcome, Fault):
            self._host.end(step, outcome, place)
        else:
            await self._came_out(step, outcome, place, calls, at)

    async def _anew(self, step: StepState, call: Call, place: Place, calls: Outcomes | None, at: int) -> None:
        """Prepare a call anew that was not made, and see that one through."""
        loaded = Loaded()
        await loaded.load_steps(self._run, self._run.task_id, [step, *steps_referred(step, self._state)])
        items = items_of(step, self._state, loaded) if call.slot.item is not None else None
        item = items[call.slot.item] if items is not None and call.slot.item is not None else None
        await self._when_admitted(step, call, place, loaded, item, calls, at)

    async def _came_out(
        self, step: StepState, outcome: Fault | JsonObject, place: Place, calls: Outcomes | None, at: int
    ) -> None:
        """A call has its outcome."""
        if calls is None:
            await self._conclude(step, outcome, place)
            return
        calls.end(at, outcome)
        if not calls.left:
            calls.place = place

    # ── recovery ──

    def _mended(self) -> Mending:
        if self._mending is None:
            self._mending = Mending(self._run, self.attempts, self._places, self._host.hold)
        return self._mending

    async def _mend(
        self, step: StepState, slot: Slot, fault: Fault, place: Place, calls: Outcomes | None, at: int
    ) -> None:
        """Recover a failed call, beside everything that does not depend on it."""
        place.give()
        urgency = self._urgency[step.step.step_id]
        try:
            outcome = await self._mended().recovered(step, slot, fault, place, urgency)
            if isinstance(outcome, Parked):
                if calls is None:
                    self._host.park(step, [outcome.call], place)
                else:
                    calls.parked.append(outcome.call)
                return
            await place.take(urgency)
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._host.stop(stop)
            return
        await self._came_out(step, outcome, place, calls, at)

    async def _conclude(self, step: StepState, outcome: Fault | JsonObject, place: Place) -> None:
        """A step has its outcome: the end, or what its recovery has still to do."""
        action = self._mended().left_to_do(step) if isinstance(outcome, Fault) else None
        if not isinstance(outcome, Fault) or action is None:
            self._host.end(step, outcome, place)
            return
        if action.type == "repair_step":
            try:
                async with place.away(self._urgency[step.step.step_id]):
                    why_not = await self._mended().repaired(step, outcome, action)
            except PlacesClosed:
                return
            except BudgetReached as stop:
                self._host.stop(stop)
                return
            if not why_not:
                self._host.spawn(step, self._composite(step, place), place)
                return
            action = SuggestedAction(type="trigger_overall_reflection", data={"summary": why_not})
        self._host.escalate(step, action, outcome)
        self._host.end(step, outcome, place)
