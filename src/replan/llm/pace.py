"""What a model may be asked: so much in a minute, and nothing while its provider wants to be left alone.

A provider counts per account, whichever task asks. So there is one pace for each model, address and key of this process, and all
that ask it go by that one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from weakref import WeakValueDictionary

from replan.core.failures.asked_waits import for_all

WINDOW_SECS = 60.0


@dataclass(frozen=True)
class Limit:
    """What may be asked in a minute; None: as much as there is."""

    requests: int | None = None
    tokens: int | None = None


@dataclass
class Turn:
    """One request: when it may go out, and about what it is, or what it was."""

    at: float
    tokens: int


class Pace:
    """The requests of the last minute, those that wait for their turn among them, in their order."""

    def __init__(self, limit: Limit | None = None) -> None:
        self.limit = limit or Limit()
        self.left_alone_until = 0.0
        self._turns: deque[Turn] = deque()

    def leave_alone(self, secs: float) -> None:
        """The provider has asked one of us for it: it is meant for all, within bounds."""
        self.left_alone_until = max(self.left_alone_until, _now() + for_all(secs))

    def alone_for(self) -> float:
        """Seconds until it may be asked again; 0: it may."""
        return max(0.0, self.left_alone_until - _now())

    async def turn(self, tokens: int) -> Turn:
        """Wait until a request of about so many tokens may go out. The wait is none of the request's own time."""
        turn = Turn(self._first_time(tokens), tokens)
        if self.limit == Limit():
            return turn
        self._turns.append(turn)
        if (wait := turn.at - _now()) > 0:
            do_not_count(wait)
            try:
                await asyncio.sleep(wait)
            except BaseException:
                self._turns.remove(turn)  # whoever comes next may have it
                raise
        return turn

    def used(self, turn: Turn, tokens: int) -> None:
        """What it was in the end."""
        turn.tokens = tokens

    def _first_time(self, tokens: int) -> float:
        now = _now()
        while self._turns and self._turns[0].at <= now - WINDOW_SECS:
            self._turns.popleft()
        at = max(now, self._turns[-1].at if self._turns else now)
        for first in self._turns:
            if self._has_room(at, tokens):
                break
            at = max(at, first.at + WINDOW_SECS)
        return at

    def _has_room(self, at: float, tokens: int) -> bool:
        within = [turn for turn in self._turns if turn.at > at - WINDOW_SECS]
        if not within:
            return True  # one that is larger than the limit goes alone
        requests, most = self.limit.requests, self.limit.tokens
        if requests is not None and len(within) >= requests:
            return False
        return most is None or sum(turn.tokens for turn in within) + tokens <= most


def _now() -> float:
    return asyncio.get_running_loop().time()


_PACES: WeakValueDictionary[tuple[object, ...], Pace] = WeakValueDictionary()


def pace_of(place: str, model: str, key: str | None, limit: Limit | None) -> Pace:
    """The one of this model for all that ask it with this key."""
    named = (place, model, key, limit)
    if (found := _PACES.get(named)) is None:
        found = _PACES[named] = Pace(limit)
    return found


_LIMITED: ContextVar[tuple[asyncio.Timeout, ...]] = ContextVar("limited", default=())


@contextmanager
def limited(scope: asyncio.Timeout) -> Iterator[None]:
    """`with`: waits for a turn inside do not count in this time limit."""
    token = _LIMITED.set((*_LIMITED.get(), scope))
    try:
        yield
    finally:
        _LIMITED.reset(token)


def do_not_count(secs: float) -> None:
    for scope in _LIMITED.get():
        if (when := scope.when()) is not None:
            scope.reschedule(when + secs)
