"""Many texts, looked for together: in a time that grows with the text that is gone through, and not with their number.

A text that is looked for and has seven bytes or more covers four bytes that begin at a multiple of four, wherever it
stands: these alone are looked up. A shorter one is looked up at every byte.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from sys import byteorder

_BLOCK = 4
_OFFSETS = range(_BLOCK)
from_bytes = int.from_bytes
_FAR = 2 * _BLOCK - 1
_PIECE = 16_384
"""Bytes that are gone through at once, so that a thread that does it lets others run."""
_OF_WORDS = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Index:
    """Grows while others look: what they find is whole."""

    __slots__ = ("_far", "_lengths", "_lock", "_near", "_texts")

    def __init__(self) -> None:
        self._texts: dict[bytes, bool] = {}
        """Each, and whether it counts only where no letter or digit stands beside it."""
        self._lengths: dict[bytes, tuple[int, ...]] = {}
        """The lengths of those that begin alike, the longest first."""
        self._far: dict[int, int] = {}
        """Blocks of long ones, with the offsets (bits) at which they stand in them."""
        self._near: dict[int, int] = {}
        """The beginnings of short ones."""
        self._lock = threading.Lock()

    def add(self, texts: Iterable[bytes], *, word: bool) -> None:
        """Four bytes at least each."""
        with self._lock:
            for text in texts:
                known = self._texts.get(text)
                self._texts[text] = word and known is not False
                if known is None:
                    self._enter(text, len(text))

    def _enter(self, text: bytes, length: int) -> None:
        far = length >= _FAR
        begins = text[: _FAR if far else _BLOCK]
        lengths = self._lengths.get(begins, ())
        if length not in lengths:
            self._lengths[begins] = tuple(sorted((*lengths, length), reverse=True))
        if not far:
            self._near[from_bytes(begins, byteorder)] = 1
            return
        blocks = self._far
        for offset in _OFFSETS:
            block = from_bytes(text[offset : offset + _BLOCK], byteorder)
            blocks[block] = blocks.get(block, 0) | 1 << offset

    def _at(self, data: bytes, at: int, offsets: int, begins: int) -> Iterator[tuple[int, int]]:
        """Those around a block that stands at this place."""
        for offset in range(_BLOCK):
            start = at - offset
            if not offsets >> offset & 1 or start < 0:
                continue
            for length in self._lengths.get(data[start : start + begins], ()):
                end = start + length
                word = self._texts.get(data[start:end]) if end <= len(data) else None
                if word is not None and not (word and _inside_a_word(data, start, end)):
                    yield start, end
                    break


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
                if not index._far.keys().isdisjoint(blocks):
                    for number, block in enumerate(blocks):
                        if offsets := index._far.get(block):
                            found += index._at(data, at + number * _BLOCK, offsets, _FAR)
        for shift in range(_BLOCK) if near else ():
            blocks = _blocks(data[at + shift : at + shift + _PIECE])
            for index in near:
                if not index._near.keys().isdisjoint(blocks):
                    for number, block in enumerate(blocks):
                        if offsets := index._near.get(block):
                            found += index._at(data, at + shift + number * _BLOCK, offsets, _BLOCK)
    return found


def _blocks(data: bytes) -> list[int]:
    return memoryview(data)[: len(data) // _BLOCK * _BLOCK].cast("I").tolist()


def _inside_a_word(data: bytes, start: int, end: int) -> bool:
    return (start > 0 and data[start - 1] in _OF_WORDS) or (end < len(data) and data[end] in _OF_WORDS)
