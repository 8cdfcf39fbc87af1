"""Answers of calls that were given up."""

from __future__ import annotations

import asyncio
from typing import Any

from replan.core.failures.carried import carried
from replan.core.failures.faults import classify
from replan.core.types import Fault, ToolSpec
from replan.run.calls.attempts.asking import Asking
from replan.run.calls.build import Call
from replan.run.calls.slots import Place
from replan.run.session.outputs import Packed, packed

_TURNS = 5


class Late(Asking):
    """Answers of calls that were given up."""

    __slots__ = ()

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
