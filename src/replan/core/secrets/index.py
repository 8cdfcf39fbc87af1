"""Many texts, looked for together: in a time that grows with the text that is gone through, and not with their number.

A text that is looked for and has seven bytes or more covers four bytes that begin at a multiple of four, wherever it
stands: these alone are looked up. A shorter one is looked up at every byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import byteorder

_BLOCK = 4
_OFFSETS = range(_BLOCK)
from_bytes = int.from_bytes
_FAR = 2 * _BLOCK - 1
_PIECE = 16_384
"""Bytes that are gone through at once, so that a thread that does it lets others run."""
_OF_WORDS = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


_NONE: set[int] = set()
"""Shared by all that have nothing yet, as those of thousands of tasks; nothing is added to it."""


class Index:
    """Grows while other threads look: what they find is whole. Nothing is ever taken out, and each step by itself is atomic."""

    __slots__ = ("_begin", "_far", "_lengths", "_near", "_texts")

    def __init__(self) -> None:
        self._texts: dict[bytes, bool] = {}
        """Each, and whether it counts only where no letter or digit stands beside it."""
        self._lengths: dict[bytes, set[int]] = {}
        """The lengths of those that begin alike."""
        self._begin: tuple[set[int], ...] = ()
        """Blocks of long ones, by the offset at which they stand in them."""
        self._far: set[int] = _NONE
        """The same, all together."""
        self._near: set[int] = _NONE
        """The beginnings of short ones."""

    def add(self, texts: Iterable[bytes], *, word: bool) -> None:
        """Four bytes at least each."""
        for text in texts:
            known = text in self._texts
            if word:
                self._texts.setdefault(text, True)
            else:
                self._texts[text] = False
            if not known:
                self._enter(text)

    def _enter(self, text: bytes) -> None:
        far = len(text) >= _FAR
        begins = text[: _FAR if far else _BLOCK]
        self._lengths.setdefault(begins, set()).add(len(text))
        if not far:
            if self._near is _NONE:
                self._near = set()
            self._near.add(from_bytes(begins, byteorder))
            return
        if self._far is _NONE:
            self._begin = tuple(set() for _ in _OFFSETS)
            self._far = set()
        for offset in _OFFSETS:
            block = from_bytes(text[offset : offset + _BLOCK], byteorder)
            self._begin[offset].add(block)
            self._far.add(block)

    def _found_far(self, data: bytes, blocks: list[int], at: int) -> Iterator[tuple[int, int]]:
        for number, block in enumerate(blocks):
            if block in self._far:
                for offset in _OFFSETS:
                    start = at + number * _BLOCK - offset
                    if block in self._begin[offset] and start >= 0:
                        yield from self._from(data, start, _FAR)

    def _found_near(self, data: bytes, blocks: list[int], at: int) -> Iterator[tuple[int, int]]:
        for number, block in enumerate(blocks):
            if block in self._near:
                yield from self._from(data, at + number * _BLOCK, _BLOCK)

    def _from(self, data: bytes, start: int, begins: int) -> Iterator[tuple[int, int]]:
        """The longest one that begins here."""
        for length in sorted(self._lengths.get(data[start : start + begins], ()), reverse=True):
            end = start + length
            word = self._texts.get(data[start:end]) if end <= len(data) else None
            if word is not None and not (word and _inside_a_word(data, start, end)):
                yield start, end
                return


def find(indexes: Iterable[Index], data: bytes) -> list[tuple[int, int]]:
    """Where the texts of all indexes stand, in no order; of those that begin at one place, the longest."""
    far = [index for index in indexes if index._far]
    near = [index for index in indexes if index._near]
    found: list[tuple[int, int]] = []
    if len(data) < _BLOCK:
        return found
    for at in range(0, len(data), _PIECE):
        if far:
            blocks = _blocks(data[at : at + _PIECE])
            for index in far:
                if not index._far.isdisjoint(blocks):
                    found += index._found_far(data, blocks, at)
        for shift in _OFFSETS if near else ():
            blocks = _blocks(data[at + shift : at + shift + _PIECE])
            for index in near:
                if not index._near.isdisjoint(blocks):
                    found += index._found_near(data, blocks, at + shift)
    return found


def _blocks(data: bytes) -> list[int]:
    return memoryview(data)[: len(data) // _BLOCK * _BLOCK].cast("I").tolist()


def _inside_a_word(data: bytes, start: int, end: int) -> bool:
    return (start > 0 and data[start - 1] in _OF_WORDS) or (end < len(data) and data[end] in _OF_WORDS)
