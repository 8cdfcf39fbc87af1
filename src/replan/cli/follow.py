"""One task from start to end on a terminal: shown while it runs, and cancelled by Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from replan.cli.exits import INTERRUPTED
from replan.cli.live import Show
from replan.cli.terminal import Out, say

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.core.result import TaskResult

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
FRAME_SECS = 0.1
"""Between two drawings of the picture."""
LAST_RECORDS_SECS = 5.0
"""How long the picture may lag behind the result."""


@contextlib.contextmanager
def interrupts(first: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls `first` in the running event loop; a second one ends the process at once, with exit code 130.

    Being told to end (SIGTERM: `timeout`, `docker stop`) and the terminal's going away (SIGHUP) count as Ctrl-C.
    """
    loop = asyncio.get_running_loop()
    pressed = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed += 1
        if pressed == 1:
            loop.call_soon_threadsafe(first)
        else:
            stop_at_once()

    before = {
        number: signal.signal(number, on_signal)
        for number in _SIGNALS
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN  # nohup
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_at_once() -> None:
    """Leave without waiting for anything; the task stays in the log and can be resumed."""
    if sys.stderr.isatty():
        _write(b"\x1b[?25h\n")  # the cursor, which the live picture hides
    _write(b"stopped at once; `replan tasks resume` goes on from the log\n")
    os._exit(INTERRUPTED)


def _write(text: bytes) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(2, text)


async def to_the_end(
    replan: Replan,
    task_id: str,
    show: Show,
    events: Out | None,
    *,
    after: int = 0,
    finish: Callable[[str], Awaitable[TaskResult]] | None = None,
) -> TaskResult:
    """Show the task until it ends, and give its result; Ctrl-C asks it to end first.

    `events`: where to write each stored record (after `after`) as a line of JSON. `finish`: what gives the result in the end;
    None: `replan.wait`.
    """
    cancelling: set[asyncio.Task[None]] = set()

    def cancel() -> None:
        say("cancelling the task; press Ctrl-C again to stop at once")
        cancelling.add(asyncio.create_task(_cancel(replan, task_id)))

    with interrupts(cancel):
        watching = asyncio.create_task(watch(replan, task_id, show, events, after=after))
        try:
            result = await (finish or replan.wait)(task_id)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_RECORDS_SECS):
                    await asyncio.shield(watching)
        finally:
            watching.cancel()
            await asyncio.gather(watching, *cancelling, return_exceptions=True)
    return result


async def _cancel(replan: Replan, task_id: str) -> None:
    from replan.errors import TaskEnded

    with contextlib.suppress(TaskEnded):
        await replan.service.cancel(task_id, reason="interrupted", by="Ctrl-C", until_resumed=True)


async def watch(replan: Replan, task_id: str, show: Show, events: Out | None, *, after: int = 0) -> None:
    """Feed every record to the picture and, the stored ones, to `events`, until the task ends or waits for a person."""
    drawing = asyncio.create_task(_draw(show))
    try:
        async for record in replan.watch(task_id, after=after, ephemeral=True):
            show.take(record)
            if events is not None and record.seq > 0:
                events.json(record.wire(), compact=True)
            if record.type == "task_waiting" and await _is_left_waiting(replan, task_id):
                break
    finally:
        drawing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await drawing
        show.close()


async def _is_left_waiting(replan: Replan, task_id: str) -> bool:
    """True if the task waits and its driver has let go of it."""
    while (summary := await replan.summary(task_id)).status == "waiting":
        if not summary.held:
            return True
        await asyncio.sleep(FRAME_SECS)
    return False


async def _draw(show: Show) -> None:
    while True:
        show.tick()
        await asyncio.sleep(FRAME_SECS)
