"""Time and ids that belong to the test."""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ManualIds:
    """Ids that count: `task_1`, `task_2`, `call_1`, …"""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def new(self, prefix: str) -> str:
        self._counts[prefix] += 1
        return f"{prefix}_{self._counts[prefix]}"


class VirtualClock:
    """Wall time that follows the event loop's own time from `start` (Unix seconds) on."""

    def __init__(self, start: float = 1_000_000_000.0) -> None:
        self._start = start
        self._zero: float | None = None

    def now(self) -> float:
        elapsed = asyncio.get_running_loop().time()
        if self._zero is None:
            self._zero = elapsed
        return self._start + elapsed - self._zero

    async def sleep(self, secs: float) -> None:
        await asyncio.sleep(secs)


class _JumpingSelector(selectors.SelectSelector):
    """A selector that does not wait for a timer: it moves the time on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = 0.0
        self.busy: Callable[[], bool] = lambda: False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self.busy():
            # Nothing is due, or a thread still owes a result: it is waited for, and what it takes is no time of the test's.
            ready = super().select(timeout)
            if ready or timeout is None:
                return ready
        self.offset += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer once nothing else is left to do.

    Sleeps and timeouts take no real time and end in the right order; computing takes no virtual time, so that a
    busy machine changes nothing. So it is with a job given to `run_in_executor` (`asyncio.to_thread`), unless it takes
    longer than the time to the next timer: then that is due. Threads and sockets that the loop does not
    know of are not waited for, so use it with parts that work in memory.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        # The real clock's resolution is lost in times over half a year: a timer that is due would never be run.
        self._clock_resolution = 1e-6
        self._zero = super().time()
        self._owed = 0
        self._jumping.busy = lambda: self._owed > 0

    def time(self) -> float:
        return self._zero + self._jumping.offset

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self._owed += 1
        future.add_done_callback(self._paid)
        return future

    def _paid(self, _future: asyncio.Future[Any]) -> None:
        self._owed -= 1


def virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own where waiting takes no time; what it returns."""
    given: list[T] = []

    async def whole() -> (
        None
    ):  # without a result of its own: a runner makes a text of that, however large it is
        given.append(await main)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(whole())
    return given[0]
