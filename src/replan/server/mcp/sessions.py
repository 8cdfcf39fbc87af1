"""How many sessions of MCP each caller has open: one that opens them and lets them lie keeps nobody else out."""

from __future__ import annotations

from collections.abc import Callable

from replan.server.holding import Holding

MOST_EACH = 100
IDLE_SECS = 300.0
"""A session that nobody has used for so long is closed."""


class Sessions:
    """The sessions of each caller, by when they were last used."""

    def __init__(self, now: Callable[[], float], most: int = MOST_EACH, idle_secs: float = IDLE_SECS) -> None:
        self._now = now
        self._most = most
        self._idle_secs = idle_secs
        self._of: dict[str, dict[str, float]] = {}

    def check_room(self, owner: str) -> None:
        """Before one is opened; `TooMany` says when to come again."""
        mine = self._living(owner)
        oldest = min(mine.values(), default=0.0)
        again = max(1.0, oldest + self._idle_secs - self._now())
        Holding.check(len(mine), self._most, "this key or token", "max_open_per_key", again)

    def used(self, owner: str, session_id: str) -> None:
        mine = self._of.setdefault(owner, {})
        mine.pop(session_id, None)
        mine[session_id] = self._now()

    def closed(self, owner: str, session_id: str) -> None:
        mine = self._of.get(owner, {})
        mine.pop(session_id, None)
        if not mine:
            self._of.pop(owner, None)

    def _living(self, owner: str) -> dict[str, float]:
        mine, since = self._of.get(owner, {}), self._now() - self._idle_secs
        for session_id in [one for one, used in mine.items() if used <= since]:
            del mine[session_id]
        return mine
