"""The waits of one pass over a plan: looked at when they are due. In between nothing of them runs or is held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from replan.beside import beside
from replan.core.data import schemas
from replan.core.data.pieces import AT_ONCE, weight
from replan.core.events import CallbackReceived, CallCompleted, CallFailed, QuestionAnswered, StepStarted
from replan.core.references.conditions import holds
from replan.core.references.paths import PathError, check_path
from replan.core.secrets import reveal_known, without_masks
from replan.core.state.task import StepState
from replan.core.types import Fault, JsonObject, StepId
from replan.core.waits.moments import told
from replan.core.waits.state import Wait, next_reading, was_set_back
from replan.errors import StoreError
from replan.run.calls.attempts import Attempts
from replan.run.calls.build import Call
from replan.run.calls.outcomes import internal_fault
from replan.run.calls.sealing import masked_in
from replan.run.calls.slots import Host, Place, Places, PlacesClosed
from replan.run.session.context import Run
from replan.run.session.outputs import pack
from replan.run.session.stops import BudgetReached
from replan.run.waits.asking import answer_to, ask
from replan.run.waits.beginning import begun

HOLD_SECS = 1.0
"""What is due sooner is waited for here: to let go of the task and to take it again costs more."""
LAST_READING_SECS = 10.0
"""So long a reading may take beyond the end of its wait, counted from its own start."""
MOST_FAILURES = 3
"""Readings in a row that fail other than in passing: then the wait has failed. What is waited for may not be there yet."""


_SOMEBODY = {"callback": "nobody has used the callback", "question": "nobody has answered"}
"""Waits for what somebody says, and what is so where nobody has."""


class Pending(NamedTuple):
    """What the task waits for."""

    until: float | None
    """When the first of it is due."""
    callbacks: tuple[str, ...]
    questions: tuple[str, ...]
    reason: str


class _Parked(NamedTuple):
    step: StepState
    call: Call


class Waits:
    """The waits of one pass. `due` is told of each step that can go on."""

    def __init__(
        self,
        run: Run,
        attempts: Attempts,
        places: Places,
        urgency: Mapping[StepId, float],
        host: Host,
        due: Callable[[StepId], None],
    ) -> None:
        self._run = run
        self._attempts = attempts
        self._places = places
        self._urgency = urgency
        self._host = host
        self._due = due
        self._parked: dict[str, _Parked] = {}
        """By the key of the call."""
        self._keys: dict[StepId, list[str]] = {}
        """Those of each step."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._reading: set[str] = set()
        """Those that are being read, or whose end by time is on its way."""
        self._why: dict[str, str] = {}
        """Why a condition could not be computed when it was looked at last."""

    def park(self, step: StepState, calls: Sequence[Call]) -> None:
        """Begin the waits that have not begun, and look at all of them. Raises as `Attempts.begin` does."""
        for call in calls:
            if not self._has_begun(step, call):
                first = [] if step.status == "running" else [StepStarted(step_id=step.step.step_id)]
                self._attempts.begin(call, *first)
                self._begin(call)
            elif self._counts_anew(call):
                self._begin(call)
            self._parked[call.key] = _Parked(step, call)
        self._keys[step.step.step_id] = [call.key for call in calls]
        for call in calls:
            self._look_at(call.key)

    def _begin(self, call: Call) -> None:
        run = self._run
        try:
            question = ask(run, call) if call.tool.waits == "question" else ""
            if question or call.tool.waits != "question":
                run.record(begun(call, run.state, run.now(), question))
        except ValueError as error:
            wrong = Fault(category="parameter_error", kind="parameter", message=f"{call.tool.id}: {error}")
            run.record(CallFailed(**call.labels(), error=wrong, retry_in_secs=None))

    def forget(self, step_id: StepId) -> None:
        """The step is looked at again for another reason."""
        for key in self._keys.pop(step_id, ()):
            self._parked.pop(key, None)
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()

    def close(self) -> None:
        """Look at nothing any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._parked.clear()
        self._keys.clear()

    def look(self) -> None:
        """Somebody has spoken."""
        for key, one in list(self._parked.items()):
            if one.call.tool.waits in _SOMEBODY:
                self._look_at(key)

    def soon(self) -> bool:
        """True if something is due before the task could be let go of."""
        until = asyncio.get_running_loop().time() + HOLD_SECS
        return any(timer.when() <= until for timer in self._timers.values())

    def pending(self) -> Pending | None:
        """What is still waited for; None if nothing is."""
        if not self._parked:
            return None
        state = self._run.state
        waits = {key: wait for key in self._parked if (wait := state.waits.get(key)) is not None}
        dues = [(when, key) for key, wait in waits.items() if (when := self._when(key, wait)) is not None]
        until = min(dues)[0] if dues else None
        tokens = self._tokens(waits, "callback")
        questions = self._tokens(waits, "question")
        for_whom = [
            *(["somebody outside uses a callback"] if tokens else []),
            *(["a person has answered"] if questions else []),
        ]
        return Pending(until, tokens, questions, self._words(dues, " and ".join(for_whom)))

    def _tokens(self, waits: Mapping[str, Wait], kind: str) -> tuple[str, ...]:
        found = (wait.token for key, wait in waits.items() if self._parked[key].call.tool.waits == kind)
        return tuple(dict.fromkeys(filter(None, found)))

    def _words(self, dues: list[tuple[float, str]], for_whom: str) -> str:
        names = list(dict.fromkeys(one.step.step.step_id for one in self._parked.values()))
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        by_time = f"{'' if for_whom else 'until '}{told(min(dues)[0])}" if dues else ""
        if for_whom:
            return f"step {shown}: until {for_whom}" + (f", or it is {by_time}" if by_time else "")
        return f"step {shown}: {by_time}"

    # ── one wait ──

    def _has_begun(self, step: StepState, call: Call) -> bool:
        known = step.calls.get(call.slot)
        return known is not None and known.key == call.key and call.key in self._run.state.waits

    def _counts_anew(self, call: Call) -> bool:
        """True if it has begun in the future: the clock was set back, and it would last longer than it was to."""
        known = self._run.state.latest_try(call.key)
        wait = self._run.state.waits[call.key]
        running = known is not None and known.status == "running"
        return running and was_set_back(wait.since, self._run.now())

    def _when(self, key: str, wait: Wait) -> float | None:
        """When it is to be looked at next; None: when somebody has spoken."""
        call = self._parked[key].call
        return next_reading(wait, call.parameters) if call.tool.waits == "condition" else wait.until

    def _look_at(self, key: str) -> None:
        parked = self._parked.get(key)
        if parked is None or self._places.closed:
            return
        state = self._run.state
        step, call = parked
        known = step.calls.get(call.slot)
        if known is None or known.status != "running" or known.key != key:
            self._is_over(step, key)
            return
        wait = state.waits[key]
        if (said := self._said(call, wait)) is not None:
            self._complete(step, call, said.data if isinstance(said, CallbackReceived) else said.output)
            return
        when = self._when(key, wait)
        if when is None or key in self._reading:
            return
        if when > self._run.now():
            self._later(key, when)
        elif call.tool.waits == "time":
            self._complete(step, call, {"until": told(when)})
        else:
            self._reading.add(key)
            place = Place(self._places)
            if call.tool.waits in _SOMEBODY:
                work = self._runs_out(step, call, _over(wait, _SOMEBODY[call.tool.waits]))
            else:
                work = self._read(step, call, wait, place)
            self._host.spawn(step, work, place)

    def _later(self, key: str, when: float) -> None:
        if (before := self._timers.pop(key, None)) is not None:
            before.cancel()

        def look() -> None:
            self._timers.pop(key, None)
            try:
                self._look_at(key)
            except (StoreError, BudgetReached) as error:
                self._host.stop(error)
            self._host.look_idle()

        wait = max(0.0, when - self._run.now())
        self._timers[key] = asyncio.get_running_loop().call_later(wait, look)

    def _complete(self, step: StepState, call: Call, value: Any) -> None:
        run, limit = self._run, self._run.state.policy.max_output_bytes
        if run.state.hides:
            value = without_masks(reveal_known(value))
        packed = pack(value, limit)
        if run.secrets.any:
            packed = masked_in(run.secrets, packed, limit)
        if packed.masked and packed.artifact is not None:
            run.kept[packed.artifact.artifact_id] = packed.value
        run.record(
            CallCompleted(
                **call.labels(), output=None if packed.artifact else packed.value, artifact=packed.artifact,
                duration_secs=self._lasted(call), masked=packed.masked,
            ),
            artifacts=packed.new,
        )  # fmt: skip
        self._is_over(step, call.key)

    def _fail(self, step: StepState, call: Call, fault: Fault) -> None:
        self._run.record(CallFailed(**call.labels(), error=fault, retry_in_secs=None))
        self._is_over(step, call.key)

    async def _runs_out(self, step: StepState, call: Call, fault: Fault) -> None:
        """Fail by time alone, if the log has nothing that was not heard: what was said before the end of the wait counts, however late
        it is noticed."""
        self._reading.add(call.key)
        try:
            ended = False
            while not ended and self._is_open(step, call):
                ended = await self._run.decided(CallFailed(**call.labels(), error=fault, retry_in_secs=None))
        finally:
            self._reading.discard(call.key)
        self._look_at(call.key)

    def _is_open(self, step: StepState, call: Call) -> bool:
        """True if nobody has said or done anything by which the wait is over, or is to stand still."""
        known, wait = step.calls.get(call.slot), self._run.state.waits[call.key]
        running = known is not None and known.status == "running" and known.key == call.key
        stopping = self._places.closed or self._run.stopping
        return running and not stopping and self._said(call, wait) is None

    def _said(self, call: Call, wait: Wait) -> CallbackReceived | QuestionAnswered | None:
        """What somebody has said to it."""
        state = self._run.state
        return answer_to(state, wait) if call.tool.waits == "question" else state.callbacks.get(wait.token)

    def _lasted(self, call: Call) -> float:
        return round(max(0.0, self._run.now() - self._run.state.waits[call.key].since), 6)

    def _is_over(self, step: StepState, key: str) -> None:
        if key in self._parked:  # else the step is being looked at just now, and will see it
            self.forget(step.step.step_id)
            self._due(step.step.step_id)

    # ── readings ──

    async def _read(self, step: StepState, call: Call, wait: Wait, place: Place) -> None:
        """Look once whether the condition holds."""
        try:
            outcome = await self._outcome(call, wait, place)
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._host.stop(stop)
            return
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours is this call's alone
            outcome = internal_fault(error)
        finally:
            self._reading.discard(call.key)
        known = step.calls.get(call.slot)
        if known is None or known.status != "running" or known.key != call.key:
            return  # the plan does without it by now
        if outcome is True:
            self._met(step, call)
        elif isinstance(outcome, Fault):
            self._fail(step, call, outcome)
        elif wait.until is not None and self._run.now() >= wait.until:
            why = wait.error or self._why.get(call.key, "")
            over = _over(wait, f"the condition did not hold in {wait.readings} readings", why)
            await self._runs_out(step, call, over)
        else:
            self._look_at(call.key)

    def _met(self, step: StepState, call: Call) -> None:
        latest = self._run.state.waits[call.key].latest
        assert latest is not None
        self._run.record(
            CallCompleted(
                **call.labels(), output=latest.value, artifact=latest.artifact, masked=latest.masked,
                files=latest.files, duration_secs=self._lasted(call),
            )
        )  # fmt: skip
        self._is_over(step, call.key)

    async def _outcome(self, call: Call, wait: Wait, place: Place) -> bool | Fault:
        """Whether the condition holds; a fault ends the wait."""
        found = self._reader(call)
        if isinstance(found, Fault):
            return found
        outcome = await self._attempts.make(found, place, self._urgency[call.step.step_id])
        if isinstance(outcome, Fault):
            passing = outcome.transient or wait.failures < MOST_FAILURES
            return False if passing else outcome
        condition, scope = str(call.parameters["condition"]), {"output": found.answer}
        if problem := check_path(condition):  # what was filled in, or put in its place
            return Fault(category="parameter_error", kind="parameter", message=f"condition: {problem}")
        try:
            if weight(found.answer, AT_ONCE) > AT_ONCE:
                met = await beside(holds, condition, scope)
            else:
                met = holds(condition, scope)
        except PathError as error:
            self._why[call.key] = f"it could not be computed: {error}"
            return False
        self._why.pop(call.key, None)
        return met

    def _reader(self, call: Call) -> Call | Fault:
        """The reading that is due."""
        name, given = str(call.parameters.get("tool")), call.parameters.get("parameters")
        parameters: JsonObject = given if isinstance(given, dict) else {}
        tool = self._run.parts.tools.resolve(name)
        if tool is None:
            near = ", ".join(self._run.parts.tools.nearest(name)) or "none"
            text = f"the tool {name!r} does not exist here; there are: {near}"
            return Fault(category="tool_error", kind="unknown_tool", message=text)
        if not tool.may_verify or tool.waits:
            text = f"{tool.id!r} is not called again and again: only a tool that reads, and needs no yes, is"
            return Fault(category="tool_error", kind="parameter", message=text)
        if wrong := schemas.parameter_problems(tool, parameters):
            text = f"the parameters do not fit tool {tool.id!r}: " + "; ".join(wrong[:10])
            return Fault(category="parameter_error", kind="parameter", message=self._run.secrets.hide(text))
        wait = self._run.state.waits[call.key]
        found = Call(
            call.step,
            call.slot.polling(),
            tool,
            parameters,
            f"{call.key}.r{wait.readings + 1}",
            about=call.key,
        )
        if wait.until is not None:
            left = max(LAST_READING_SECS, wait.until - self._run.now())
            found.until = asyncio.get_running_loop().time() + left
        return found


def _over(wait: Wait, what: str, why: str = "") -> Fault:
    secs = (wait.until or wait.since) - wait.since
    text = f"{what} within {secs:,.0f} s" + (f"; {why}" if why else "")
    return Fault(category="external_error", kind="limit", message=text)
