"""The event loop of one command: its end waits for nobody who does not listen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from replan.cli.terminal.interrupts import leaving

T = TypeVar("T")

LET_GO_SECS = 0.5
"""How long what is stopped may take to end."""
_left_behind: set[asyncio.Task[Any]] = set()


def run(main: Coroutine[Any, Any, T], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """As `asyncio.run`, which would wait for ever for a tool that ignores that it is stopped. `new_loop`: another kind of loop."""

    async def within() -> T:
        try:
            return await main
        finally:
            await _let_go()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(within())


async def _let_go() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        _, left = await asyncio.wait(others, timeout=LET_GO_SECS)
        for task in left:
            asyncio._unregister_task(task)
        _left_behind.update(left)


def leave(code: int) -> NoReturn:
    """End the process; at once where something was left behind that would go on."""
    leaving()
    if _left_behind:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # closed: nobody reads it
                stream.flush()
        os._exit(code)
    sys.exit(code)
