"""What goes on until it is told to stop: a database that is away when it starts is waited for, as one that goes away later is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from replan.cli.terminal.terminal import say
from replan.errors import StoreBusy

if TYPE_CHECKING:
    from replan.app import Replan

_FIRST_SECS, _MOST_SECS = 0.2, 2.0


async def last(
    replan: Replan,
    stop: asyncio.Event,
    work: Callable[[], Awaitable[None]],
    *,
    say: Callable[[str], None] = say,
) -> None:
    """Open it as soon as its database answers, and do the work, unless it is told to stop before that."""
    said, pause = "", _FIRST_SECS
    while not stop.is_set():
        try:
            async with replan:
                return await work()
        except StoreBusy as away:
            if (why := str(away)) != said:
                say(f"waiting for the database: {why}")
                said = why
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        pause = min(2 * pause, _MOST_SECS)
    return None
