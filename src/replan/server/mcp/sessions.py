"""How many sessions of MCP each caller has open: one that opens them and lets them lie keeps nobody else out."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

from replan.server.holding import Holding

MOST_EACH = 100
IDLE_SECS = 300.0
"""A session that nobody has used for so long is closed."""
_MANY = 1_000


class Sessions:
    """The sessions of each caller, by when they were last used."""

    def __init__(self, now: Callable[[], float], most: int = MOST_EACH, idle_secs: float = IDLE_SECS) -> None:
        self._now = now
        self._most = most
        self._idle_secs = idle_secs
        self._of: dict[str, dict[str, float]] = {}
        self._opening: Counter[str] = Counter()
        self._looked_through_at = _MANY
        """So many callers, and those are forgotten whose sessions are closed."""

    def __len__(self) -> int:
        """Callers that are remembered."""
        return len(self._of)

    def check_room(self, owner: str) -> None:
        """`TooMany` if no more may be open, and says when to come again."""
        mine = self._living(owner)
        oldest = min(mine.values(), default=0.0)
        again = max(1.0, oldest + self._idle_secs - self._now())
        Holding.check(
            len(mine) + self._opening[owner], self._most, "this key or token", "max_open_per_key", again
        )

    @contextlib.contextmanager
    def opening(self, owner: str) -> Iterator[None]:
        """Room for one more while it is being opened: others are opened meanwhile."""
        self.check_room(owner)
        self._opening[owner] += 1
        try:
            yield
        finally:
            self._opening[owner] -= 1
            if not self._opening[owner]:
                del self._opening[owner]

    def used(self, owner: str, session_id: str) -> None:
        if owner not in self._of and len(self._of) >= self._looked_through_at:
            self._forget_closed()
        mine = self._of.setdefault(owner, {})
        mine.pop(session_id, None)
        mine[session_id] = self._now()

    def closed(self, owner: str, session_id: str) -> None:
        mine = self._of.get(owner, {})
        mine.pop(session_id, None)
        if not mine:
            self._of.pop(owner, None)

    def _forget_closed(self) -> None:
        self._of = {owner: mine for owner in self._of if (mine := self._living(owner))}
        self._looked_through_at = max(_MANY, 2 * len(self._of))

    def _living(self, owner: str) -> dict[str, float]:
        mine, since = self._of.get(owner, {}), self._now() - self._idle_secs
        for session_id in [one for one, used in mine.items() if used <= since]:
            del mine[session_id]
        return mine
