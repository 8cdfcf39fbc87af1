"""One call, tried until it has an outcome: made, retried after a passing fault, recorded.

Before a call with an effect is made, its start is on disk; before any call, so are the results that it
depends on. Whether a fault may be retried is decided by its kind and the tool's effect (`core.failures.faults`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

from replan.beside import beside
from replan.core.data.strict_json import storable
from replan.core.events import AnyEvent, CallCompleted, CallFailed, CallStarted, OutcomeUnknown, StepProgress
from replan.core.failures.carried import carried
from replan.core.failures.faults import classify, in_doubt, may_retry
from replan.core.limits.budget import limit_reached
from replan.core.plain_calls import PlainEnd, PlainStart
from replan.core.secrets import holds_lost, reveal_known
from replan.core.state.task import Output, State
from replan.core.types import VERIFY, Fault, JsonObject, StepId, ToolSpec, unchecked
from replan.errors import StoreError, ToolCallError
from replan.ports import Progress, ToolCall
from replan.run.calls.build import Call, has_had, own_copy
from replan.run.calls.in_time import failed, take_back_cancels, within
from replan.run.calls.sealing import keep, may_be_sealed, sealed
from replan.run.calls.shown import shown
from replan.run.calls.slots import Place, Places, PlacesClosed
from replan.run.family import relatives
from replan.run.session.context import Batch, Run
from replan.run.session.outputs import Packed, Sealed, added_metadata, pack_small, packed, with_files_read
from replan.run.session.stops import BudgetReached, warn

BASE_DELAY = 0.2
MAX_DELAY = 30.0
MOST_CHARS = 20_000
"""Characters of an error's message that are kept: it stands in several events."""
TELL_SECS = 0.1
"""So much before its time is up a source that keeps the time itself may tell what has become of the call."""
WORTH = 0.2
"""The part of a step's time that has to be left for another try: one that is cut off tells less than the last error."""
_TURNS = 5


_call_started, _call_completed = unchecked(CallStarted), unchecked(CallCompleted)


_NOBODY: frozenset[asyncio.Task[Any] | None] = frozenset()
"""One for all: thousands of tasks wait."""


class MeantOnceMore(Exception):
    """Another task of the family has made the call, and the plan means it beyond that: it is to be prepared anew."""


