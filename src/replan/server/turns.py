"""Answers that may be large are made in turn, few side by side: whoever asks for many waits for oneself, and the memory of the
service is that of a few. Those that are made count until their readers have taken them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator

from replan.core.words import in_digits
from replan.errors import TooMany
from replan.run.access.callers import Caller

MOST_AT_ONCE = 4
"""In one process."""
MOST_OF_A_KEY = 2
"""Of them."""
MOST_BYTES_OF_A_KEY = 256 * 2**20
"""Of answers that are made and not taken yet."""
OF_A_TENANT, OF_ALL = 2, 4
"""So many times that may the keys of a tenant, and all keys, have of them; from there on nobody gets another one."""
LARGE_BYTES = 65_536
"""From there on what an answer has counts until it is taken."""
MOST_SECS = 30.0
"""Until it is one's turn."""
_RETRY_AFTER_SECS = 2.0
_Key = tuple[str, str, str]


class Turns:
    """Of one process, over all ways in: those who wait come one after the other, by key, and of each key in their order."""

    def __init__(self, *, most_bytes: int = MOST_BYTES_OF_A_KEY, most_secs: float = MOST_SECS) -> None:
        self._most_bytes = most_bytes
        self._most_secs = most_secs
        self._now: Counter[_Key] = Counter()
        self._waiting: OrderedDict[_Key, deque[asyncio.Future[None]]] = OrderedDict()
        self._bytes: Counter[_Key] = Counter()
        self._bytes_of_tenants: Counter[str] = Counter()

    @contextlib.contextmanager
    def turn(self, caller: Caller, *, patient: bool = False) -> Iterator[Turn]:
        """For one answer: it is one's turn from `begin` on, to the end of that.

        `patient`: it is waited for as long as it takes. For what tells of something that was done: who is told "too many" instead does
        it again.
        """
        turn = Turn(self, _key_of(caller), patient=patient)
        try:
            yield turn
        finally:
            turn.end()

    def untaken(self, caller: Caller, size: int) -> Callable[[], None]:
        """So many bytes are made and not taken; what is given says that they are, or that nobody takes them. `TooMany` beyond
        what a key may have of them: one answer it may have however large."""
        key = _key_of(caller)
        self._check(key, size if self._bytes[key] else 0)
        self._bytes[key] += size
        share = min(size, self._most_bytes)  # nobody shuts out others with one
        self._bytes_of_tenants[caller.tenant] += share

        def taken() -> None:
            self._bytes[key] -= size
            if not self._bytes[key]:
                del self._bytes[key]
            self._bytes_of_tenants[caller.tenant] -= share
            if not self._bytes_of_tenants[caller.tenant]:
                del self._bytes_of_tenants[caller.tenant]

        return taken

    def _check(self, key: _Key, size: int) -> None:
        most = self._most_bytes
        for whose, full in (
            ("this key or token", size and self._bytes[key] + size > most),
            ("the keys of this tenant", self._bytes_of_tenants[key[0]] > OF_A_TENANT * most),
            ("all keys", self._bytes_of_tenants.total() > OF_ALL * most),
        ):
            if full:
                raise TooMany(
                    f"large answers to {whose} have too many bytes that are not taken yet ({in_digits(most)} of one key): "
                    "take or end some, or come back later",
                    retry_after=_RETRY_AFTER_SECS,
                )

    async def begin(self, key: _Key, *, patient: bool = False) -> None:
        if not patient:
            self._check(key, 1)
        if self._free(key):
            self._now[key] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            async with asyncio.timeout(None if patient else self._most_secs):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it was given just now
                self.end(key)
            else:
                self._give_up(key, turn)
            if isinstance(error, TimeoutError):
                raise TooMany(self._too_long(key), retry_after=_RETRY_AFTER_SECS) from None
            raise

    def _too_long(self, key: _Key) -> str:
        took = f"those before this one took more than {in_digits(self._most_secs)} s"
        if self._now[key] >= MOST_OF_A_KEY:
            return f"large answers are made {MOST_OF_A_KEY} at a time for one key or token, and {took}: ask for fewer side by side"
        return f"large answers are made {MOST_AT_ONCE} at a time here, and {took}: come back later"

    def _free(self, key: _Key) -> bool:
        return self._now.total() < MOST_AT_ONCE and self._now[key] < MOST_OF_A_KEY

    def _give_up(self, key: _Key, turn: asyncio.Future[None]) -> None:
        if (queue := self._waiting.get(key)) is not None:
            with contextlib.suppress(ValueError):
                queue.remove(turn)
            if not queue:
                del self._waiting[key]

    def end(self, key: _Key) -> None:
        self._now[key] -= 1
        if not self._now[key]:
            del self._now[key]
        for waiting in list(self._waiting):
            if self._free(waiting):
                self._give(waiting)

    def _give(self, key: _Key) -> None:
        queue = self._waiting[key]
        while queue:
            turn = queue.popleft()
            if not turn.done():  # else nobody waits for it any more
                self._now[key] += 1
                turn.set_result(None)
                break
        if queue:
            self._waiting.move_to_end(key)
        else:
            del self._waiting[key]


class Turn:
    """Of one answer."""

    def __init__(self, turns: Turns, key: _Key, *, patient: bool) -> None:
        self._turns = turns
        self._key = key
        self._patient = patient
        self._begun = False

    async def begin(self) -> None:
        """Wait until it is one's turn. `TooMany` where that takes too long, or the key has too much that is not taken, unless it is patient."""
        await self._turns.begin(self._key, patient=self._patient)
        self._begun = True

    def end(self) -> None:
        if self._begun:
            self._begun = False
            self._turns.end(self._key)


def _key_of(caller: Caller) -> _Key:
    return (caller.tenant, caller.who, caller.key_id)
