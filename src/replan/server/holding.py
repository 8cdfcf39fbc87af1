"""What callers hold open side by side (streams, waits, calls of MCP): none of them so much that others find no place."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

from replan.config.sections import Server
from replan.errors import TooMany
from replan.run.access.callers import Caller

RETRY_AFTER_SECS = 5.0
_OPEN = "streams, waits or sessions open"


class Holding:
    """The places of one process, over all ways in."""

    def __init__(self, server: Server, *, asked: bool, what: str = _OPEN) -> None:
        """`asked`: callers say who they are; else all of them are one, and there is nobody to share with. `what` they hold, in words."""
        self._what = what
        most = server.max_connections
        self._asked = asked
        self.most_of_a_key = server.max_open_per_key or max(1, most // 2)
        self.most_of_a_tenant = server.max_open_per_tenant or max(1, most * 3 // 4)
        self._of_keys: Counter[tuple[str, str, str]] = Counter()
        self._of_tenants: Counter[str] = Counter()

    @contextlib.contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """Held as long as that lasts; `TooMany` where the caller, or its tenant, holds as much as it may."""
        leave = self.take(caller)
        try:
            yield
        finally:
            leave()

    def take(self, caller: Caller) -> Callable[[], None]:
        """The same; what is given gives the place back."""
        if not self._asked:
            return _nothing
        key = (caller.tenant, caller.who, caller.key_id)
        self.check(
            self._of_keys[key], self.most_of_a_key, "this key or token", "max_open_per_key", what=self._what
        )
        tenant = self._of_tenants[caller.tenant]
        self.check(tenant, self.most_of_a_tenant, "this tenant", "max_open_per_tenant", what=self._what)
        self._of_keys[key] += 1
        self._of_tenants[caller.tenant] += 1

        def leave() -> None:
            self._of_keys[key] -= 1
            self._of_tenants[caller.tenant] -= 1
            if not self._of_keys[key]:
                del self._of_keys[key]
            if not self._of_tenants[caller.tenant]:
                del self._of_tenants[caller.tenant]

        return leave

    @staticmethod
    def check(
        held: int,
        most: int,
        whose: str,
        setting: str,
        retry_after: float = RETRY_AFTER_SECS,
        *,
        what: str = _OPEN,
    ) -> None:
        """`TooMany` for one more."""
        if held >= most:
            raise TooMany(
                f"{whose} holds {held} {what}, and may hold {most} ([server] {setting}): end some, or come back later",
                retry_after=retry_after,
            )


def _nothing() -> None:
    """Of whoever is not counted."""