class Attempts:
    """Makes calls for one run."""

    __slots__ = (
        "_cancels",
        "_deadline",
        "_driver",
        "_jitter",
        "_open",
        "_places",
        "_policy",
        "_run",
        "_waits",
        "abandoned",
        "landing",
    )

    def __init__(self, run: Run, places: Places, deadline: float | None) -> None:
        self._run = run
        self._places = places
        self._deadline = deadline
        self._policy = run.state.policy
        self._jitter: random.Random | None = None
        self._open: ToolSpec | None = None
        """The tool that was found last to say nothing secret."""
        self._driver = asyncio.current_task()
        self._cancels = self._driver.cancelling() if self._driver is not None else 0
        self.abandoned = False
        """What runs is being cancelled: what it raises says nothing about its call."""
        self.landing = _NOBODY
        """Those whose call has given its output, which is being written down: that is seen through, whoever stops the run."""
        self._waits: dict[asyncio.Timeout, StepId] = {}
        """Who waits to be admitted: each can be called off."""

    def allow(self) -> None:
        """Raise what forbids one more call now, if anything does: `PlacesClosed` or `BudgetReached`."""
        if self._run.stopping:
            raise PlacesClosed
        budget = self._policy.budget
        if budget.max_tool_calls is None:
            return
        if limit := limit_reached(budget, self._run.state.usage, what="tool"):
            raise BudgetReached(limit)

    def begin(self, call: Call, *first: AnyEvent) -> Batch:
        """Charge and record the start of an attempt, after what comes `first`; raises as `allow` does."""
        self.allow()
        parameters = call.parameters
        if not call.short:
            parameters = shown(call.tool, parameters, self._policy.max_output_bytes, self._run.secrets)
        tool = call.tool
        started = _call_started(
            **call.labels(), effect=tool.effect, parameters=parameters, keys_in=tool.keys_in
        )
        begun = self._run.record(*first, started)
        if self._policy.budget.max_tool_calls is not None:
            warn(self._run)
        return begun

    def begin_plain(self, call: Call) -> Batch:
        """The same with the start of the step, of a plain call."""
        if self._run.stopping or self._policy.budget.max_tool_calls is not None:
            self.allow()
        parameters = call.parameters
        if not call.short:
            parameters = shown(call.tool, parameters, self._policy.max_output_bytes, self._run.secrets)
        start = tuple.__new__(
            PlainStart, (call.step.step_id, call.key, call.tool.id, call.tool.effect, parameters)
        )
        begun = self._run.record(start, soon=False)
        if _has_to_land(call, self._run.state):
            begun.awaited = True  # `finish` sends it off
        else:
            self._run.send_soon(begun)
        if self._policy.budget.max_tool_calls is not None:
            warn(self._run)
        return begun

    def may_begin(self, call: Call) -> bool:
        """True if the tool's own limits let the call be made now: it has the right then."""
        gate = self._run.parts.tools.gate(call.tool.id)
        if gate is not None:
            if not gate.try_enter():
                return False
            call.granted(gate)
        return True

    async def admitted(self, call: Call, urgency: float) -> None:
        """Wait until the tool's own limits let the call be made; no place should be held meanwhile.

        Raises as `allow` does; `PlacesClosed` also where it is called off, since nothing more may be started.
        """
        gate = self._run.parts.tools.gate(call.tool.id)
        if gate is None:
            return
        self.allow()
        if self._places.closed:
            raise PlacesClosed
        try:
            async with asyncio.timeout(None) as wait:
                self._waits[wait] = call.step.step_id
                try:
                    with self._run.pausing(gate.opens_in_time):
                        await gate.enter(urgency)
                finally:
                    self._waits.pop(wait, None)
        except TimeoutError:
            raise PlacesClosed from None
        call.granted(gate)

    def call_off(self, *, unstarted: bool = False) -> None:
        """Let nobody wait to be admitted any more: a limit may last for hours. `unstarted`: only new steps."""
        for wait, step_id in list(self._waits.items()):
            if not unstarted or self._run.state.steps[step_id].status != "running":
                del self._waits[wait]  # it may be done once only
                wait.reschedule(0.0)

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
                has_to_land = _has_to_land(call, run.state)
                if has_to_land and not run.has_landed(batch):
                    await run.durable(batch)
                elsewhere = None
                if call.tool.effect == "once" and (run.unheard or _is_to_look(run.state)):
                    elsewhere = await self._elsewhere(call)
                if elsewhere is None and run.state.kin and call.tool.effect != "reads" and not call.doubt:
                    elsewhere = await self._after_nothing(call)
                if has_to_land and elsewhere is None:
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

    def _another(self, call: Call) -> Fault | None:
        """Why a begun call is not made, where another one with its effect was begun before it, while it waited to be let in."""
        step = self._run.state.steps.get(call.step.step_id)
        fault = has_had(call, step, self._run.state) if step is not None else None
        if fault is not None:
            call.plain = False
            self._run.record(CallFailed(**call.labels(), error=fault))
        return fault

    async def _with_files(self, call: Call, given: JsonObject | None) -> JsonObject | None:
        """The parameters with files read that go to a tool which takes none; `given` where there are no such."""
        run = self._run
        parameters = call.parameters if given is None else given
        read = await with_files_read(run, run.task_id, call.tool, parameters, run.state.files)
        return given if read is parameters else read

    async def _packed(self, answer: Any) -> Packed:
        """An answer that takes some thought; whoever stops the run lets it come to its end."""
        self.landing |= {asyncio.current_task()}
        return await packed(answer, self._policy.max_output_bytes)

    async def _elsewhere(self, call: Call) -> JsonObject | Fault | None:
        """What a call has come to in another task that shares its history; None: it is made here, or by nobody else."""
        run = self._run
        if (
            seen := run.unheard
        ) and run.hear is not None:  # of a fork, it may be, or that the task is to stop
            await run.hear()
            if run.unheard == seen:
                run.unheard = 0
        if run.state.pause is not None or run.state.cancel is not None:
            raise asyncio.CancelledError
        if not run.state.kin:
            return None
        found = await relatives.theirs(run, call.key)
        if found is None:
            return None
        call.plain = False
        if found.became != "done":
            reason = f"{found.named} has made this very call, and nobody knows whether it took effect"
            fault = Fault(category="external_error", kind="crashed", message=reason, happened="unknown")
            run.record(CallFailed(**call.labels(), error=fault))
            run.record(OutcomeUnknown(**call.labels(), reason=reason, of_try=found.of_try))
            return fault
        if refusal := await relatives.refusal(run, call.step.step_id, call.slot, call.key, found):
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
            ),
            artifacts=stored,
        )  # fmt: skip
        return added_metadata(call.tool, value)

    async def _after_nothing(self, call: Call) -> Fault | None:
        """Why a begun call is not made, where what its step comes after was taken back by another task."""
        text = await relatives.why_not_after(self._run, call.step.step_id)
        if not text:
            return None
        call.plain = False
        fault = Fault(category="dependency_error", kind="undone", message=text, happened="no")
        self._run.record(CallFailed(**call.labels(), error=fault))
        return fault

    def _says_nothing_secret(self, tool: ToolSpec) -> bool:
        """True if no output of the tool holds a secret: `may_be_sealed`, asked once for each tool."""
        if self._run.secrets.any:
            return False
        if self._open is not tool:
            if may_be_sealed(self._run, tool):
                return False
            self._open = tool
        return True

    def _completed(self, call: Call, packed: Packed, started: float) -> JsonObject | PlainEnd:
        secs, parts = time.perf_counter() - started, self._run.parts
        parts.record.count(call.tool, secs, memory=parts.store)
        sealed = isinstance(packed, Sealed)
        if call.plain and not (packed.artifact or packed.files or sealed or call.tool.output_params):
            return tuple.__new__(PlainEnd, (call.step.step_id, call.key, call.tool.id, packed.value, secs))
        if call.about:
            call.answer = reveal_known(packed.value) if sealed else packed.value
        self._run.record(
            _call_completed(
                **call.labels(),
                output=None if packed.artifact else packed.value,
                artifact=packed.artifact,
                files=packed.files,
                duration_secs=secs,
                masked=sealed,
            ),
            artifacts=packed.new,
        )
        return added_metadata(call.tool, packed.value)

    async def _after_all(self, call: Call, fault: Fault, place: Place, urgency: float) -> Packed | Fault:
        """What became of a call that would be made again with its key, though its work goes on here: that comes first.

        A place is held on entry and on return, and none while it waits.
        """
        if call.tool.effect != "once" or self._retry_in(call, fault) is None:
            return fault
        answer = await self.late_answer(call.key)
        if answer is None:
            return fault
        async with place.away(urgency):
            await asyncio.wait({answer})
        heard = await self.heard(call.key, answer, call.tool)
        return fault if isinstance(heard, Fault) and heard.happened == "unknown" else heard

    async def late_answer(self, key: str) -> asyncio.Future[Any] | None:
        """What will have, or has, the answer of a call that was given up; None if nothing of it is left here."""
        for _ in range(_TURNS):  # whoever leaves work behind tells so within a few turns
            await asyncio.sleep(0)
        return self._run.parts.late.of((self._run.name, key))

    async def heard(self, key: str, answer: asyncio.Future[Any], tool: ToolSpec) -> Packed | Fault:
        """What a late answer says: the output, or the fault."""
        self._run.parts.late.take((self._run.name, key))
        try:
            return await packed(answer.result(), self._policy.max_output_bytes)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, it is how the call ended
            fault = classify(error, tool, now=self._run.parts.clock.now())
            stopped = any(isinstance(one, asyncio.CancelledError) for one in carried(error))
            return fault.model_copy(update={"happened": "unknown"}) if stopped else fault

    def _stopped(self) -> bool:
        """True if it is us who have cancelled what runs, or are about to, or whoever ends the event loop."""
        driver = self._driver
        return (
            self._run.stopping
            or self.abandoned
            or (driver is not None and driver.cancelling() > self._cancels)
        )

    def _take_back(self, call: Call) -> None:
        """Stopped before the call was made: it surely did not happen, and whoever drives on may make it."""
        fault = Fault(
            category="external_error", kind="cancelled", message="it was stopped before the call was made"
        )
        with contextlib.suppress(StoreError):
            self._run.record(CallFailed(**call.labels(), error=fault, retry_in_secs=0.0))

    def known(self, call: Call) -> Output | None:
        """The recorded output of this very call, if the ledger has it; None if the call has to be made."""
        entry = self._run.state.reusable(call.key, call.tool, call.step)
        if entry is None:
            return None
        if entry.output.masked and call.tool.effect != "once" and self._is_lost(entry.output):
            return None  # it may be had again, with what no log keeps
        return entry.output

    def _is_lost(self, output: Output) -> bool:
        if output.artifact is not None:
            return output.artifact.artifact_id not in self._run.kept
        return holds_lost(output.value)

    def reuse(self, call: Call, output: Output, value: Any) -> JsonObject:
        """Take the recorded output for this call. `value`: what the output holds, where metadata come from it."""
        self._run.record(
            CallCompleted(
                **call.labels(),
                output=output.value,
                artifact=output.artifact,
                files=output.files,
                reused=True,
                masked=output.masked,
            )
        )
        return added_metadata(call.tool, value)

    def _call(self, call: Call, given: JsonObject | None = None) -> Coroutine[Any, Any, Any]:
        run = self._run
        own = left = None
        if call.tool.timeout_secs is not None or call.step.timeout_secs is not None or call.until is not None:
            own, left = self._limits(call)
        elif self._deadline is not None:
            left = max(0.001, self._deadline - asyncio.get_running_loop().time())
        limit = left if own is None else own if left is None else min(own, left)
        ask = run.parts.ask
        once = call.tool.effect == "once"
        if given is None:
            given = dict(call.parameters) if call.short else own_copy(call.parameters)
        request = ToolCall(
            call.tool.id,
            given,
            call.about if call.tool.id.endswith(VERIFY) else call.key,
            run.task_id,
            call.step.step_id,
            call.attempt,
            None if limit is None else limit - min(TELL_SECS, limit / 4),
            partial(_report, run, call.step.step_id),
            None if ask is None else partial(ask, run.task_id, call.step.step_id),
            effect=call.tool.effect,
            late=partial(run.parts.late.expect, (run.name, call.key)) if once else None,
            keep=partial(keep, run),
            open=run.pieces,
            known_file=run.state.files.get,
            trace=run.state.trace,
            keys_in=_keys_in(call, run.state),
        )
        if own is None or (left is not None and left <= own):
            return run.parts.tools.call(request)  # the task's own deadline stops it
        return within(own, run.parts.tools, request)

    def _fault(self, call: Call, error: Exception) -> Fault:
        """What the error means, without the secrets that its message may quote."""
        self._run.secrets.learn(call.tool, call.parameters)
        now = self._run.parts.clock.now()
        try:
            fault = classify(error, call.tool, now=now)
        except Exception:  # noqa: BLE001 - an exception of somebody else may raise what it likes when it is looked at
            unreadable = ToolCallError(
                f"the tool raised {type(error).__name__}, which cannot be read", happened="unknown"
            )
            fault = classify(unreadable, call.tool, now=now)
        text = storable(self._run.secrets.hide(fault.message))
        if len(text) > MOST_CHARS:
            ends = MOST_CHARS // 2
            text = f"{text[:ends]} …({len(text) - 2 * ends} characters left out)… {text[-ends:]}"
        return fault if text == fault.message else fault.model_copy(update={"message": text})

    def _limits(self, call: Call) -> tuple[float | None, float | None]:
        """Seconds: what is left of the step's own time, or the tool's limit for a call; and what is left of the task's."""
        own = call.tool.timeout_secs
        now = asyncio.get_running_loop().time()
        if call.step.timeout_secs is not None and call.until is None:
            call.until = now + call.step.timeout_secs
        if call.until is not None:
            rest = max(0.001, call.until - now)
            own = rest if own is None or call.step.timeout_secs is not None else min(own, rest)
        return own, None if self._deadline is None else max(0.001, self._deadline - now)

    def _retry_in(self, call: Call, fault: Fault) -> float | None:
        """Seconds until the next try; None if there is none. A random part is taken off: half of the wait is left at least."""
        most = call.tool.max_retries
        if not may_retry(fault, call.tool) or call.retries >= (
            self._policy.max_transient_retries if most is None else most
        ):
            return None
        if fault.retry_after is not None:
            wait = fault.retry_after
        else:
            ceiling = min(MAX_DELAY, BASE_DELAY * 2**call.retries)
            if self._jitter is None:  # made when it is needed: it is large
                self._jitter = random.Random(self._run.task_id)
            wait = ceiling * (0.5 + self._jitter.random() / 2)
        return None if self._whose_time_is_up(call, wait) else wait

    def _whose_time_is_up(self, call: Call, wait: float) -> str:
        """Whose time would be over before something came of a try after so long; empty if nobody's."""
        again = asyncio.get_running_loop().time() + wait
        if self._deadline is not None and again >= self._deadline:
            return "the task"
        if call.until is not None and again + WORTH * (call.step.timeout_secs or 0.0) >= call.until:
            return "the step"
        return ""

    def _too_late(self, call: Call, fault: Fault) -> str:
        """In words: it would have been called again, but for the time that it asks for; empty if that is not why."""
        wait = fault.retry_after
        if wait is None or not may_retry(fault, call.tool):
            return ""
        whose = self._whose_time_is_up(call, wait)
        return (
            f"it asks to be called again in {wait:,.0f} s, when the time of {whose} is over" if whose else ""
        )


def _has_to_land(call: Call, state: State) -> bool:
    """True if what is recorded has to be on disk before the call is made: else it cannot be told what a process died of."""
    return call.tool.effect != "reads" or bool(call.step.dependencies) or state.fruitless > 0


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


def _report(run: Run, step_id: str, progress: Progress) -> None:
    run.tell(
        StepProgress(
            step_id=step_id, message=progress.message, progress=progress.progress, total=progress.total
        )
    )


def _keys_in(call: Call, state: State) -> str | None:
    """Where an earlier attempt of the call has relied on its key to be kept."""
    known = state.latest_try(call.key) if call.attempt > 1 else None
    return None if known is None else known.keys_in
