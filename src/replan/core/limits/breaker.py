"""A circuit breaker: after several failures in a row, leave the thing alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Closed, open, half-open.

    `threshold` failures in a row open it; after `cool_down_secs` one caller may try; its success closes it, its
    failure opens it for another `cool_down_secs`. `now` is any clock in seconds that does not run backwards.
    """

    def __init__(
        self, *, threshold: int = 3, cool_down_secs: float = 30.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        if threshold < 1:
            raise ValueError(f"a breaker needs a threshold of at least 1, not {threshold}")
        self._threshold = threshold
        self._cool_down = cool_down_secs
        self._now = now
        self._failures = 0
        self._opened: float | None = None
        self._probing = False

    @property
    def wait_secs(self) -> float:
        """Seconds until somebody may try; 0 when one may now (or is trying)."""
        if self._opened is None:
            return 0.0
        return max(0.0, self._opened + self._cool_down - self._now())

    def allow(self) -> bool:
        """Whether the caller may try. Who was allowed has to report with `succeeded`, `failed` or `abandoned`."""
        if self._opened is None:
            return True
        if self._probing or self.wait_secs > 0:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        self._failures = 0
        self._opened = None
        self._probing = False

    def failed(self) -> None:
        self._failures += 1
        if self._probing or self._failures >= self._threshold:
            self._opened = self._now()
        self._probing = False

    def abandoned(self) -> None:
        """The try was called off before it told anything."""
        self._probing = False
