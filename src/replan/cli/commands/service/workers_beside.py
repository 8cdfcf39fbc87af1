"""Workers beside the service, for one machine: processes of their own, started again when they end by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence

from replan.core.words import in_digits
from replan.tools import orphans

_PATIENCE_SECS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Before a worker is started again that has ended soon after its start: longer each time."""
_STEADY_SECS = 60.0
_LAST_SECS = 5.0
"""How long a worker may take to end beyond its own grace."""


async def keep_workers(
    count: int,
    arguments: Sequence[str],
    *,
    stop: asyncio.Event,
    grace_secs: float,
    say: Callable[[str], None],
) -> None:
    """Keep so many `replan worker` processes running until `stop` is set; then they hand over and end.

    `arguments`: theirs. A key in `REPLAN_`… or `APP_`… variables comes along with the environment.
    """
    command = [sys.executable, "-m", "replan.cli", "worker", "--grace", str(grace_secs), *arguments]
    await asyncio.gather(*(_keep(n, command, stop, grace_secs, say) for n in range(1, count + 1)))


async def _keep(
    number: int, command: Sequence[str], stop: asyncio.Event, grace_secs: float, say: Callable[[str], None]
) -> None:
    loop, quick = asyncio.get_running_loop(), 0
    while not stop.is_set():
        begun = loop.time()
        # a group of its own: Ctrl-C at a terminal is for the service, which tells its workers
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        orphans.started(process.pid)
        try:
            if await _ended(process, stop):
                await _let_end(process, grace_secs)
                return
        except asyncio.CancelledError:
            await _let_end(process, 0.0)
            raise
        finally:
            orphans.ended(process.pid)
        quick = 0 if loop.time() - begun > _STEADY_SECS else quick + 1
        pause = _PATIENCE_SECS[min(quick, len(_PATIENCE_SECS)) - 1] if quick else 0.0
        say(
            f"worker {number} has ended ({_how(process.returncode)}); another is started in {in_digits(pause)} s"
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


async def _ended(process: asyncio.subprocess.Process, stop: asyncio.Event) -> bool:
    """Wait until it ends by itself, or is to end: then True."""
    waits = [asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
    return stop.is_set()


async def _let_end(process: asyncio.subprocess.Process, grace_secs: float) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), grace_secs + _LAST_SECS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _how(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
