"""Ctrl-C, and being told to end: the first asks for an end, a second one takes it, and neither says what is not so."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

from replan.cli.terminal.again import again
from replan.cli.terminal.exits import INTERRUPTED

T = TypeVar("T")
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_LEAVING_SECS = 1.0
"""How long the command may take to tell a task's end and close what it has open, before Ctrl-C stops that too."""
_taken: list[int] = []
"""The signals that are this module's until the process ends."""


@contextlib.contextmanager
def interrupts(task_id: str, first: Callable[[str], None], over: Callable[[], bool]) -> Iterator[None]:
    """A signal calls `first`, with its name, in the running event loop; a second one ends the process at once.

    `over`: whether the task's end is a fact: then nothing is left to stop, and the command leaves with its own exit code.
    Being told to end (SIGTERM: `timeout`, `docker stop`) and the terminal's going away (SIGHUP) count as Ctrl-C.
    What the process was started to ignore (`nohup`, a script's `… &`) it goes on to ignore.
    """
    loop = asyncio.get_running_loop()
    pressed = 0
    over_since: float | None = None

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal pressed, over_since
        pressed += 1
        if over():
            over_since = over_since or time.monotonic()
            if time.monotonic() - over_since > _LEAVING_SECS:
                _stop_at_once(f"task {task_id} has ended: `{again('tasks', 'result', task_id)}`")
        elif pressed == 1:
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            loop.call_soon_threadsafe(first, name)
        else:
            _stop_at_once(f"`{again('tasks', 'resume', task_id)}` goes on from the log")

    before: dict[int, Any] = {
        number: signal.signal(number, on_signal)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        if pressed:  # it may be pressed again, until the process has left with its exit code
            _taken.extend(before)
        else:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def told_to_stop() -> Iterator[Callable[[Coroutine[Any, Any, T]], T]]:
    """Runs coroutines one after the other; a signal cancels the one that runs, wherever it comes, and the next ones before they
    begin: `KeyboardInterrupt` then. One that comes when the last has ended does nothing."""
    told, at_work = False, list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]]()

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal told
        told = True
        for loop, task in at_work:
            loop.call_soon_threadsafe(task.cancel)

    def run(main: Coroutine[Any, Any, T]) -> T:
        async def within() -> T:
            task = asyncio.current_task()
            assert task is not None
            at_work.append((asyncio.get_running_loop(), task))
            try:
                if told:
                    main.close()
                    raise asyncio.CancelledError
                return await main
            finally:
                at_work.clear()

        try:
            return asyncio.run(within())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    before: dict[int, Any] = {
        number: signal.signal(number, on_signal)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield run
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leaving() -> None:
    """The exit code is known: who has pressed Ctrl-C, and presses it once more, does not take it away."""
    for number in _taken:
        signal.signal(number, signal.SIG_IGN)


def _stop_at_once(what_now: str) -> None:
    """Leave without waiting for anything."""
    if sys.stderr.isatty():
        _write("\x1b[?25h\n")  # the cursor, which the live picture hides
    _write(f"stopped at once; {what_now}\n")
    os._exit(INTERRUPTED)


def _write(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(2, text.encode())
