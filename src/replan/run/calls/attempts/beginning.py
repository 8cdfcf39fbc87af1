"""A call let in, charged, and its start recorded."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from replan.core.events import AnyEvent, CallStarted
from replan.core.limits.budget import limit_reached
from replan.core.plain_calls import PlainStart
from replan.core.state.task import State
from replan.core.types import StepId, ToolSpec, unchecked
from replan.run.calls.build import Call
from replan.run.calls.by_model import Asked
from replan.run.calls.shown import shown
from replan.run.calls.slots import Places, PlacesClosed
from replan.run.session.context import Batch, Run
from replan.run.session.stops import BudgetReached, warn

_call_started = unchecked(CallStarted)
_NOBODY: frozenset[asyncio.Task[Any] | None] = frozenset()
"""One for all: thousands of tasks wait."""


class Beginning:
    """The parts of one run that its calls need, and who is let in."""

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
        "asked",
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
        self.asked: Asked = {}
        """What models are being asked by calls of this pass."""
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
        if has_to_land(call, self._run.state):
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


def has_to_land(call: Call, state: State) -> bool:
    """True if what is recorded has to be on disk before the call is made: else it cannot be told what a process died of."""
    return call.tool.effect != "reads" or bool(call.step.dependencies) or state.fruitless > 0
