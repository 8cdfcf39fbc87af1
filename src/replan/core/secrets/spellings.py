"""How the known values may be written in a text, and where they are in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replan.core.secrets.beside_names import LONGEST_BETWEEN, BesideNames
from replan.core.secrets.escapes import spellings
from replan.core.secrets.index import Index, find
from replan.core.secrets.references import LONGEST, readings

SHORT, LONG = 4, 8
"""A value is hidden anywhere in a text from LONG characters on, as a word of its own from SHORT, else beside its name."""
_COMMON = frozenset(
    ["true", "false", "null", "none", "undefined", "yes", "no", "on", "off", "empty", "dummy", "test", "ollama",
     "local", "default", "password", "secret", "token", "basic", "bearer"]
)  # fmt: skip
"""Values of no secrecy that stand where a secret would: hidden beside their names only."""


def is_plain_word(value: str) -> bool:
    """True for a value that is hidden beside its name only."""
    return len(value) < SHORT or value.casefold() in _COMMON


class Spellings:
    """The ways in which some known values may be written."""

    __slots__ = ("index", "longest", "named")

    def __init__(self) -> None:
        self.index = Index()
        self.named = BesideNames()
        self.longest = 0

    def name(self, name: str, value: str) -> None:
        """Know a name under which a value stands."""
        if is_plain_word(value):
            self.named.add(name, value)
            between = LONGEST_BETWEEN * LONGEST
            self.longest = max(self.longest, _longest_read(name) + _longest_read(value) + between)

    def add(self, value: str) -> None:
        """Know one more value."""
        if is_plain_word(value):
            return
        texts = [text for text in spellings(value) if len(text) >= SHORT]
        # Where a text is read, so is what a value itself has of references.
        read = (each.text for each in readings(value))
        texts += (text for text in read if len(text) >= min(len(value), LONG) and not is_plain_word(text))
        self.longest = max(self.longest, _longest_read(value), *map(len, texts))
        self.index.add((text.encode("utf-8", "surrogatepass") for text in texts), word=len(value) < LONG)


class Place(NamedTuple):
    """Where a text says a secret."""

    start: int
    masked_from: int
    """What stands before it is seen: the name beside which a short value is secret."""
    end: int


def _longest_read(value: str) -> int:
    """How long the value may be with signs that are written as references: letters and digits never are, if plain."""
    return sum(1 if sign.isascii() and sign.isalnum() else LONGEST for sign in value)


def may_stand_in(known: Sequence[Spellings], data: bytes) -> bool:
    """False if surely none of the values is in these bytes, text or not."""
    if _stands_in(known, data):
        return True
    read = readings(data.decode("utf-8", "surrogateescape"))
    return any(_stands_in(known, each.text.encode("utf-8", "surrogatepass")) for each in read)


def _stands_in(known: Sequence[Spellings], data: bytes) -> bool:
    return any(each.named.may_stand_in(data) for each in known) or bool(
        find([each.index for each in known], data)
    )


def places_in(known: Sequence[Spellings], text: str, begin: int = 0) -> list[Place]:
    """Where a text has any of the values, from `begin` on, in order; what overlaps is one place."""
    found = [*_places(known, text)]
    for read in readings(text):
        found += (
            Place(read.begins(start), read.begins(masked_from), read.ends(end - 1))
            for start, masked_from, end in _places(known, read.text)
        )
    apart: list[Place] = []
    for place in sorted(found):
        if place.start < begin:
            continue
        if apart and place.start < (last := apart[-1]).end:
            masked_from = min(last.masked_from, place.masked_from)
            apart[-1] = Place(last.start, masked_from, max(last.end, place.end))
        else:
            apart.append(place)
    return apart


def _places(known: Sequence[Spellings], text: str) -> Iterator[Place]:
    """Where it has them as it stands."""
    data = text.encode("utf-8", "surrogatepass")
    quoted = find([each.index for each in known], data)
    if len(data) != len(text) and quoted:
        quoted = _in_signs(data, quoted)
    for start, end in quoted:
        yield Place(start, start, end)
    for each in known:
        for place in each.named.find(text):
            yield Place(*place)


def _in_signs(data: bytes, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same places, counted in characters."""
    at = signs = 0
    known: dict[int, int] = {}
    for each in sorted({edge for place in places for edge in place}):
        signs += len(data[at:each].decode("utf-8", "surrogatepass"))
        known[each], at = signs, each
    return [(known[start], known[end]) for start, end in places]
