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
        self._told: list[str] = []
        self._known = ""
        """What the tries before this one have told."""
        self._same: int | None = 0
        """So much of it has this try repeated; None: it says something else."""

    def begin(self) -> None:
        """A new try starts."""
        self._known, self._same = "".join(self._told), 0

    def __call__(self, piece: str) -> None:
        if self._same is None:
            return
        again = self._known[self._same : self._same + len(piece)]
        if not piece.startswith(again):
            self._same = None
            return
        self._same += len(again)
        if news := piece[len(again) :]:
            self._told.append(news)
            self._on_text(news)
