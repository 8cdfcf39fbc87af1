"""An answer in prose where an object was wanted: asked for once more as an object, said again it counts for what it says."""

from __future__ import annotations

import re
from collections.abc import Callable

from replan.core.data.read_json import Unreadable
from replan.core.data.standing import answers_in
from replan.core.data.taken_back import takes_back
from replan.core.types import JsonObject

_SHOWN = 1_000
_LETTER = re.compile(r"[^\W\d_]{2}")
_ASKS = re.compile(r"[?？؟]")


class InWords:
    """What prose stands for that is said again (an `InPlaceOf`). `counts`: which prose does; all, unless told."""

    def __init__(
        self, stands_for: Callable[[str], JsonObject], counts: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._stands_for = stands_for
        self._counts = counts

    def __call__(self, text: str, *, again: bool, last: bool = False) -> JsonObject | None:
        said = _prose(text) if again else ""
        return self._stands_for(said) if said and self._counts(said) else None


def asks_something(said: str) -> bool:
    """True of prose with a question in it."""
    return _ASKS.search(said) is not None


def asks_or_refuses(said: str) -> bool:
    """True of prose with a question in it, or that says no."""
    return asks_something(said) or takes_back(said, of_a_failure=True)


def _prose(text: str) -> str:
    """The words of an answer that holds no object, nor half of one; no words of a length that nobody reads."""
    said = text.strip()
    if len(said) > _SHOWN or not _LETTER.search(said):
        return ""
    try:
        answers_in(said)
    except Unreadable as error:
        return "" if error.begun else said
    return ""
