"""Passing on the pieces of an answer, so that a second try does not say the same thing twice."""

from __future__ import annotations

from collections.abc import Callable


class Relay:
    """Hands pieces to a listener over several tries of one answer.

    A new try repeats in silence what the listener has heard already; one that says something else stays
    silent to its end, since what was said cannot be taken back.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._told = ""
        self._now = ""

    def begin(self) -> None:
        """A new try starts."""
        self._now = ""

    def __call__(self, piece: str) -> None:
        self._now += piece
        if len(self._now) > len(self._told) and self._now.startswith(self._told):
            news = self._now[len(self._told) :]
            self._told = self._now
            self._on_text(news)
