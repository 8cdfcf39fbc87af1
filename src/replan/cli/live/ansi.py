"""Lines of the picture as a terminal is written them: rich's own way takes ten times as long, and this is done ten times a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.color import ColorSystem
from rich.style import Style

from replan.cli.live.screen import Line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_SYSTEMS = {
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
    "windows": ColorSystem.WINDOWS,
}


class Ansi:
    """For one terminal, as rich knows it."""

    def __init__(self, console: Console) -> None:
        self._system = _SYSTEMS.get(console.color_system or "")
        self._no_color = console.no_color
        self._around: dict[tuple[str, str], tuple[str, str]] = {}
        """What begins and what ends a style, by that of the line and that of the part."""

    def line(self, text: Text) -> Line:
        """Its parts lie behind each other, as `Text.append` puts them."""
        plain = text.plain
        parts: list[str] = []
        at = 0
        for start, end, style in text.spans:
            parts += [
                self._styled(plain[at:start], str(text.style), ""),
                self._styled(plain[start:end], str(text.style), str(style)),
            ]
            at = end
        parts.append(self._styled(plain[at:], str(text.style), ""))
        return Line("".join(parts), text.cell_len)

    def _styled(self, text: str, line: str, part: str) -> str:
        if not text:
            return ""
        around = self._around.get((line, part))
        if around is None:
            around = self._around[line, part] = self._made(line, part)
        return f"{around[0]}{text}{around[1]}"

    def _made(self, line: str, part: str) -> tuple[str, str]:
        if self._system is None:
            return "", ""
        style = Style.parse(line) + Style.parse(part)
        begin, _, end = (
            (style.without_color if self._no_color else style)
            .render("\0", color_system=self._system)
            .partition("\0")
        )
        return begin, end
