"""Where the command's words go: the answer alone to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from typing import IO, TYPE_CHECKING, Any

from replan.cli.terminal.again import again
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.core.secrets import KnownSecrets

_COLOURS = {"red": "31", "yellow": "33", "green": "32", "dim": "2", "bold": "1"}


def paint(text: str, colour: str, stream: IO[str] | None = None) -> str:
    """The text in a colour, where the stream is a terminal that wants colours."""
    stream = stream or sys.stderr
    wanted = os.environ.get("FORCE_COLOR") or (stream.isatty() and os.environ.get("TERM") != "dumb")
    if os.environ.get("NO_COLOR") or not wanted:
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


@cache
def secrets() -> KnownSecrets:
    """What no line of this process shows; `opening` has it know what a `Replan` knows."""
    from replan.core.secrets import KnownSecrets  # not for `--help`, which says nothing of anybody

    return KnownSecrets()


def say(text: str) -> None:
    """A line for people, on stderr."""
    text = secrets().hide(text)
    with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it cannot be written
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A warning, on stderr."""
    say(f"{paint('warning:', 'yellow')} {text}")


def report_error(text: str) -> None:
    """An error, on stderr."""
    say(f"{paint('error:', 'red')} {text}")


def settle_streams() -> None:
    """Let any text through: pipes get UTF-8, a terminal of another encoding a stand-in for what it cannot show.

    Streams that were closed before the start lead nowhere; else the next file that is opened would get their number,
    and what is printed.
    """
    closed = [number for number in range(3) if not _is_open(number)]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for the whole of the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if 1 in closed:
        warn("stdout is closed: nobody gets the answer; it stays in the log (`replan tasks result ID`)")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def finish_streams() -> None:
    """Write what is left; what cannot be written must not become another exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Out:
    """Stdout as the command's own. A reader that went away is no error: there is just no one left to tell."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream: IO[str] | None = stream

    @property
    def terminal(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    @property
    def columns(self) -> int | None:
        """How wide it is, if it is a terminal."""
        return shutil.get_terminal_size().columns if self.terminal else None

    @property
    def unicode(self) -> bool:
        """Whether it can show more than ASCII."""
        return _shows(getattr(self._stream, "encoding", None), "●│✓…")

    def line(self, text: str) -> None:
        """One line (or several), passed on at once."""
        if self._stream is None:
            return
        text = secrets().hide(text)
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except BrokenPipeError:
            self._stream = None
        except OSError as error:
            self._stream = None
            raise InputError(
                f"stdout cannot be written: {error.strerror or error}; what a task has given stays in the log: "
                f"`{again('tasks', 'result')} ID` shows it"
            ) from None

    def raw(self, data: bytes) -> bool:
        """Bytes as they are; False if nobody reads them any more."""
        if self._stream is None:
            return False
        try:
            self._stream.buffer.write(data)  # type: ignore[attr-defined]
            self._stream.buffer.flush()  # type: ignore[attr-defined]
        except BrokenPipeError:
            self._stream = None
        except OSError as error:
            raise InputError(f"stdout cannot be written: {error.strerror or error}") from None
        return self._stream is not None

    def json(self, value: Any, *, compact: bool = False) -> None:
        """A JSON document: indented, or on one line."""
        value = secrets().masked(value)
        self.line(json.dumps(value, ensure_ascii=False, default=str, indent=None if compact else 2))

    def answer(self, value: Any) -> None:
        """A result for people: text as it is, all else as JSON."""
        if isinstance(value, str):
            from replan.cli.terminal.words import printable

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
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        with contextlib.suppress(OSError):
            real.flush()
        os.dup2(kept, descriptor)
        with contextlib.suppress(OSError):
            real.close()


def unicode_terminal() -> bool:
    """Whether standard error can show more than ASCII."""
    return _shows(getattr(sys.stderr, "encoding", None), "✓█…")


def _shows(encoding: str | None, signs: str) -> bool:
    try:
        signs.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
