"""Values of no secrecy by themselves (`test`, `1234`), found beside the names that they are secret under."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BETWEEN = re.compile(r"[\"']?\s?[:=]\s?[\"']?")
LONGEST_BETWEEN = 5
"""Signs between a name and its value, at the most."""
_WORD = re.compile(r"\w")
_FEW = 8
_KELVIN = "\u212a".encode()
"""The only other sign whose small letter is one of ASCII."""


class BesideNames:
    __slots__ = ("_name_lengths", "_names", "_value_lengths")

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str]] = {}
        """Of each value."""
        self._name_lengths: tuple[int, ...] = ()
        self._value_lengths: tuple[int, ...] = ()

    def add(self, name: str, value: str) -> None:
        name, value = _folded(name), _folded(value)
        self._name_lengths = tuple({*self._name_lengths, len(name)})
        self._value_lengths = tuple(sorted({*self._value_lengths, len(value)}, reverse=True))
        self._names[value] = self._names.get(value, frozenset()) | {name}

    def find(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Where such values stand beside a name of theirs: where the name begins, the value, and where that ends."""
        if not self._names:
            return
        folded = _folded(text)
        if len(self._names) <= _FEW and not any(value in folded for value in list(self._names)):
            return
        for between in _BETWEEN.finditer(folded):
            start = between.end()
            for length in self._value_lengths:
                end = start + length
                names = self._names.get(folded[start:end]) if end <= len(folded) else None
                if names is None or _of_word(folded[end : end + 1]):
                    continue
                if (name := self._name_before(folded, between.start(), names)) is not None:
                    yield name, start, end
                    break

    def may_stand_in(self, data: bytes) -> bool:
        """False if none of the values is in these bytes."""
        if not self._names:
            return False
        lower = data.lower().replace(_KELVIN, b"k")
        return any(not value.isascii() or value.encode() in lower for value in list(self._names))

    def _name_before(self, text: str, end: int, names: frozenset[str]) -> int | None:
        for length in self._name_lengths:
            start = end - length
            if start >= 0 and text[start:end] in names:
                before = text[start - 1] if start else ""
                if not (_WORD.match(before) and _WORD.match(text, start)):
                    return start
        return None


def _of_word(sign: str) -> bool:
    return sign.isascii() and sign.isalnum()


def _folded(text: str) -> str:
    """In small letters, each sign at its place."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join([each if len(each := sign.lower()) == 1 else sign for sign in text])
