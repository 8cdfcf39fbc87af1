"""Sets of names that thousands of others have most of in common: each is a number with a bit for each name.

Of what goes by all that comes before it, plain sets take room by the square of its length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

_ROOM = 1 << 256


class Names:
    """Gives each name its place."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self.all: list[str] = []
        self.prints: list[int] = []

    def place(self, name: str) -> int:
        place = self._places.setdefault(name, len(self.all))
        if place == len(self.all):
            self.all.append(name)
            self.prints.append(_print(name))
        return place

    def those(self, names: Iterable[str]) -> NameSet:
        bits = 0
        for name in names:
            bits |= 1 << self.place(name)
        return NameSet(self, bits, sum(self.prints[at] for at in _places(bits)) % _ROOM)


class NameSet:
    """Some of them. Two are equal if they have the same names, whoever gives these their places."""

    __slots__ = ("_bits", "_names", "print")

    def __init__(self, names: Names | None, bits: int, print_: int) -> None:
        self._names = names
        self._bits = bits
        self.print = print_
        """By which it is told from others."""

    @classmethod
    def alone(cls, name: str) -> NameSet:
        """A set that is only compared: its one name needs no place."""
        return cls(None, 0, _print(name))

    def union(self, *others: NameSet) -> NameSet:
        """With those of others, which have their places from the same `Names`."""
        sets = [one for one in (self, *others) if one._bits]
        if not sets:
            return self
        most = max(sets, key=lambda one: one._bits.bit_count())
        names, bits, found = most._names, most._bits, most.print
        assert names is not None
        for one in sets:
            if more := one._bits & ~bits:
                bits |= more
                found += sum(names.prints[at] for at in _places(more))
        return most if bits == most._bits else NameSet(names, bits, found % _ROOM)

    def isdisjoint(self, other: NameSet) -> bool:
        return not self._bits & other._bits

    def __iter__(self) -> Iterator[str]:
        names = self._names
        return iter(()) if names is None else (names.all[at] for at in _places(self._bits))

    def __bool__(self) -> bool:
        return self.print != 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameSet) and self.print == other.print

    def __hash__(self) -> int:
        return hash(self.print)


NO_NAMES = NameSet(None, 0, 0)


def _print(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest())


def _places(bits: int) -> Iterator[int]:
    if bits.bit_count() > 16:
        written = bin(bits)[:1:-1]
        at = written.find("1")
        while at >= 0:
            yield at
            at = written.find("1", at + 1)
        return
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1
