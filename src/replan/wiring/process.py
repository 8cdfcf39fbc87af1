"""What this process is to the loop: its clock, its ids, and the name that it drives tasks under."""

from __future__ import annotations

import asyncio
import os
import platform
import time


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, secs: float) -> None:
        await asyncio.sleep(secs)


class Ulids:
    """Ids that sort by the time they were made."""

    def new(self, prefix: str) -> str:
        from ulid import ULID

        return f"{prefix}_{str(ULID()).lower()}"


def driver_name(*, shared: bool) -> str:
    """Who drives, for the log: no path, and a host name only where several hosts can share the log."""
    process = f"process {os.getpid()}"
    return f"{process} on {platform.node() or 'a nameless host'}" if shared else process
