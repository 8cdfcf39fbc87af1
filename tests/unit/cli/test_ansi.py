"""Styled lines are written as rich would write them."""

from __future__ import annotations

import io
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from replan.cli.live.ansi import Ansi
from thorough import examples

STYLES = st.sampled_from(
    ["", "dim", "bold red", "bold cyan", "not bold", "not bold default", "magenta", "default"]
)
PARTS = st.lists(st.tuples(st.text("ab 名→", max_size=6), STYLES), max_size=6)


@pytest.mark.parametrize("no_color", [False, True])
@pytest.mark.parametrize("system", [None, "standard", "256", "truecolor"])
@settings(max_examples=examples(60), deadline=None)
@given(PARTS, STYLES, st.integers(1, 30))
def test_a_line_is_written_as_rich_writes_it(
    system: Literal["standard", "256", "truecolor"] | None,
    no_color: bool,
    parts: list[tuple[str, str]],
    base: str,
    width: int,
) -> None:
    console = Console(
        file=io.StringIO(),
        width=200,
        color_system=system,
        force_terminal=True,
        no_color=no_color,
        highlight=False,
        markup=False,
    )
    text = Text(style=base)
    for part, style in parts:
        text.append(part, style=style)
    text.truncate(width, overflow="ellipsis")
    line = Ansi(console).line(text)
    assert line.cells == text.cell_len
    with console.capture() as written:
        console.print(text, end="", soft_wrap=True)
    assert _seen(line.text) == _seen(written.get())


def _seen(text: str) -> list[tuple[str, str]]:
    """Each character with the style that it has."""
    seen: list[tuple[str, str]] = []
    style = ""
    while text:
        if text.startswith("\x1b["):
            style, _, text = text[2:].partition("m")
            style = "" if style == "0" else style
        else:
            seen.append((text[0], style))
            text = text[1:]
    return seen
