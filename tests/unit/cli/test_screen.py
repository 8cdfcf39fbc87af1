"""What a terminal shows while a picture is painted on it, and what is written to it for that."""

from __future__ import annotations

import io
import re
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from replan.cli.live.screen import Line, Screen
from thorough import examples

_PIECES = re.compile(r"\x1b\[(\??)(\d*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n])")


class Terminal(io.StringIO):
    """As much of a terminal as is needed: rows that scroll, one cell a character."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__()
        self.size = (width, height)
        self.rows = [""]
        self.at = [0, 0]
        self.frames: list[str] = []

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.frames.append(text)
        width, height = self.size
        for private, count, letter, back, down, sign in _PIECES.findall(text):
            row, column = self.at
            if back:
                self.at = [row, 0]
            elif down:
                self.at = [row + 1, 0]
            elif sign:
                if column == width:
                    row, column = row + 1, 0
                self.rows += [""] * (row + 1 - len(self.rows))
                line = self.rows[row].ljust(column)
                self.rows[row] = line[:column] + sign + line[column + 1 :]
                self.at = [row, column + 1]
            elif letter == "A":
                # no higher than what is shown
                self.at = [max(row - int(count), len(self.rows) - height, 0), column]
            elif letter == "K":
                assert column < width, "the last cell would be erased"
                self.rows[row] = self.rows[row][:column]
            elif letter == "J":
                self.rows[row:] = [self.rows[row][:column]] if row < len(self.rows) else []
            else:
                assert private, text
            self.rows += [""] * (self.at[0] + 1 - len(self.rows))
        return len(text)

    def shown(self) -> list[str]:
        return [row.rstrip() for row in self.rows[: self.at[0]]]


def lines(*texts: str) -> list[Line]:
    return [Line(text, len(text)) for text in texts]


TEXTS = st.lists(st.text(alphabet="ab", max_size=12), max_size=7)
DONE = st.one_of(
    TEXTS.map(lambda texts: ("paint", texts)), st.text("xy", max_size=30).map(lambda text: ("print", [text]))
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(DONE, max_size=12), st.integers(4, 12))
def test_the_picture_stands_below_all_that_was_printed(
    done: list[tuple[str, list[str]]], height: int
) -> None:
    terminal = Terminal(12, height)
    screen = Screen(terminal, lambda: terminal.size)
    printed: list[str] = []
    last: list[str] = []
    for what, texts in done:
        if what == "paint":
            screen.paint(lines(*texts))
            last = texts[: height - 1]
        else:
            screen.above(texts[0] + "\n")
            printed += [texts[0][at : at + 12] for at in range(0, max(len(texts[0]), 1), 12)]
    assert terminal.shown() == [*printed, *last]


def test_only_what_has_changed_is_written_in_one_go_and_nothing_is_erased_before() -> None:
    terminal = Terminal(20, 10)
    screen = Screen(terminal, lambda: terminal.size)
    screen.paint(lines("head 1.0 s", "rome", "oslo"))
    seen = len(terminal.frames)
    screen.paint(lines("head 1.0 s", "rome", "oslo"))
    assert len(terminal.frames) == seen
    screen.paint(lines("head 1.1 s", "rome", "oslo"))
    assert len(terminal.frames) == seen + 1
    frame = terminal.frames[-1]
    assert "head 1.1 s" in frame
    assert "rome" not in frame
    assert "\x1b[J" not in frame
    assert frame.startswith("\x1b[?2026h")
    assert frame.endswith("\x1b[?2026l")
    assert terminal.shown() == ["head 1.1 s", "rome", "oslo"]


def test_a_terminal_that_becomes_narrower_keeps_nothing_of_the_old_picture() -> None:
    terminal = Terminal(20, 20)
    screen = Screen(terminal, lambda: terminal.size)
    screen.paint(lines("a" * 20, "b" * 5))
    terminal.size = (10, 20)
    terminal.rows = ["a" * 10, "a" * 10, "b" * 5, ""]  # it has broken the lines
    terminal.at = [3, 0]
    screen.paint(lines("a" * 10, "b" * 5))
    assert terminal.shown() == ["a" * 10, "b" * 5]


def test_what_others_print_goes_above_and_streams_are_given_back() -> None:
    terminal = Terminal(40, 10)
    before = sys.stdout, sys.stderr
    screen = Screen(terminal, lambda: terminal.size)
    screen.open()
    try:
        screen.paint(lines("picture"))
        print("from a tool")
        print("half", end="", file=sys.stderr)
        assert terminal.shown() == ["from a tool", "picture"]
        assert not sys.stderr.closed
        assert sys.stderr.encoding
    finally:
        screen.close()
    assert (sys.stdout, sys.stderr) == before
    assert terminal.shown() == ["from a tool", "half", "picture"]
    assert terminal.frames[0] == "\x1b[?2026h\x1b[?25l\x1b[?2026l"
    assert "\x1b[?25h" in terminal.frames[-1]


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_a_terminal_that_has_gone_is_no_error() -> None:
    screen = Screen(Gone(), lambda: (20, 5))
    screen.paint(lines("a"))
    screen.paint(lines("b"))
