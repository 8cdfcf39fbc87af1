"""Carries out what recovery decides about a call: tries it in another way, reads, settles, or hands it on.

No place is held while a step is thought about; each try takes one and gives it back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from replan.core.failures.faults import DONE_ALREADY
from replan.core.reflection import SuggestedAction
from replan.core.state.task import CallState, Slot, StepState
from replan.core.types import Fault, JsonObject
from replan.errors import StoreError
from replan.run.calls.attempts import Attempts
from replan.run.calls.build import Call, CannotCall
from replan.run.calls.outcomes import Parked, internal_fault
from replan.run.calls.outline import outline
from replan.run.calls.preparation import prepared_call
from replan.run.calls.readiness import items_of
from replan.run.calls.scope import steps_referred
from replan.run.calls.slots import Place, Places, PlacesClosed
from replan.run.recovery.diagnosis import Recovery, Taken
from replan.run.recovery.doubts import FIRST_WAIT_SECS, Doubts, due_at
from replan.run.recovery.likes import is_free, likes_ended
from replan.run.recovery.repair import repair
from replan.run.recovery.settled import Again, Unsettled
from replan.run.session.context import Run
from replan.run.session.outputs import Loaded
from replan.run.session.stops import BudgetReached, Halted, ModelAway


class Mending:
    """The recoveries of one pass over a plan."""

    __slots__ = ("_attempts", "_doubts", "_hold", "_places", "_recovery", "_run")

    def __init__(
        self, run: Run, attempts: Attempts, places: Places, hold: Callable[[Exception], None]
    ) -> None:
        """`hold` is told why a step is left as it is, for whoever takes the task up again: it could not be asked about."""
        self._run = run
        self._attempts = attempts
        self._places = places
        self._hold = hold
        self._recovery = Recovery(run)
        self._doubts = Doubts(run, attempts, attempts.make)

    def takes(self, step: StepState, slot: Slot, fault: Fault) -> bool:
        """True if the failure is one to recover from."""
        return not self._places.closed and self._recovery.takes(step, fault, step.calls.get(slot))

    async def recovered(
        self, step: StepState, slot: Slot, fault: Fault, place: Place, urgency: float
    ) -> Fault | JsonObject | Parked:
        """What becomes of a failed call; a fault where the step has to go on to the next layer.

        `PlacesClosed` also where it cannot be asked about for now: nothing is decided, as before a crash.
        """
        try:
            settled = await self._by_code(step, slot, fault, place, urgency)  # of several calls side by side
            if not isinstance(settled, Fault):
                return settled
            async with self._recovery.lock(step):
                return await self._recovered(step, slot, settled, place, urgency)
        except (StoreError, PlacesClosed, BudgetReached):
            raise
        except (Halted, ModelAway) as error:
            self._hold(error)
            raise PlacesClosed from error
        except Exception as error:  # noqa: BLE001 - a fault of ours is this call's alone
            return internal_fault(error)

    async def _recovered(
        self, step: StepState, slot: Slot, fault: Fault, place: Place, urgency: float
    ) -> Fault | JsonObject | Parked:
        run = self._run
        while self.takes(step, slot, fault):
            known = step.calls.get(slot)
            if known is not None and known.status == "unknown" and known.key not in self._recovery.why:
                settled = await self._by_code(step, slot, fault, place, urgency)
                if not isinstance(settled, Fault):
                    return settled
                fault = settled
                continue
            if not run.state.heals:
                return fault
            loaded, item = await self._inputs(step, slot)
            meant = outline(step, slot, run.state, run.parts.tools, loaded, item)
            await likes_ended(run, step, slot)
            if fault.kind in DONE_ALREADY and await is_free(run, step, slot, meant):
                outcome = await self._try(step, slot, loaded, item, place, urgency)
                if not isinstance(outcome, Fault):
                    return outcome
                fault = outcome
                continue
            action = await self._recovery.decide(step, slot, fault, meant)
            match action.type:
                case "verify_outcome":
                    await self._read(step, slot, action, place, urgency)
                    continue
                case "settle_outcome":
                    if not action.data.get("happened") and not await self._still_so(
                        step, slot, place, urgency
                    ):
                        continue
                    try:
                        added = self._recovery.settle(step, slot, action)
                    except Taken:
                        continue
                    if added is not None:
                        return added
                case "repair_step" | "replan" | "trigger_overall_reflection":
                    return fault
                case "retry_with_params" | "retry_with_tool":
                    pass
                case other:
                    assert_never(other)
            outcome = await self._try(step, slot, loaded, item, place, urgency)
            if not isinstance(outcome, Fault):
                return outcome
            fault = outcome
        return fault

    async def _by_code(
        self, step: StepState, slot: Slot, fault: Fault, place: Place, urgency: float
    ) -> Fault | JsonObject | Parked:
        """The failure without what code can settle by itself: a fault, or the outcome."""
        run = self._run
        while (call := step.calls.get(slot)) is not None and call.status == "unknown":
            loaded, item = await self._inputs(step, slot)
            meant = outline(step, slot, run.state, run.parts.tools, loaded, item)
            settled = await self._doubts.settle(step, call, meant.parameters, place, urgency)
            if isinstance(settled, Unsettled):
                self._recovery.why[call.key] = settled.why
                return fault
            if not isinstance(settled, Again):
                return settled
            outcome = await self._try(step, slot, loaded, item, place, urgency)
            self._recovery.why.pop(call.key, None)
            if not isinstance(outcome, Fault):
                return outcome
            fault = outcome
        return fault

    async def _still_so(self, step: StepState, slot: Slot, place: Place, urgency: float) -> bool:
        """Whether what a model takes for "it did not happen" still reads the same once that may count."""
        run, call = self._run, step.calls[slot]
        tool = run.parts.tools.resolve(call.tool_id)
        readings = step.healing.readings.get(slot, ()) if step.healing is not None else ()
        if tool is None or not readings:
            return False
        latest = readings[-1]
        if latest.at >= due_at(run, step, call, tool):
            return True
        data = {"tool_id": latest.tool_id, "parameters": latest.parameters}
        again = SuggestedAction(type="verify_outcome", data=data)
        await self._read(step, slot, again, place, urgency)
        now = step.healing.readings[slot][-1] if step.healing is not None else latest
        return not now.error and now.output == latest.output

    async def _until_it_may_differ(self, step: StepState, call: CallState, read: float) -> None:
        """Wait until what was under way has come to its end: before that a reading made again shows the same."""
        clock = self._run.parts.clock
        tool = self._run.parts.tools.resolve(call.tool_id)
        due = due_at(self._run, step, call, tool) if tool is not None else 0.0
        await clock.sleep(max(0.0, max(due, read + FIRST_WAIT_SECS) - self._run.now()))

    async def _inputs(self, step: StepState, slot: Slot) -> tuple[Loaded, Any]:
        """What the call's references need, and its item."""
        loaded = Loaded()
        await loaded.load_steps(self._run, self._run.task_id, [step, *steps_referred(step, self._run.state)])
        if slot.item is None:
            return loaded, None
        try:
            items = items_of(step, self._run.state, loaded) or []
        except CannotCall:
            items = []
        return loaded, items[slot.item] if slot.item < len(items) else None

    async def _try(
        self, step: StepState, slot: Slot, loaded: Loaded, item: Any, place: Place, urgency: float
    ) -> Fault | JsonObject | Parked:
        """One try as recovery has decided it, with its transient retries."""
        prepared = prepared_call(self._run, step, slot, loaded, item)
        if not isinstance(prepared, Call):
            return prepared
        known = self._attempts.known(prepared)
        if known is not None:
            if known.artifact is not None:
                await loaded.load(self._run, self._run.task_id, [known.artifact])
            return self._attempts.reuse(prepared, known, loaded.value_of(known))
        return await self._attempts.make(prepared, place, urgency)

    async def _read(
        self, step: StepState, slot: Slot, action: SuggestedAction, place: Place, urgency: float
    ) -> None:
        """Make a reading to find out about a call in doubt; what it gives is for the next reflection."""
        tool = self._run.parts.tools.resolve(str(action.data.get("tool_id")))
        mine = step.healing
        if tool is None or not tool.may_verify or mine is None:
            if mine is not None:
                mine.pending.pop(slot, None)  # it is gone since, or another: decided anew
            return
        given = action.data.get("parameters")
        parameters = given if isinstance(given, dict) else {}
        if (before := mine.alike(slot, tool.id, parameters)) and slot in step.calls:
            await self._until_it_may_differ(step, step.calls[slot], before[-1].at)
        number = len(mine.readings.get(slot, ())) + 1
        about = step.calls[slot].key if slot in step.calls else f"{step.step.step_id}{slot}"
        base = self._run.state.reading_base(tool, parameters, about)  # another doubt, another reading
        key = f"{base}.v{number}"
        await self._attempts.make(Call(step.step, slot.reading(), tool, parameters, key), place, urgency)

    # ── the next layers ──

    def left_to_do(self, step: StepState) -> SuggestedAction | None:
        """What recovery has decided for the whole step, if anything may still be done about it."""
        mine = step.healing
        if mine is None or not self._run.state.heals or self._run.state.escalation is not None:
            return None
        if any(call.status == "unknown" for call in step.calls.values()):
            return None  # first it has to be known what has happened
        for kind in ("repair_step", "replan", "trigger_overall_reflection"):
            for action in mine.pending.values():
                if action.type == kind:
                    return action
        return None

    async def repaired(self, step: StepState, fault: Fault, action: SuggestedAction) -> str:
        """Have the step written anew; empty text, or why it was not."""
        try:
            return await repair(self._run, step, fault, action.words())
        except (StoreError, PlacesClosed, BudgetReached):
            raise
        except (Halted, ModelAway) as error:
            self._hold(error)
            raise PlacesClosed from error
        except Exception as error:  # noqa: BLE001 - a fault of ours is this step's alone
            return internal_fault(error).message
