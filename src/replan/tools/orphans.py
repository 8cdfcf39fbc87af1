"""Nothing that was started outlives this process, even when it is killed outright (`kill -9`, out of memory).

The system sends no signal to what a killed process had started: so a small program, started with the first of them, waits
for this process's end and then ends every process group that is still registered. What made itself a session of its own
escapes it, and where there are no process groups (Windows) nothing is watched.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

_PROGRAM = str(Path(__file__).with_name("orphan_watch.py"))
_END_SECS = 2.0


class _Watch:
    """The program that watches over the groups of one process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def tell(self, line: str) -> None:
        if not hasattr(os, "killpg"):
            return
        with self._lock:
            process = self._process
            if process is None and line[0] == "+":
                process = self._start()
            if process is None or process.stdin is None:
                return
            with contextlib.suppress(OSError):  # it was ended by somebody: the next one starts without it
                os.write(process.stdin.fileno(), line.encode() + b"\n")

    def _start(self) -> subprocess.Popen[bytes] | None:
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
            atexit.register(self.end)
        return self._process

    def end(self) -> None:
        if self._process is None or self.owner != os.getpid():
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECS)


_watch = _Watch()


def started(group: int) -> None:
    """A process group of ours was started: it ends with this process at the latest."""
    _told(f"+{group}")


def ended(group: int) -> None:
    """It has been ended: its number may be another's by now."""
    _told(f"-{group}")


def _told(line: str) -> None:
    global _watch
    if _watch.owner != os.getpid():  # a fork: what it starts is its own
        _watch = _Watch()
    _watch.tell(line)
