"""Kinds of tasks, as the loop sees them."""

from __future__ import annotations

from typing import Protocol

from replan.core.kinds.known import Known


class Kinds(Protocol):
    """The scenes and workflows that there are."""

    def at_hand(self) -> Known | None:
        """Those that there are now, where nothing has to be looked at for it; None: ask `current`."""
        ...

    def scenes_at_hand(self) -> Known | None:
        """The same where only scenes matter."""
        ...

    async def current(self) -> Known: ...
