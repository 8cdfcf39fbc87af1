"""Why a begun call is not made here: another task has made it, or it was stopped before."""

from __future__ import annotations

import asyncio
import contextlib

from replan.core.events import CallCompleted, CallFailed, OutcomeUnknown
from replan.core.ids import base_of
from replan.core.types import Fault, JsonObject
from replan.errors import StoreError
from replan.run.calls.attempts.beginning import Beginning
from replan.run.calls.build import Call, has_had, seen
from replan.run.calls.repeats import is_one_of_several
from replan.run.family import alike, relatives
from replan.run.family.logs import logs_of
from replan.run.session.outputs import Loaded, added_metadata


class MeantOnceMore(Exception):
    """Another task of the family has made the call, and the plan means it beyond that: it is to be prepared anew."""


class Elsewhere(Beginning):
    """Why a begun call is not made here: another task has made it, or it was stopped before."""

    __slots__ = ()

    def _another(self, call: Call) -> Fault | None:
        """Why a begun call is not made, where another one with its effect was begun before it, while it waited to be let in."""
        step = self._run.state.steps.get(call.step.step_id)
        fault = has_had(call, step, self._run.state) if step is not None else None
        if fault is not None:
            call.plain = False
            self._run.record(CallFailed(**call.labels(), error=fault))
        return fault

    async def _elsewhere(self, call: Call) -> JsonObject | Fault | None:
        """What a call has come to in another task that shares its history; None: it is made here, or by nobody else."""
        run = self._run
        if (
            unheard := run.unheard
        ) and run.hear is not None:  # of a fork, it may be, or that the task is to stop
            await run.hear()
            if run.unheard == unheard:
                run.unheard = 0
        if run.state.pause is not None or run.state.cancel is not None:
            raise asyncio.CancelledError
        if not run.state.kin:
            return None
        wanted = alike.Wanted(
            call.step.step_id,
            call.slot,
            call.tool,
            seen(call, run.state),
            call.key,
            lambda: self._several(call),
        )
        found = await alike.of_family(run, wanted)
        if found is None:
            return None
        call.plain = False
        if isinstance(found, alike.Again):
            call.doubt = call.doubt or found.reason
            return None
        if isinstance(found, alike.Spent):
            text = f"{found.found.named} has made this very call, and it stands for another one here"
            fault = Fault(category="decomposition_error", kind="repeated", message=text)
            further = await alike.further_key(run, wanted)
            run.record(CallFailed(**call.labels(), error=fault, retry_in_secs=0.0))
            run.state.ledger.occupy(further, (call.step.step_id, call.slot))
            raise MeantOnceMore(text)
        if isinstance(found, alike.Asked):
            fault = Fault(
                category="decomposition_error", kind="repeated", message=found.reason, unsure=found.unsure
            )
            run.record(CallFailed(**call.labels(), error=fault))
            return fault
        if found.became != "done":
            reason = found.told_in_doubt
            fault = Fault(category="external_error", kind="crashed", message=reason, happened="unknown")
            run.record(CallFailed(**call.labels(), error=fault))
            run.record(OutcomeUnknown(**call.labels(), reason=reason, of_try=found.of_try))
            return fault
        if not found.of_call and (
            refusal := await relatives.refusal(run, call.step.step_id, call.slot, call.key, found)
        ):
            logs_of(run).claims.pop(call.key, None)
            beyond = isinstance(refusal, relatives.Beyond)
            text = refusal.reason if isinstance(refusal, relatives.Beyond) else refusal
            fault = Fault(category="decomposition_error", kind="repeated", message=text)
            run.record(CallFailed(**call.labels(), error=fault, retry_in_secs=0.0 if beyond else None))
            if beyond:
                raise MeantOnceMore(text)
            return fault
        output, value, stored = await relatives.copied(run, found)
        run.record(
            CallCompleted(
                **call.labels(), output=None if output.artifact else output.value, artifact=output.artifact,
                files=output.files, masked=output.masked, reused=True, of_task=found.task_id,
                of_call=found.of_call,
            ),
            artifacts=stored,
        )  # fmt: skip
        return added_metadata(call.tool, value)

    def _several(self, call: Call) -> bool:
        """True if the plan that brought the call marks others like it, too, also those that a later one has left out."""
        state, tools = self._run.state, self._run.parts.tools
        step, base = state.steps[call.step.step_id], base_of(call.key)
        return is_one_of_several(
            step, call.slot, base, call.parameters, state, tools, Loaded(), left_out=True
        )

    async def _after_nothing(self, call: Call) -> Fault | None:
        """Why a begun call is not made, where what its step comes after was taken back by another task."""
        text = await relatives.why_not_after(self._run, call.step.step_id)
        if not text:
            return None
        call.plain = False
        fault = Fault(category="dependency_error", kind="undone", message=text, happened="no")
        self._run.record(CallFailed(**call.labels(), error=fault))
        return fault

    def _take_back(self, call: Call) -> None:
        """Stopped before the call was made: it surely did not happen, and whoever drives on may make it."""
        fault = Fault(
            category="external_error", kind="cancelled", message="it was stopped before the call was made"
        )
        with contextlib.suppress(StoreError):
            self._run.record(CallFailed(**call.labels(), error=fault, retry_in_secs=0.0))
