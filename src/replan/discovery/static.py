"""A list that is written down, as a registry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from replan.ports import Instance, Look


class StaticRegistry:
    """Always the same instances."""

    name = "the list in the configuration"

    def __init__(self, instances: Sequence[Instance], *, wait_secs: float = 60.0) -> None:
        """`wait_secs`: so long a look waits for news, of which there will be none."""
        self._instances = tuple(instances)
        self._wait_secs = wait_secs

    async def look(self, service: str, mark: object) -> Look:
        if mark is not None:
            await asyncio.sleep(self._wait_secs)
        return Look(self._instances, True)

    async def aclose(self) -> None:
        pass
