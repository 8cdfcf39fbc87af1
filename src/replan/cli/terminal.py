"""Where the command's words go: the answer alone to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

from replan.core.secrets import KnownSecrets

_COLOURS = {"red": "31", "yellow": "33", "green": "32", "dim": "2", "bold": "1"}


def paint(text: str, colour: str, stream: IO[str] | None = None) -> str:
    """The text in a colour, where the stream is a terminal that wants colours."""
    stream = stream or sys.stderr
    wanted = os.environ.get("FORCE_COLOR") or (stream.isatty() and os.environ.get("TERM") != "dumb")
    if os.environ.get("NO_COLOR") or not wanted:
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


SECRETS = KnownSecrets()
"""What no line of this process shows; `opening` has it know what a `Replan` knows."""


def say(text: str) -> None:
    """A line for people, on stderr."""
    text = SECRETS.hide(text)
    with contextlib.suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A warning, on stderr."""
    say(f"{paint('warning:', 'yellow')} {text}")


def report_error(text: str) -> None:
    """An error, on stderr."""
    say(f"{paint('error:', 'red')} {text}")


def settle_streams() -> None:
    """Let any text through: pipes get UTF-8, a terminal of another encoding a stand-in for what it cannot show."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


class Out:
    """Stdout as the command's own. A reader that went away is no error: there is just no one left to tell."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream: IO[str] | None = stream

    @property
    def terminal(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def line(self, text: str) -> None:
        """One line (or several), passed on at once."""
        if self._stream is None:
            return
        text = SECRETS.hide(text)
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except BrokenPipeError:
            self._stream = None

    def json(self, value: Any, *, compact: bool = False) -> None:
        """A JSON document: indented, or on one line."""
        value = SECRETS.masked(value)
        self.line(json.dumps(value, ensure_ascii=False, default=str, indent=None if compact else 2))

    def answer(self, value: Any) -> None:
        """A result for people: text as it is, all else as JSON."""
        if isinstance(value, str):
            from replan.cli.words import printable

            self.line(printable(value) if self.terminal else value)
        else:
            self.json(value)


@contextlib.contextmanager
def own_stdout() -> Iterator[Out]:
    """Stdout for the command alone: whatever tools and libraries print meanwhile goes to stderr.

    This is done on the file descriptor too, so it holds for C libraries and child processes.
    """
    sys.stdout.flush()
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        with contextlib.redirect_stdout(sys.stderr):
            yield Out(sys.__stdout__ or sys.stdout)
        return
    kept = os.dup(descriptor)
    real = os.fdopen(kept, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    os.dup2(sys.stderr.fileno(), descriptor)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield Out(real)
    finally:
        sys.stderr.flush()
        with contextlib.suppress(BrokenPipeError):
            real.flush()
        os.dup2(kept, descriptor)
        with contextlib.suppress(BrokenPipeError):
            real.close()


def unicode_terminal(stream: IO[str] | None = None) -> bool:
    """Whether the stream can show more than ASCII."""
    encoding: str | None = getattr(stream or sys.stderr, "encoding", None)
    try:
        "✓█…".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
