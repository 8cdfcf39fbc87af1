"""What a call is about, as far as its parameters say it: texts, numbers, and the files and folders that they name.

A file has many names (`conf/c.txt`, `./conf/c.txt`, `/conf/../conf/C.txt`), and what is done to a folder is done to what is in
it. So paths are compared in one form, and a path is about all the folders above it.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from replan.core.types import JsonObject
from replan.core.walk import scalars

LONGEST_PATH = 1_024
LONGEST_COMMAND = 4_096
"""A text of more signs names no file: it is what is written into one."""
MOST_WORDS = 20
"""A line of more is no command."""

_AROUND = "\"'`;,()"


@dataclass(slots=True, frozen=True)
class Things:
    """What one call is about."""

    named: frozenset[str]
    """Its texts and numbers, and the paths among and in them, each in one form."""
    within: frozenset[str]
    """The folders above those paths."""

    def meet(self, other: Things) -> bool:
        """True if both may be about one thing: the same is named by both, or one names a folder that the other's lies in."""
        return not (
            self.named.isdisjoint(other.named)
            and self.named.isdisjoint(other.within)
            and self.within.isdisjoint(other.named)
        )


def things_of(parameters: JsonObject) -> Things:
    """All that these parameters name."""
    named, within = set[str](), set[str]()
    for text in scalars(parameters):
        named.add(text)
        for path in _paths(text):
            named.add(path)
            within.update(_above(path))
    return Things(frozenset(named), frozenset(within))


def words_of(parameters: JsonObject) -> set[str]:
    """What may be named by a word of a command among these parameters: `o` and `c` of `cp o c`."""
    found = set[str]()
    for text in scalars(parameters):
        if len(text) <= LONGEST_PATH and "\n" not in text and 1 < len(words := text.split()) <= MOST_WORDS:
            found.update(_one_form(word.strip(_AROUND)) for word in words[1:] if not word.startswith("-"))
    return found - {""}


def _paths(text: str) -> set[str]:
    """The text as a path, and the paths in it where it is a command, each in one form."""
    found = set[str]()
    if len(text) <= LONGEST_PATH and "\n" not in text:
        found.add(_one_form(text))
    pieces = text.split() if len(text) <= LONGEST_COMMAND else []
    if len(pieces) > 1:
        found.update(_one_form(piece.strip(_AROUND)) for piece in pieces if _looks_like_one(piece))
    return found - {""}


def _looks_like_one(piece: str) -> bool:
    return "/" in piece or "\\" in piece or "." in piece.strip(".,;:!?") or piece in (".", "*")


def _one_form(text: str) -> str:
    """`/`: the folder that all lies in, from wherever it is counted. A pattern is the folder that it is for."""
    if not text.strip():
        return ""
    parts = text.strip().replace("\\", "/").casefold().split("/")
    wild = next((at for at, part in enumerate(parts) if "*" in part), len(parts))
    path = posixpath.normpath("/" + "/".join(parts[:wild]))
    return path.replace("//", "/")


def _above(path: str) -> set[str]:
    found = {"/"} if path != "/" else set[str]()
    while (path := posixpath.dirname(path)) != "/":
        found.add(path)
    return found
