"""The limits of one tool: calls side by side, and calls in a time."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from itertools import count

from replan.core.tool_rules import Rate


class Gate:
    """`ports.Gate`: at most `concurrency` calls at once, and `rate` in any stretch of its time, in this process.

    Who waits is let in by urgency, then by order. Times are those of the event loop.
    """

    def __init__(self, concurrency: int | None = None, rate: Rate | None = None) -> None:
        self._concurrency = concurrency
        self._rate = rate
        self._inside = 0
        self._begun: deque[float] = deque()
        """When the latest calls began, as many as the rate looks at."""
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None

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
                self.leave()  # let in and called off in the same moment; the rate has counted it
            raise

    def leave(self) -> None:
        """The call has ended."""
        self._inside -= 1
        self._serve()

    def _anybody_waits(self) -> bool:
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        return bool(self._waiting)

    def _wait(self) -> float | None:
        """Seconds until the rate lets one in; None if one may enter now. Infinite where a call has to end first."""
        if self._concurrency is not None and self._inside >= self._concurrency:
            return float("inf")
        if self._rate is None or len(self._begun) < self._rate.calls:
            return None
        left = self._begun[0] + self._rate.secs - asyncio.get_running_loop().time()
        return left if left > 0 else None

    def _let_in(self) -> None:
        self._inside += 1
        if self._rate is not None:
            self._begun.append(asyncio.get_running_loop().time())
            if len(self._begun) > self._rate.calls:
                self._begun.popleft()

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
