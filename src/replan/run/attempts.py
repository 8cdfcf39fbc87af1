"""One call, tried until it has an outcome: made, retried after a passing fault, recorded.

Before a call with an effect is made, its start is on disk; before any call, so are the results that it
depends on. Whether a fault may be retried is decided by its kind and the tool's effect (`core.faults`).
"""

from __future__ import annotations

import asyncio
import random
import time

from replan.core.budget import limit_reached
from replan.core.events import CallCompleted, CallFailed, CallStarted, OutcomeUnknown, StepProgress
from replan.core.faults import classify, in_doubt, may_retry
from replan.core.types import Fault, JsonObject
from replan.errors import ToolCallError
from replan.ports import Progress, ToolCall
from replan.run.calls import Call, recorded
from replan.run.context import Batch, Run
from replan.run.outputs import pack
from replan.run.places import Places
from replan.run.stops import BudgetReached

BASE_DELAY = 0.2
MAX_DELAY = 30.0


class Attempts:
    """Makes calls for one run."""

    def __init__(self, run: Run, places: Places, deadline: float | None) -> None:
        self._run = run
        self._places = places
        self._deadline = deadline
        self._policy = run.state.policy
        self._jitter = random.Random(run.task_id)

    def begin(self, call: Call) -> Batch:
        """Charge and record the start of an attempt."""
        if limit := limit_reached(self._policy.budget, self._run.state.usage, what="tool"):
            raise BudgetReached(limit)
        parameters = recorded(call, self._policy.max_output_bytes)
        return self._run.record(CallStarted(**call.labels(), effect=call.tool.effect, parameters=parameters))

    async def finish(self, call: Call, batch: Batch, urgency: float) -> Fault | JsonObject:
        """See a begun call through; a place is held on entry and on return.

        Gives what its output adds to the metadata, or the fault. `asyncio.CancelledError` leaves the call
        without a result: whoever stops the run closes it.
        """
        while True:
            if call.tool.effect != "reads" or call.step.dependencies:
                await self._run.durable(batch)
            started = time.perf_counter()
            try:
                output = await self._call(call)
                packed = pack(output, self._policy.max_output_bytes)
            except Exception as error:  # noqa: BLE001 - whatever a tool raises is its failure
                fault = classify(error, call.tool, now=self._run.parts.clock.now())
                wait = self._retry_in(call, fault)
                self._run.record(CallFailed(**call.labels(), error=fault, retry_in_secs=wait))
                if wait is None:
                    if in_doubt(fault, call.tool):
                        self._run.record(OutcomeUnknown(**call.labels(), reason=fault.message))
                    return fault
                self._places.give()
                await self._run.parts.clock.sleep(wait)
                await self._places.take(urgency)
                call.attempt += 1
                batch = self.begin(call)
                continue
            value, artifact, stored = packed
            self._run.record(
                CallCompleted(
                    **call.labels(), output=value, artifact=artifact, duration_secs=time.perf_counter() - started
                ),
                artifacts=() if stored is None else (stored,),
            )
            return _metadata_of(call, output)

    def reuse(self, call: Call) -> JsonObject | None:
        """Take the recorded output of this very call, if the ledger has it; None if the call has to be made."""
        entry = self._run.state.reusable(call.key, call.tool)
        if entry is None:
            return None
        value, artifact = entry.output
        self._run.record(CallCompleted(**call.labels(), output=value, artifact=artifact, reused=True))
        return _metadata_of(call, value)

    async def _call(self, call: Call) -> object:
        limit = self._limit(call)
        run = self._run

        def report(progress: Progress) -> None:
            run.tell(
                StepProgress(
                    step_id=call.step.step_id,
                    message=progress.message,
                    progress=progress.progress,
                    total=progress.total,
                )
            )

        request = ToolCall(
            call.tool.id, call.parameters, call.key, run.task_id, call.step.step_id, call.attempt, limit, report
        )
        if limit is None:
            return await run.parts.tools.call(request)
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                return await run.parts.tools.call(request)
        except TimeoutError:
            if scope.expired():
                raise ToolCallError(f"no answer within {limit:g} seconds", kind="timeout") from None
            raise

    def _limit(self, call: Call) -> float | None:
        own = call.step.timeout_secs or call.tool.timeout_secs
        if self._deadline is None:
            return own
        left = max(0.001, self._deadline - asyncio.get_running_loop().time())
        return left if own is None else min(own, left)

    def _retry_in(self, call: Call, fault: Fault) -> float | None:
        """Seconds until the next try; None if there is none. Full jitter: half of the wait at least."""
        if not may_retry(fault, call.tool) or call.attempt > self._policy.max_transient_retries:
            return None
        if fault.retry_after is not None:
            wait = fault.retry_after
        else:
            ceiling = min(MAX_DELAY, BASE_DELAY * 2 ** (call.attempt - 1))
            wait = ceiling * (0.5 + self._jitter.random() / 2)
        if self._deadline is not None and asyncio.get_running_loop().time() + wait >= self._deadline:
            return None  # nothing would come of it in time
        return wait


def _metadata_of(call: Call, output: object) -> JsonObject:
    if not call.tool.output_params or not isinstance(output, dict):
        return {}
    return {name: output[name] for name in call.tool.output_params if name in output}
