"""Time limits of questions, and which waits do not count in them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from replan.core.failures.asked_waits import LONGEST_FOR_ALL_SECS


class Limited:
    """One time limit. `until`: when whoever asks has no time any more, by the loop's clock; None: nobody has said."""

    def __init__(self, scope: asyncio.Timeout, until: float | None = None) -> None:
        self._scope = scope
        self._until = until
        self._excused_until = 0.0
        self._patience = LONGEST_FOR_ALL_SECS

    def move(self, secs: float) -> None:
        if not self._scope.expired() and (when := self._scope.when()) is not None:
            self._scope.reschedule(when + secs)

    def somebody_is_there(self) -> None:
        """An answer has come: what was waited for it was worth it."""
        self._patience = LONGEST_FOR_ALL_SECS

    def time_left(self) -> float | None:
        """Seconds that whoever asks still has; None: nobody has said."""
        return None if self._until is None else self._until - _now()

    def may_wait(self, secs: float) -> bool:
        """Whether so long may be waited beside the limit, since the endpoint has asked for it: there has to be time for what comes after."""
        left = self.time_left()
        return left is not None and secs < left and self._more(secs) <= self._patience

    def excuse(self, secs: float) -> None:
        """The next seconds are not counted, once, however many have heard of them."""
        if self.may_wait(secs) and (more := self._more(secs)) > 0:
            self.move(more)
            self._patience -= more
            self._excused_until = _now() + secs

    def _more(self, secs: float) -> float:
        now = _now()
        return max(0.0, now + secs - max(now, self._excused_until))


_LIMITED: ContextVar[tuple[Limited, ...]] = ContextVar("limited", default=())


@contextmanager
def limited(scope: asyncio.Timeout, until: float | None = None) -> Iterator[Limited]:
    """`with`: waits for a turn inside do not count in this time limit."""
    mine = Limited(scope, until)
    token = _LIMITED.set((*_LIMITED.get(), mine))
    try:
        yield mine
    finally:
        _LIMITED.reset(token)


def do_not_count(secs: float) -> None:
    for one in _LIMITED.get():
        one.move(secs)


def excuse(secs: float) -> None:
    """An endpoint has asked to be left alone so long."""
    for one in _LIMITED.get():
        one.excuse(secs)


class Waiting:
    """The time limits of one that waits in a queue."""

    def __init__(self) -> None:
        self._limits = _LIMITED.get()
        self._counted = _now()

    def others_go_on(self) -> None:
        """What was waited so far counts for nothing: the endpoint is there."""
        waited, self._counted = _now() - self._counted, _now()
        for one in self._limits:
            one.move(waited)
            one.somebody_is_there()

    def excuse(self, secs: float) -> None:
        for one in self._limits:
            one.excuse(secs)


def _now() -> float:
    return asyncio.get_running_loop().time()
