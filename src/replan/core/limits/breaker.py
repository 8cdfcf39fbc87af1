"""A circuit breaker: after several failures in a row, leave the thing alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial


class Breaker:
    """Closed, open, half-open.

    `threshold` failures in a row open it; after `cool_down_secs` one caller may try; its success closes it, its
    failure opens it again, each time for twice as long, up to `longest_secs` (unset: always as long). `now` is any clock
    in seconds that does not run backwards.
    """

    def __init__(
        self,
        *,
        threshold: int = 3,
        cool_down_secs: float = 30.0,
        longest_secs: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if threshold < 1:
            raise ValueError(f"a breaker needs a threshold of at least 1, not {threshold}")
        self._threshold = threshold
        self._first = cool_down_secs
        self._longest = max(cool_down_secs, longest_secs or 0.0)
        self._rest = cool_down_secs
        self._now = now
        self._failures = 0
        self._opened: float | None = None
        self._probing = False
        self._turns = 0
        """How often it has opened or closed."""

    @property
    def wait_secs(self) -> float:
        """Seconds until somebody may try; 0 when one may now (or is trying)."""
        if self._opened is None:
            return 0.0
        return max(0.0, self._opened + self._rest - self._now())

    @property
    def is_closed(self) -> bool:
        """Whether whoever asks may try."""
        return self._opened is None

    @property
    def is_probing(self) -> bool:
        """Whether somebody tries it just now, for all the others."""
        return self._probing

    def allow(self) -> Try | None:
        """The caller's try, whose end it has to tell; None: not now."""
        if self._opened is None:
            return Try(partial(self._told, self._turns))
        if self._probing or self.wait_secs > 0:
            return None
        self._probing = True
        return Try(partial(self._told, self._turns))

    def trip(self) -> None:
        """Open, as it was found out otherwise that nobody is there; tries that are under way say nothing of it any more."""
        self._probing = False
        self._opened = self._now()
        self._turns += 1

    def _told(self, turns: int, good: bool | None) -> None:
        """A try has ended. One that began before the breaker last opened or closed says nothing of now."""
        if turns != self._turns:
            return
        self._probing = False
        if good is None:
            return
        was_open = self._opened is not None
        if good:
            self._failures = 0
            if was_open:
                self._opened, self._rest = None, self._first
                self._turns += 1
            return
        self._failures += 1
        if was_open:
            self._rest = min(2 * self._rest, self._longest)
        if was_open or self._failures >= self._threshold:
            self._opened = self._now()
            self._turns += 1


class Try:
    """One try that a breaker has allowed. Its end is told once; what is told later counts for nothing."""

    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[bool | None], None]) -> None:
        self._tell: Callable[[bool | None], None] | None = tell

    def succeeded(self) -> None:
        self._ended(True)

    def failed(self) -> None:
        self._ended(False)

    def abandoned(self) -> None:
        """It was called off before it told anything."""
        self._ended(None)

    def _ended(self, good: bool | None) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(good)
