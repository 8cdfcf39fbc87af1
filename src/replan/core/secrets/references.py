"""A text as whoever displays it reads it: with the signs that HTML and JSON write as numbers or by name.

Which signs are written so differs from one escaper to the next, and so do the digits: `&#43;`, `&#x2B;`, `&#043;`,
`\\u002B`, `\\u002b`. Reading them undoes them all, where a list of what each writes would always lack the next one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

_NAMES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": "\u00a0"}
_REFERENCE = re.compile(
    r"&(?:amp;){0,2}(?:#0{0,4}(?P<decimal>[0-9]{1,7})|#[xX]0{0,4}(?P<hex>[0-9a-fA-F]{1,6})|(?P<name>amp|lt|gt|quot|apos|nbsp));"
    r"|\\{1,4}u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\{1,4}u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\{1,4}u(?P<unit>[0-9a-fA-F]{4})"
)
"""Also in HTML within HTML, and in JSON within JSON."""
LONGEST = 22
"""Characters of one, at the most."""
_LAST = 0x10FFFF


class AsRead:
    """A text with its references read, and where each sign of it stands in what was written."""

    __slots__ = ("_at", "_from", "_upto", "text")

    def __init__(self, written: str) -> None:
        self._at: list[int] = []
        """Where signs that were written as references stand in `text`."""
        self._from: list[int] = []
        self._upto: list[int] = []
        """Where these begin and end in what was written."""
        self.text = "".join(self._parts(written))

    def __bool__(self) -> bool:
        """True if there was a reference to read."""
        return bool(self._at)

    def _parts(self, written: str) -> Iterator[str]:
        done = read = 0
        for found in _REFERENCE.finditer(written):
            if (sign := _sign(found)) is None:
                continue
            read += found.start() - done
            self._at.append(read)
            self._from.append(found.start())
            self._upto.append(found.end())
            yield written[done : found.start()]
            yield sign
            read += 1
            done = found.end()
        yield written[done:]

    def begins(self, sign: int) -> int:
        """Where in what was written a sign begins."""
        last = bisect_right(self._at, sign) - 1
        if last < 0:
            return sign
        beyond = sign - self._at[last]
        return self._upto[last] + beyond - 1 if beyond else self._from[last]

    def ends(self, sign: int) -> int:
        """Where in what was written it ends."""
        last = bisect_right(self._at, sign) - 1
        return sign + 1 if last < 0 else self._upto[last] + sign - self._at[last]


def may_hold_references(text: str) -> bool:
    return "&" in text or "\\u" in text


def _sign(found: re.Match[str]) -> str | None:
    """The sign that it stands for; None if there is no such sign."""
    if name := found["name"]:
        return _NAMES[name]
    if found["high"]:
        return chr(0x10000 + ((int(found["high"], 16) & 0x3FF) << 10) + (int(found["low"], 16) & 0x3FF))
    number = int(found["decimal"]) if found["decimal"] else int(found["hex"] or found["unit"], 16)
    return chr(number) if number <= _LAST else None
