"""Bytes of a file as text: which encoding, which lines, how much."""

from __future__ import annotations

import codecs
import mimetypes
from collections.abc import Iterator
from typing import IO, NamedTuple

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 65536


def encoding_of(sample: bytes) -> str | None:
    """The encoding that the beginning of a file speaks for; None for what is no text.

    A byte order mark decides; else UTF-8 if it is that; else `cp1252` (a guess, which the tools tell) unless there are
    control characters that no text has.
    """
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return encoding
    if b"\0" in sample:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # it may end within a character
    except UnicodeDecodeError:
        control = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample)
        return "cp1252" if control * 100 <= len(sample) else None
    return "utf-8"


def media_type(path: str) -> str:
    return mimetypes.guess_type(path)[0] or "application/octet-stream"


class Lines(NamedTuple):
    """Some lines of a text."""

    text: str
    encoding: str
    first: int
    last: int
    """Counted from one; less than `first` if there are none."""
    total: int | None
    """How many lines the file has; None if it was not read to its end."""
    more: bool


def read_lines(file: IO[bytes], encoding: str, first: int, last: int | None, most_bytes: int) -> Lines:
    """The lines from `first` to `last`, at most `most_bytes` of them; the rest is not kept in memory."""
    kept: list[str] = []
    room, number, more, cut = most_bytes, 0, False, False
    total: int | None = None
    for number, line in enumerate(_decoded(file, encoding, most_bytes), 1):
        if number < first:
            continue
        if last is not None and number > last:
            more = True
            break
        size = len(line.encode("utf-8", "surrogatepass"))
        if size > room:
            more = True
            if not kept:  # one line that is too long: its beginning
                kept.append(line.encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore"))
                cut = True
            break
        kept.append(line)
        room -= size
    else:
        total = number
    return Lines("".join(kept), encoding, first, first + len(kept) - 1, total, more or cut)


def _decoded(file: IO[bytes], encoding: str, longest: int) -> Iterator[str]:
    """The lines with their ends; longer ones in pieces, so that a file without lines does not fill the memory."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    pending = ""
    while True:
        block = file.read(_SAMPLE)
        pending += decoder.decode(block, final=not block)
        lines = pending.split("\n")
        pending = lines.pop()
        for line in lines:
            yield line + "\n"
        while len(pending) > longest:
            yield pending[:longest]
            pending = pending[longest:]
        if not block:
            if pending:
                yield pending
            return
