"""How secrets may be written in a text, and whether they are in one."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import re
import unicodedata
from collections.abc import Collection, Iterator
from html.entities import codepoint2name
from urllib.parse import quote, quote_plus

SHORT, LONG = 4, 8
"""A value is hidden anywhere in a text from LONG characters on, as a word of its own from SHORT, else beside its name."""
_COMMON = frozenset(
    ["true", "false", "null", "none", "undefined", "yes", "no", "on", "off", "empty", "dummy", "test", "ollama",
     "local", "default", "password", "secret", "token", "basic", "bearer"]
)  # fmt: skip
"""Values of no secrecy that stand where a secret would: hidden beside their names only."""
_SIGNIFICANT_BASE64 = 10
_BETWEEN = 5
"""Signs between a name and its value, at the most."""


def is_plain_word(value: str) -> bool:
    """True for a value that is hidden beside its name only."""
    return len(value) < SHORT or value.casefold() in _COMMON


class Spellings:
    """The ways in which the known values may be written.

    A pattern is made for a text, of what is in it: one of everything would have to be made anew with each value that
    comes to be known, which takes a tenth of a second and more where there are many.
    """

    __slots__ = ("_anywhere", "_named", "_words", "longest")

    def __init__(self) -> None:
        self._anywhere: dict[str, None] = {}
        self._words: dict[str, None] = {}
        self._named: dict[tuple[str, str], str] = {}
        """Name and value of plain words; the value as it is looked for."""
        self.longest = 0

    def add(self, value: str, names: Collection[str]) -> None:
        """Know one more value, or more names of it."""
        if is_plain_word(value):
            self._named.update({(name, value): value.casefold() for name in names})
            self.longest = max([self.longest, *(len(name) + len(value) + _BETWEEN for name in names)])
            return
        spelt = {text for text in _spellings(value) if len(text) >= SHORT}
        if len(value) >= LONG:
            spelt.update(_base64_cores(value))
        (self._anywhere if len(value) >= LONG else self._words).update(dict.fromkeys(spelt))
        self.longest = max(self.longest, *map(len, spelt))

    def quoted_in(self, text: str) -> re.Pattern[str] | None:
        """What finds the values that the text quotes, the longest first; None if it quotes none."""
        either = _escaped(each for each in list(self._anywhere) if each in text)
        if words := _escaped(each for each in list(self._words) if each in text):
            either.append(rf"(?<![0-9A-Za-z])(?:{'|'.join(words)})(?![0-9A-Za-z])")
        return re.compile("|".join(either)) if either else None

    def named_in(self, text: str) -> re.Pattern[str] | None:
        """What finds plain words beside their names; None if none of the words is in the text."""
        if not self._named:
            return None
        folded = text.casefold()
        beside = [
            rf"\b{re.escape(name)}[\"']?\s?[:=]\s?[\"']?{re.escape(value)}"
            for (name, value), seen in list(self._named.items())
            if seen in folded
        ]
        return re.compile(rf"({'|'.join(beside)})(?![0-9A-Za-z])", re.IGNORECASE) if beside else None


def _escaped(texts: Iterator[str]) -> list[str]:
    return [re.escape(text) for text in sorted(texts, key=len, reverse=True)]


def _spellings(value: str) -> Iterator[str]:
    """The value as texts write it: as it is, quoted, escaped, in an address, in base64, and other writings of its letters."""
    for each in {value, unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value)}:
        yield from _spellings_of(each)
    if not value.isascii():
        yield "".join(_entity(letter) for letter in value)
        with contextlib.suppress(UnicodeEncodeError):
            yield from _percent(value.encode("latin-1"))


def _entity(letter: str) -> str:
    name = codepoint2name.get(ord(letter))
    return f"&{name};" if name else letter


def _percent(value: str | bytes) -> Iterator[str]:
    for quoted in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
        yield quote(quoted, safe="")  # an address inside of another one


def _spellings_of(value: str) -> Iterator[str]:
    yield value
    yield value.strip()
    yield " ".join(value.split())
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]
        yield escaped.replace("/", "\\/")  # as PHP writes JSON
    yield repr(value)[1:-1]
    raw = value.encode("utf-8", "surrogatepass")
    yield repr(raw)[2:-1]
    yield raw.hex()
    yield raw.hex().upper()
    yield html.escape(value)
    yield from _percent(value)


def _base64_cores(value: str) -> Iterator[str]:
    """The part of any base64 text around the value that the value alone decides."""
    # HTTP's basic authentication is written in latin-1 by many clients
    for raw in {value.encode("utf-8", "surrogatepass"), value.encode("latin-1", "replace")}:
        for before in range(3):
            text = base64.b64encode(b"\0" * before + raw).decode()
            core = text[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
            if len(core) >= _SIGNIFICANT_BASE64:
                yield core
                yield core.replace("+", "-").replace("/", "_")
