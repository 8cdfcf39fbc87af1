"""What a model may be asked: so much in a minute, and nothing while its provider wants to be left alone.

A provider counts per account, whichever task asks. So there is one pace for each model, address and key of this process, and all
that ask it go by that one. Once it has turned one away as too many, they go on one by one, then in growing numbers: in one wave so
many would be turned away again, and perhaps the same.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from dataclasses import dataclass
from itertools import count
from weakref import WeakKeyDictionary, WeakValueDictionary

from replan.core.failures.asked_waits import for_all
from replan.llm.limits import Waiting, do_not_count

WINDOW_SECS = 60.0
TAKEN_SECS = 1.0
_WIDE = 64
"""A gate for so many at once is an open one."""


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
        self._asked_until = 0.0
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, Gate] = WeakKeyDictionary()
        self._turns: deque[Turn] = deque()

    @property
    def gate(self) -> Gate:
        """That of the running event loop: who waits in another one would not be woken from here."""
        loop = asyncio.get_running_loop()
        if (found := self._gates.get(loop)) is None:
            found = self._gates.setdefault(loop, Gate())
        return found

    def leave_alone(self, secs: float, *, asked: bool = True) -> None:
        """It is meant for all, within bounds. `asked`: the provider has told one of us so; else it is our own guess."""
        self.left_alone_until = max(self.left_alone_until, _now() + for_all(secs))
        if asked:
            self._asked_until = max(self._asked_until, _now() + secs)
            self.gate.is_left_alone(for_all(secs))

    def alone_for(self) -> float:
        """Seconds until it may be asked again; 0: it may."""
        return max(0.0, self.left_alone_until - _now())

    def asked_for(self) -> float:
        """Seconds for which the provider still wants to be left alone, by its own word: more than what holds for all, perhaps."""
        return max(self.alone_for(), self._asked_until - _now())

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


class Entry:
    """One request that was let through. `began`: when it went out; `undecided`: it may be turned away yet."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.undecided = True
        self.timer: asyncio.TimerHandle | None = None


class Gate:
    """Who may ask at once. Open, until somebody is turned away; from then on for one, and for twice as many with each that is taken.

    An endpoint turns away at once, and answers when it is done: whoever was not turned away within `TAKEN_SECS` was taken. They go
    in the order in which they first came, also those that come again.
    """

    def __init__(self) -> None:
        self.passed = 0
        """How many answers there were."""
        self.refused = 0
        """How often in a row somebody was turned away: several that were sent before the first heard of it are one."""
        self._refused_at = 0.0
        self._width: int | None = None
        self._undecided = 0
        self._waiting: list[tuple[int, asyncio.Future[None], Waiting]] = []
        self._tickets = count()

    def ticket(self) -> int:
        return next(self._tickets)

    @property
    def is_free(self) -> bool:
        """Whether one more may go through without waiting."""
        return self._width is None or (self._undecided < self._width and not self._waiting)

    async def enter(self, ticket: int) -> Entry:
        """Wait until it is one's turn. The wait is none of the request's own time, as long as others get their answers."""
        if self._width is not None:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (ticket, turn, Waiting()))
            self._let_in()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.cancelled():
                    self._waiting = [one for one in self._waiting if one[1] is not turn]
                    heapq.heapify(self._waiting)
                else:
                    self._undecided -= 1
                self._let_in()
                raise
        else:
            self._undecided += 1
        return Entry(_now())

    def is_left_alone(self, secs: float) -> None:
        """Nobody goes for so long: that is none of the time of those who wait."""
        for _, _, waiting in self._waiting:
            waiting.excuse(secs)

    def sent(self, entry: Entry) -> None:
        """It goes out now."""
        entry.began = _now()
        entry.timer = asyncio.get_running_loop().call_later(TAKEN_SECS, self._taken, entry)

    def left(self, entry: Entry, *, answered: bool = False, busy: bool = False) -> None:
        """It has come to an end: `answered`, turned away as too many (`busy`), or otherwise, which says nothing here."""
        if busy:
            self._width = 1
            if entry.began >= self._refused_at:
                self.refused += 1
                self._refused_at = _now()
        elif answered:
            self.passed += 1
            self.refused = 0
            for _, _, waiting in self._waiting:
                waiting.others_go_on()
            self._widen()
        self._decide(entry)

    def _taken(self, entry: Entry) -> None:
        self._widen()
        self._decide(entry)

    def _decide(self, entry: Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
        if entry.undecided:
            entry.undecided = False
            self._undecided -= 1
        self._let_in()

    def _widen(self) -> None:
        if self._width is not None:
            self._width *= 2
            if self._width > _WIDE:
                self._width = None

    def _let_in(self) -> None:
        while self._waiting and (self._width is None or self._undecided < self._width):
            _, turn, _ = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                self._undecided += 1


def _now() -> float:
    return asyncio.get_running_loop().time()


_PACES: WeakValueDictionary[tuple[object, ...], Pace] = WeakValueDictionary()


def pace_of(place: str, model: str, key: str | None, limit: Limit | None) -> Pace:
    """The one of this model for all that ask it with this key."""
    named = (place, model, key, limit)
    if (found := _PACES.get(named)) is None:
        found = _PACES[named] = Pace(limit)
    return found
