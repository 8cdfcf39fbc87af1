"""One call, tried until it has an outcome: made, retried after a passing fault, recorded."""

from __future__ import annotations

import asyncio
import time

from replan.beside import beside
from replan.core.events import CallFailed, OutcomeUnknown
from replan.core.failures.faults import in_doubt
from replan.core.plain_calls import PlainEnd
from replan.core.state.task import State
from replan.core.types import Fault, JsonObject
from replan.run.calls.attempts.beginning import has_to_land
from replan.run.calls.attempts.elsewhere import Elsewhere, MeantOnceMore
from replan.run.calls.attempts.late import Late
from replan.run.calls.attempts.outputs import Outputs
from replan.run.calls.build import Call, own_copy
from replan.run.calls.in_time import failed, take_back_cancels
from replan.run.calls.sealing import may_be_sealed, sealed
from replan.run.calls.slots import Place
from replan.run.session.context import Batch
from replan.run.session.outputs import Packed, pack_small
from replan.run.session.stops import BudgetReached


class Attempts(Late, Elsewhere, Outputs):
    """Makes calls for one run."""

    __slots__ = ()

    async def make(self, call: Call, place: Place, urgency: float) -> Fault | JsonObject:
        """Make a call beside the calls of the plan, with a place that is held no longer than that."""
        with call.holding():
            await self.admitted(call, urgency)
            async with place.taken(urgency):
                batch = self.begin(call)
                try:
                    outcome = await self.finish(call, batch, place, urgency)
                except MeantOnceMore as error:
                    return Fault(category="decomposition_error", kind="repeated", message=str(error))
                assert not isinstance(outcome, PlainEnd)  # this step has another call
                return outcome

    async def finish(
        self, call: Call, batch: Batch, place: Place, urgency: float
    ) -> Fault | JsonObject | PlainEnd:
        """See a begun and admitted call through; a place is held on entry and on return.

        Gives what its output adds to the metadata, or the fault; of a plain call its end, which is yet to be recorded.
        `asyncio.CancelledError` leaves the call
        without a result: whoever stops the run closes it. `MeantOnceMore`: it is to be prepared anew.
        """
        run = self._run
        while True:
            given: JsonObject | None = None
            try:
                if call.large:
                    given = await beside(own_copy, call.parameters)
                lands = has_to_land(call, run.state)
                if lands and not run.has_landed(batch):
                    await run.durable(batch)
                elsewhere, doubted = None, bool(call.doubt)
                if call.tool.effect == "once" and (run.unheard or _is_to_look(run.state)):
                    elsewhere = await self._elsewhere(call)
                if elsewhere is None and run.state.kin and call.tool.effect != "reads" and not doubted:
                    elsewhere = await self._after_nothing(call)
                if lands and elsewhere is None:
                    await run.still_ours(batch)
            except asyncio.CancelledError:
                self._take_back(call)
                raise
            if elsewhere is None and call.tool.unique_by:
                elsewhere = self._another(call)
            if elsewhere is not None:
                return elsewhere
            started = time.perf_counter()
            outcome: Packed | Fault
            try:
                if run.state.files:
                    given = await self._with_files(call, given)
                if call.right is None:
                    answer = await self._call(call, given)
                    outcome = pack_small(answer) or await self._packed(answer)
                else:
                    with call.right.used():
                        answer = await self._call(call, given)
                        outcome = pack_small(answer) or await self._packed(answer)
            except BudgetReached:
                raise  # of a call that asks a model: nothing was said of the call, and no other may be made
            except BaseException as error:
                if self.landing:
                    self.landing -= {asyncio.current_task()}
                # It gave up because we stopped it: that says nothing about the call.
                if self._stopped():
                    raise asyncio.CancelledError from error
                take_back_cancels()
                fault = self._fault(call, failed(call.tool.id, error, asyncio.current_task()))
                outcome = await self._after_all(call, fault, place, urgency)
            if isinstance(outcome, Packed):
                open_one = self._open is call.tool and not run.secrets.any
                if call.plain and not self.landing and (open_one or self._says_nothing_secret(call.tool)):
                    return self._completed(call, outcome, started)
                try:
                    if may_be_sealed(self._run, call.tool):
                        self.landing |= {asyncio.current_task()}
                        outcome = await sealed(outcome, self._run, call.tool, self._policy.max_output_bytes)
                finally:
                    if self.landing:
                        self.landing -= {asyncio.current_task()}
                return self._completed(call, outcome, started)
            call.plain = False
            secs = time.perf_counter() - started
            run.parts.record.count(call.tool, secs, outcome, memory=run.parts.store)
            wait = self._retry_in(call, outcome)
            outcome = _of_all(call, outcome)
            if wait is None and (late := self._too_late(call, outcome)):
                outcome = outcome.model_copy(update={"message": f"{outcome.message} ({late})"})
            self._run.record(CallFailed(**call.labels(), error=outcome, retry_in_secs=wait))
            if wait is None:
                if in_doubt(outcome, call.tool):
                    self._run.record(OutcomeUnknown(**call.labels(), reason=outcome.message))
                return outcome
            async with place.away(urgency):
                with self._run.pausing():
                    await self._run.parts.clock.sleep(wait)
                waits_from = asyncio.get_running_loop().time()
                await self.admitted(call, urgency)
            if call.until is not None:  # what it waits for others is not its own time
                call.until += asyncio.get_running_loop().time() - waits_from
            call.attempt += 1
            call.retries += 1
            batch = self.begin(call)


def _is_to_look(state: State) -> bool:
    """True if a call may have been made by another task, or is not to be made any more."""
    return state.kin or state.pause is not None or state.cancel is not None


def _of_all(call: Call, fault: Fault) -> Fault:
    """What has become of the call by all of its attempts: a refusal of the latest says nothing of one that is in doubt."""
    if call.doubt and fault.happened == "no":
        text = f"{call.doubt}; asked again with its key: {fault.message}"
        return fault.model_copy(update={"happened": "unknown", "message": text})
    if not call.doubt and in_doubt(fault, call.tool):
        call.doubt = fault.message
    return fault
