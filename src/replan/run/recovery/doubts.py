"""Calls in doubt that code settles by itself: by their late answer, then by a declared verifier.

Between the two is the key that a tool honours: the same call is made again with it by `run.calls.attempts`, as often as a passing
fault is let pass, and only then the call is in doubt.

What is known of a doubt is in the log: when it arose, what was read, which record has settled which call. So a task that
was killed goes on waiting for what is left of `after_secs`, and no record settles two calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from replan.core.calls import verify
from replan.core.failures.faults import may_retry
from replan.core.ids import base_of, call_key
from replan.core.recovery.ladder import MOST_SETTLED
from replan.core.state.task import CallState, StepState
from replan.core.types import VERIFY, CallKey, Fault, JsonObject, ToolSpec, Verifier
from replan.run.calls.attempts import Attempts
from replan.run.calls.build import Call
from replan.run.calls.sealing import sealed
from replan.run.calls.slots import Place
from replan.run.recovery import by_relatives
from replan.run.recovery.others import Others
from replan.run.recovery.settled import Again, Settled, Unsettled, record_settled
from replan.run.session.context import Run
from replan.run.session.outputs import Packed, added_metadata, packed

FIRST_WAIT_SECS, LONGEST_WAIT_SECS = 0.5, 30.0
"""Between two looks: ever longer, up to this."""
MOST_FAILED_LOOKS = 4
"""Readings of a verifier that have to fail one after another, up to when a "no" would count, before a person is asked."""


class Doubts:
    """The settling of one pass over a plan. `make` makes a call and gives what `Attempts.finish` does."""

    __slots__ = ("_attempts", "_claiming", "_make", "_run")

    def __init__(
        self,
        run: Run,
        attempts: Attempts,
        make: Callable[[Call, Place, float], Awaitable[Fault | JsonObject]],
    ) -> None:
        self._run = run
        self._attempts = attempts
        self._make = make
        self._claiming = asyncio.Lock()
        """Held from the look at which records are free until one is taken: it settles one call only."""

    async def settle(
        self, step: StepState, call: CallState, parameters: JsonObject, place: Place, urgency: float
    ) -> Settled:
        """What code can say of a call in doubt. `parameters`: as resolved by now."""
        tool = self._run.parts.tools.resolve(call.tool_id)
        if tool is None:
            return Unsettled(f"the tool {call.tool_id!r} is not here any more")
        answer = await self._attempts.late_answer(call.key)
        if answer is not None:
            await asyncio.wait({answer})
            if (settled := await self._by_late_answer(call, tool, answer)) is not None:
                return settled
        if self._run.state.kin and (settled := await by_relatives.settle(self._run, call, tool)) is not None:
            return settled
        if tool.verify is None or (self._run.state.policy.approval == "all" and tool.verify.happened):
            return Unsettled()
        return await self._by_verifier(step, call, tool, tool.verify, parameters, place, urgency)

    async def _by_late_answer(
        self, call: CallState, tool: ToolSpec, answer: asyncio.Future[object]
    ) -> Settled | None:
        heard = await self._attempts.heard(call.key, answer, tool)
        if isinstance(heard, Packed):
            return await self._happened(call, tool, heard, "its late answer")
        if heard.happened == "no":
            record_settled(self._run, call, happened=False, by="its late answer")
            return heard
        return None

    # ── the declared verifier ──

    async def _by_verifier(
        self, step: StepState, call: CallState, tool: ToolSpec, verifier: Verifier,
        parameters: JsonObject, place: Place, urgency: float,
    ) -> Settled:  # fmt: skip
        run = self._run
        if not self._is_of(call, tool, parameters):
            parameters = call.parameters  # as they may be seen
            if not self._is_of(call, tool, parameters):
                return Unsettled("the parameters that the call was made with cannot be had again")
        due = due_at(run, step, call, tool)
        by = f"the verifier of {tool.id!r}"
        others = Others(run, call, tool, verifier)
        keys = run.state.like_in_doubt(call.key) or [call.key]  # else what it may be was made with these
        wait, failed = FIRST_WAIT_SECS, 0
        while True:
            none = True  # so far, of all that it may be
            broken: Fault | None = None
            for wanted in keys:
                try:
                    found, keyed = await self._found(
                        step, call, tool, verifier, parameters, place, urgency, wanted
                    )
                except verify.CannotTell as error:
                    return Unsettled(f"{by} cannot tell: {error}")
                now = run.now()
                if isinstance(found, Fault):
                    none, broken = False, found
                    continue
                if found and not keyed and len(keys) > 1:
                    return Unsettled(f"{by} cannot tell which of several like calls of other tasks it finds")
                async with self._claiming:
                    try:
                        left = others.unclaimed(found, keyed=keyed)
                    except verify.CannotTell as error:
                        return Unsettled(f"{by} cannot tell: {error}")
                    sure = keyed or len(left) > others.under_way()
                    if left and sure:
                        given = await packed(left[0].output, run.state.policy.max_output_bytes)
                        return await self._happened(call, tool, given, by, left[0].record, of_call=wanted)
                if found and not left and not all(one.listed for one in found):
                    return Unsettled(f"{by} cannot tell: what it finds has settled another call already")
                none = none and not left and now >= due
            if none:
                return self._did_not_happen(call, by)
            now = run.now()
            failed = failed + 1 if broken is not None else 0
            if broken is not None and failed >= MOST_FAILED_LOOKS and now >= due:
                return Unsettled(f"{by} could not look: {broken.message}")
            with run.pausing():
                await run.parts.clock.sleep(min(wait, due - now) if now < due else wait)
            wait = min(2 * wait, LONGEST_WAIT_SECS)

    def _is_of(self, call: CallState, tool: ToolSpec, parameters: JsonObject) -> bool:
        """True if the call was made with these parameters."""
        state = self._run.state
        base, names = base_of(call.key), state.bases(tool, parameters)
        return base in names or base == state.known_base(names, tool, parameters)

    async def _found(
        self, step: StepState, call: CallState, tool: ToolSpec, verifier: Verifier,
        parameters: JsonObject, place: Place, urgency: float, wanted: CallKey,
    ) -> tuple[list[verify.Found] | Fault, bool]:  # fmt: skip
        """What there is of a call of this key, and whether it was found by that."""
        found = await self._look(step, call, tool, verifier, parameters, place, urgency, wanted)
        if isinstance(found, Fault) or not found or not verify.by_key(verifier):
            return found, False
        known = await self._knows_the_key(step, call, tool, verifier, parameters, place, urgency, found)
        if isinstance(known, Fault):
            return known, False
        return [one.of_call(wanted) for one in found] if known else found, known

    async def _look(
        self, step: StepState, call: CallState, tool: ToolSpec, verifier: Verifier,
        parameters: JsonObject, place: Place, urgency: float, wanted: CallKey,
    ) -> list[verify.Found] | Fault:  # fmt: skip
        """One look at the world, for what was made with this key."""
        value = verify.call_value(wanted, tool, parameters)
        asked = verify.reading_parameters(verifier, value)
        reader = self._reader(tool, verifier)
        if reader is None:
            text = f"{verifier.tool!r} is not here, or may not be read with"
            return Fault(category="external_error", kind="unavailable", message=text)
        about = self._run.state.reading_base(reader, asked, wanted)
        key = f"{about}.v{self._run.state.tool_calls + 1}"
        reading = Call(step.step, call.slot.reading(), reader, asked, key, about=wanted)
        outcome = await self._make(reading, place, urgency)
        if isinstance(outcome, Fault):
            if outcome.kind == "output" and not verifier.happened:  # it would say the same again
                raise verify.CannotTell(outcome.message)
            return outcome
        return verify.records(verifier, value, reading.answer)

    async def _knows_the_key(
        self, step: StepState, call: CallState, tool: ToolSpec, verifier: Verifier,
        parameters: JsonObject, place: Place, urgency: float, found: list[verify.Found],
    ) -> bool | Fault:  # fmt: skip
        """Whether what was found was found by the call's key: it has it, or nothing is found by a key that no call has.

        A reading may be handed a key and not look at it: then it finds what others have left.
        """
        if all(one.has_key for one in found):
            return True
        nobodys = call_key(base_of(call.key), 0)
        try:
            shown = await self._look(step, call, tool, verifier, parameters, place, urgency, nobodys)
        except verify.CannotTell:
            return True
        if isinstance(shown, Fault):
            reader = self._reader(tool, verifier)
            return shown if reader is None or may_retry(shown, reader) else True
        return not shown

    def _reader(self, tool: ToolSpec, verifier: Verifier) -> ToolSpec | None:
        """What looks; None: it is not here now, or may not be read with."""
        if not verifier.happened:
            return ToolSpec(
                id=tool.id + VERIFY, effect="reads", source=tool.source, in_process=True,
                timeout_secs=tool.timeout_secs, secrets=tool.secrets,
            )  # fmt: skip
        reader = self._run.parts.tools.resolve(verifier.tool)
        if reader is None or not reader.may_verify:
            return None
        hidden = verify.secret_names(verifier, tool)
        return reader.model_copy(update={"secrets": (*reader.secrets, *hidden)}) if hidden else reader

    def _did_not_happen(self, call: CallState, by: str) -> Settled:
        """It may be made again, but not for ever: what fails so often is down."""
        record_settled(self._run, call, happened=False, by=by)
        if self._run.state.undone.get(call.key, 0) <= MOST_SETTLED:
            return Again()
        fault = call.fault or Fault(category="external_error", kind="crashed", message="it was cut off")
        if call.key in self._run.state.tries_elsewhere:
            text = f"{by} shows that the call, which tasks of this family have begun, did not happen, each of {MOST_SETTLED + 1} times"
            return fault.model_copy(update={"happened": "no", "message": text})
        text = f"{fault.message} ({by} shows that it did not happen, each of {MOST_SETTLED + 1} times)"
        return fault.model_copy(update={"happened": "no", "message": text})

    # ── what is known then ──

    async def _happened(
        self, call: CallState, tool: ToolSpec, given: Packed, by: str, record: str = "", of_call: CallKey = ""
    ) -> JsonObject:
        """Record that it has happened, and what it gave: without its secrets, as any output."""
        seen = await sealed(given, self._run, tool, self._run.state.policy.max_output_bytes)
        record_settled(self._run, call, happened=True, given=seen, by=by, record=record, of_call=of_call)
        return added_metadata(tool, seen.value)


def due_at(run: Run, step: StepState, call: CallState, tool: ToolSpec) -> float:
    """When a "no" counts: so long after the doubt arose that what was under way has come to its end."""
    after = tool.verify.after_secs if tool.verify is not None else None
    if after is None:
        after = step.step.timeout_secs or tool.timeout_secs or verify.DEFAULT_AFTER_SECS
    return (call.ended if call.ended is not None else run.now()) + after
