"""The command at a real terminal: a pseudo-terminal whose other end the test reads and types at."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import warm_command
from cli_process import environment

_LONGEST_SECS = 60.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """What a person sees and does. `shown`: all that was written so far, without colours and movements."""

    def __init__(self, process: warm_command.Process, end: int) -> None:
        self._process = process
        self._end = end
        self._read = bytearray()
        self._seen = 0

    @property
    def shown(self) -> str:
        return _ESCAPES.sub("", self._read.decode("utf-8", "replace"))

    def wait_for(self, text: str) -> None:
        """Until `text` is written after what was waited for before."""
        until = time.monotonic() + _LONGEST_SECS
        while (at := self.shown.find(text, self._seen)) < 0:
            if not self._more(until):
                raise AssertionError(f"{text!r} was not shown:\n{self.shown[self._seen :]}")
        self._seen = at + len(text)

    def type(self, line: str) -> None:
        os.write(self._end, f"{line}\n".encode())

    def press_ctrl_c(self) -> None:
        os.write(self._end, b"\x03")

    def ended(self) -> int:
        """The exit code, once all is read."""
        until = time.monotonic() + _LONGEST_SECS
        while self._more(until):
            pass
        return self._process.wait(timeout=_LONGEST_SECS)

    def _more(self, until: float) -> bool:
        ready, _, _ = select.select([self._end], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._end, 65_536)
        except OSError:  # Linux: nobody holds the other end any more
            return False
        self._read += data
        return bool(data)


@contextmanager
def at_a_terminal(*arguments: str, cwd: Path) -> Iterator[Terminal]:
    """`replan ARGUMENTS` in a session of its own, so that Ctrl-C reaches it as it does at a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))

    process = warm_command.Process(arguments, cwd, environment(cwd, {"TERM": "xterm"}), terminal=theirs)
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
