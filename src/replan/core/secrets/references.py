"""A text as whoever displays it reads it: with the signs that HTML, JSON, JavaScript and addresses write as numbers or by name.

Which signs are written so differs from one escaper to the next, and so do the digits: `&#43;`, `&#x2B;`, `&plus;`,
`\\u002B`, `\\x2b`, `%2B`. Reading them undoes them all, where a list of what each writes would always lack the next one. What one
of them has written may stand in what another one writes (`\\u0026#43;`), so it is read again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from html.entities import html5

_NAMES = {name[:-1]: sign for name, sign in html5.items() if name.endswith(";") and len(sign) == 1}
_REFERENCE = re.compile(
    r"&(?:amp;){0,2}(?:#0{0,4}(?P<decimal>[0-9]{1,7})|#[xX]0{0,4}(?P<hex>[0-9a-fA-F]{1,6})|(?P<name>[a-zA-Z][a-zA-Z0-9]{1,7}));"
    r"|%(?P<percent>[0-9a-fA-F]{2})"
    r"|(?:(?<!\\)(?:\\\\){1,2}|\\)(?:"
    r"u(?P<high>[dD][89abAB][0-9a-fA-F]{2})(?:(?:\\\\){1,2}|\\)u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u(?P<unit>[0-9a-fA-F]{4})|x(?P<byte>[0-9a-fA-F]{2}))"
)
"""Also in HTML within HTML, and in JSON within JSON, where backslashes are doubled; before an odd number of them but one stand others, each as two.
No sign that a password may have has a name of more than eight letters alone."""
_MOST_ROUNDS = 3
_SIGNS = ("&", "\\u", "\\x", "%")
LONGEST = 22
"""Characters of one, at the most."""
_LAST = 0x10FFFF


class AsRead:
    """A text with its references read, and where each sign of it stands in what was written."""

    __slots__ = ("_at", "_before", "_from", "_upto", "text")

    def __init__(self, written: str, before: AsRead | None = None) -> None:
        """`before`: what was written is what that has read."""
        self._before = before
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
        """Where in what was written at first a sign begins."""
        last = bisect_right(self._at, sign) - 1
        if last < 0:
            here = sign
        else:
            beyond = sign - self._at[last]
            here = self._upto[last] + beyond - 1 if beyond else self._from[last]
        return here if self._before is None else self._before.begins(here)

    def ends(self, sign: int) -> int:
        """Where in what was written at first it ends."""
        last = bisect_right(self._at, sign) - 1
        here = sign + 1 if last < 0 else self._upto[last] + sign - self._at[last]
        return here if self._before is None else self._before.ends(here - 1)


def readings(written: str) -> Iterator[AsRead]:
    """The text with its references read, and with those read that come of it."""
    read: AsRead | None = None
    for _ in range(_MOST_ROUNDS):
        if not any(sign in written for sign in _SIGNS):
            return
        read = AsRead(written, read)
        if not read:
            return
        yield read
        written = read.text


def _sign(found: re.Match[str]) -> str | None:
    """The sign that it stands for; None if there is no such sign."""
    if name := found["name"]:
        return _NAMES.get(name)
    if found["high"]:
        return chr(0x10000 + ((int(found["high"], 16) & 0x3FF) << 10) + (int(found["low"], 16) & 0x3FF))
    number = (
        int(found["decimal"])
        if found["decimal"]
        else int(found["hex"] or found["unit"] or found["byte"] or found["percent"], 16)
    )
    return chr(number) if number <= _LAST else None
