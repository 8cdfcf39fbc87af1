"""Lines of the log about what may change every second: how it stands, and never a flood."""

from __future__ import annotations

import asyncio
import logging

from replan.core.words import one_line

QUIET_SECS = 60.0


class Told:
    """Says the first line at once, and then one in `quiet_secs` at most: the latest, with how many there were before it."""

    def __init__(self, log: logging.Logger, *, quiet_secs: float = QUIET_SECS) -> None:
        self._log = log
        self._quiet_secs = quiet_secs
        self._waiting: asyncio.TimerHandle | None = None
        self._latest: tuple[int, str] | None = None
        self._unsaid = 0

    def __call__(self, level: int, text: str) -> None:
        """To be called in an event loop."""
        if self._waiting is None:
            self._say(level, text)
        else:
            self._latest = level, text
            self._unsaid += 1

    def close(self) -> None:
        """Say what is left to be said."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
        if self._latest is not None:
            self._say(*self._latest, wait=False)

    def _say(self, level: int, text: str, *, wait: bool = True) -> None:
        more = f" (the latest of {self._unsaid} changes since the last line)" if self._unsaid > 1 else ""
        self._latest, self._unsaid = None, 0
        if wait:
            self._waiting = asyncio.get_running_loop().call_later(self._quiet_secs, self._rested)
        self._log.log(level, "%s%s", one_line(text), more)

    def _rested(self) -> None:
        self._waiting = None
        if self._latest is not None:
            self._say(*self._latest)
