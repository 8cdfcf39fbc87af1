"""How long a call may take, and when it is tried again."""

from __future__ import annotations

import asyncio
import random

from replan.core.failures.faults import may_retry
from replan.core.types import Fault
from replan.run.calls.attempts.beginning import Beginning
from replan.run.calls.build import Call

BASE_DELAY = 0.2
MAX_DELAY = 30.0
WORTH = 0.2
"""The part of a step's time that has to be left for another try: one that is cut off tells less than the last error."""


class Retries(Beginning):
    """How long a call may take, and when it is tried again."""

    __slots__ = ()

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

    def _most_retries(self, call: Call) -> int:
        own = call.tool.max_retries
        return self._policy.max_transient_retries if own is None else own

    def _retry_in(self, call: Call, fault: Fault) -> float | None:
        """Seconds until the next try; None if there is none. A random part is taken off: half of the wait is left at least."""
        if not may_retry(fault, call.tool) or call.retries >= self._most_retries(call):
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
