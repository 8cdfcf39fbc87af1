"""Showing a task while it runs: a live picture on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Protocol

from replan.cli.live.picture import PictureState
from replan.cli.live.plain import PlainLines
from replan.cli.terminal.terminal import say, unicode_terminal

if TYPE_CHECKING:
    from replan.cli.live.screen import Line
    from replan.core.events import Record


class Show(Protocol):
    """Something that shows a task's records as they come. `view` holds what they add up to."""

    view: PictureState

    def take(self, record: Record) -> None: ...
    def recall(self, record: Record) -> None:
        """A record from before: a part of the picture, and no news."""
        ...

    def tick(self) -> None: ...
    def close(self) -> None: ...


class Nothing:
    """Keeps the view and shows nothing."""

    def __init__(self) -> None:
        self.view = PictureState()

    def take(self, record: Record) -> None:
        self.view.task_id = record.task_id
        self.view.apply(record)

    def recall(self, record: Record) -> None:
        self.view.task_id = record.task_id
        self.view.apply(record)

    def tick(self) -> None:
        """Nothing moves."""

    def close(self) -> None:
        """Nothing is open."""


class Lines(Nothing):
    """A line on stderr for each thing worth telling."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = PlainLines(self.view)

    def take(self, record: Record) -> None:
        super().take(record)
        line = self._lines.line(record)
        if line is not None:
            say(line)


class LivePicture(Nothing):
    """The plan drawn anew several times a second, on a terminal."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console

        from replan.cli.live.ansi import Ansi
        from replan.cli.live.screen import Screen

        self._console = Console(file=sys.stderr, highlight=False, markup=False)
        self._ansi = Ansi(self._console)
        self._ascii = not unicode_terminal()
        self._screen = Screen(sys.stderr, self._size)
        self._screen.open()

    def tick(self) -> None:
        if self.view.created is not None:
            self._screen.paint(self._drawn())

    def close(self) -> None:
        self.tick()
        self._screen.close()

    def _size(self) -> tuple[int, int]:
        width, height = self._console.size
        return width, height

    def _drawn(self) -> list[Line]:
        from replan.cli.live.draw import render

        width, height = self._size()
        rows = max(height - 1, 8)
        frame = render(self.view, time.time(), width, rows=rows, ascii_only=self._ascii)
        return [self._ansi.line(line) for line in frame]


def show_for(*, quiet: bool) -> Show:
    """What suits stderr."""
    if quiet:
        return Nothing()
    if sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
        return LivePicture()
    return Lines()
