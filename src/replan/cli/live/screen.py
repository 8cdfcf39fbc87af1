"""The last lines of a terminal, painted anew without flicker.

Only lines that have changed are written, over what stands there and not after erasing it, and each frame is one write; terminals that know
how (DEC mode 2026) show it at once. What others print meanwhile goes above the picture, line by line.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_TO_THE_END, _BELOW = "\x1b[K", "\x1b[J"


class Line(NamedTuple):
    """As it is written, and how many cells it takes."""

    text: str
    cells: int


class Screen:
    """`size`: the terminal's width and height. The cursor stands below the picture."""

    def __init__(self, stream: IO[str], size: Callable[[], tuple[int, int]]) -> None:
        self._stream: IO[str] | None = stream
        self._size = size
        self._lines: list[Line] = []
        self._width = 0
        self._lock = threading.RLock()
        """Tools print from threads."""
        self._taken: list[tuple[str, _Above, IO[str]]] = []

    def open(self) -> None:
        """Have what is printed on stdout and stderr go above the picture."""
        self._write(_HIDE)
        for name in ("stdout", "stderr"):
            before = getattr(sys, name)
            above = _Above(self, before)
            self._taken.append((name, above, before))
            setattr(sys, name, above)

    def close(self) -> None:
        """Leave the picture where it is, and the terminal as it was."""
        for name, above, before in reversed(self._taken):
            above.finish()
            if getattr(sys, name) is above:
                setattr(sys, name, before)
        self._taken.clear()
        self._write(_SHOW)

    def paint(self, lines: Sequence[Line]) -> None:
        """Show these lines, as many as there is room for."""
        with self._lock:
            width, height = self._size()
            shown = list(lines[: max(height - 1, 1)])
            if width != self._width:
                self._write(self._again(shown, width))
            elif shown != self._lines:
                self._write(self._changed(shown, width))
            self._lines, self._width = shown, width

    def above(self, text: str) -> None:
        """Print whole lines above the picture."""
        with self._lock:
            width, _ = self._size()
            self._write(self._again(self._lines, width, text))
            self._width = width

    def _changed(self, lines: list[Line], width: int) -> str:
        """What makes of the picture that is there this one."""
        before = self._lines
        parts = [_up(len(before))]
        for at, line in enumerate(lines):
            if at >= len(before) or line != before[at]:
                # in the last cell some terminals erase the character that was just written
                parts.append(line.text + (_TO_THE_END if line.cells < width else ""))
            parts.append("\n")
        if len(lines) < len(before):
            parts.append(_BELOW)
        return "".join(parts)

    def _again(self, lines: list[Line], width: int, above: str = "") -> str:
        """All of it, below a text. What is there was broken into more lines where the terminal has become narrower."""
        there = sum(max(1, -(-line.cells // max(width, 1))) for line in self._lines)
        return _up(there) + _BELOW + above + "".join(f"{line.text}\n" for line in lines)

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(f"{_BEGIN}{text}{_END}")
            self._stream.flush()
        except (OSError, ValueError):  # the terminal has gone
            self._stream = None


def _up(lines: int) -> str:
    return f"\r\x1b[{lines}A" if lines else "\r"


class _Above(io.TextIOBase):
    """In place of a stream while there is a picture: what is written goes above that, by whole lines."""

    def __init__(self, screen: Screen, real: IO[str]) -> None:
        self._screen = screen
        self._real = real
        self._begun = ""
        self._lock = threading.RLock()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._real, "encoding", None) or "utf-8"

    @property
    def buffer(self) -> IO[bytes]:
        """For who writes bytes: nothing can be done for the picture then."""
        return self._real.buffer  # type: ignore[attr-defined, no-any-return]

    def write(self, text: str) -> int:
        with self._lock:
            whole, newline, self._begun = f"{self._begun}{text}".rpartition("\n")
            if newline:
                self._screen.above(whole + newline)
        return len(text)

    def finish(self) -> None:
        """What was begun and has no end yet."""
        with self._lock:
            if self._begun:
                self._screen.above(f"{self._begun}\n")
                self._begun = ""

    def flush(self) -> None:
        """A line is shown once it is whole."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._real.isatty()

    def fileno(self) -> int:
        return self._real.fileno()

    def reconfigure(self, **options: object) -> None:
        with contextlib.suppress(AttributeError):
            self._real.reconfigure(**options)  # type: ignore[attr-defined]
