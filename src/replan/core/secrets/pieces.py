"""A text that comes piece by piece, told without secrets."""

from __future__ import annotations

from replan.core.masked import MASK
from replan.core.secrets.known import KnownSecrets
from replan.core.secrets.references import readings


class Pieces:
    """Tells a text as it comes; what may be the beginning of a secret is held back until more is there.

    `whole`: what comes may hold secrets that are known only at its end, so it is told then.
    """

    __slots__ = ("_before", "_held", "_known", "_whole", "masked")

    def __init__(self, known: KnownSecrets, *, whole: bool = False, before: str = "") -> None:
        self._known = known
        self._whole = whole
        self._held = ""
        self._before = before
        """The sign before what is held, that words are told apart by."""
        self.masked = False
        """A secret was in it."""

    def take(self, piece: str) -> str:
        """What may be told of the text by now, beyond what was."""
        if not self._known and not self._held and not self._whole:
            self._before = piece[-1:] or self._before
            return piece
        self._held += piece
        return "" if self._whole else self._told(self._sure())

    def _sure(self) -> int:
        """Up to where no secret begins that may not have come whole: it may be all references, each of several signs."""
        reach = self._known.reach()
        upto = len(self._held) - reach
        if upto <= 0 or not self._known:
            return upto
        behind = (
            read.begins(len(read.text) - reach) if len(read.text) > reach else 0
            for read in readings(self._held)
        )
        return min(upto, *behind, upto)

    def rest(self) -> str:
        """The text has come to its end."""
        return self._told(len(self._held))

    def _told(self, upto: int) -> str:
        if upto <= 0:
            return ""
        if not self._known:
            return self._cut(upto)
        before = len(self._before)
        parts: list[str] = []
        at = 0
        for start, masked_from, end in self._known.places(self._before + self._held, before):
            if start - before >= upto:
                break
            if end - before > upto:
                upto = start - before
                break
            parts += (self._held[at : masked_from - before], MASK)
            at = end - before
            self.masked = True
        return "".join([*parts, self._cut(upto)[at:]])

    def _cut(self, upto: int) -> str:
        told, self._held = self._held[:upto], self._held[upto:]
        self._before = told[-1:] or self._before
        return told
