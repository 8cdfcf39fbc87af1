"""The limits of one tool: calls side by side, and calls in a time."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from itertools import count

from replan.core.tools.rules import Rate, ToolRule, read_rate


class Gate:
    """`ports.Gate`: at most `concurrency` calls at once, and `rate` in any stretch of its time, in this process.

    Who waits is let in by urgency, then by order. Times are those of the event loop. The rate counts calls when they
    are made, not when they are let in, for a call may have to wait for other things in between.
    """

    def __init__(self, concurrency: int | None = None, rate: Rate | None = None) -> None:
        self._concurrency = concurrency
        self._rate = rate
        self.inside = 0
        """How many calls have a right."""
        self.unused = 0
        """How many of those inside have not begun their call."""
        self._begun: deque[float] = deque()
        """When the calls began that the rate still looks at."""
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of(cls, rule: ToolRule | None) -> Gate | None:
        """The limits that a rule sets; None where it sets none."""
        if rule is None or (rule.max_concurrent is None and rule.rate is None):
            return None
        return cls(rule.max_concurrent, None if rule.rate is None else read_rate(rule.rate))

    def try_enter(self) -> bool:
        """Take a call's right to be made, if there is one now and nobody waits for it."""
        if self._anybody_waits() or self._wait() is not None:
            return False
        self._let_in()
        return True

    async def enter(self, urgency: float = 0.0) -> None:
        """Wait for the right; a cancelled wait takes none."""
        if self.try_enter():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-urgency, next(self._order), turn))
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()  # let in and called off in the same moment
            raise

    def opens_in_time(self) -> bool:
        wait = self._wait()
        return wait is None or wait != float("inf")

    def begin(self) -> None:
        """The call is made now."""
        self.unused -= 1
        if self._rate is not None:
            self._begun.append(asyncio.get_running_loop().time())
            self._serve()

    def leave(self) -> None:
        """The call has ended."""
        self.inside -= 1
        self._serve()

    def give_back(self) -> None:
        """The call is not made after all."""
        self.unused -= 1
        self.leave()

    def _anybody_waits(self) -> bool:
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        return bool(self._waiting)

    def _wait(self) -> float | None:
        """Seconds until the rate lets one in; None if one may enter now. Infinite where a call has to move first."""
        if self._concurrency is not None and self.inside >= self._concurrency:
            return float("inf")
        if self._rate is None:
            return None
        now = asyncio.get_running_loop().time()
        while self._begun and self._begun[0] + self._rate.secs <= now:
            self._begun.popleft()
        too_many = len(self._begun) + self.unused - self._rate.calls
        if too_many < 0:
            return None
        if too_many >= len(self._begun):
            return float("inf")
        return self._begun[too_many] + self._rate.secs - now

    def _let_in(self) -> None:
        self.inside += 1
        self.unused += 1

    def _serve(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._anybody_waits():
            wait = self._wait()
            if wait is not None:
                if wait != float("inf"):
                    self._timer = asyncio.get_running_loop().call_later(wait, self._serve)
                return
            turn = heapq.heappop(self._waiting)[2]
            self._let_in()
            turn.set_result(None)
