"""An answer in prose where an object was wanted: asked for once more as an object, said again it counts for what it says."""

from __future__ import annotations

import re
from collections.abc import Callable

from replan.core.data.nothing import says_nothing_is_left
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


_READ = 2_000
_SENTENCE = re.compile(r"[.!:;\n]\s+|\n")


_QUESTION = re.compile(r"(?<![^.!:;?\n？。！：；])[^.!:;?\n？。！：；]*+[?？]")
_ASKING = r"(?:(?:and|so|or)\s+)?(?:which|what|who|whom|whose|where|when|how|why|is|are|am|shall|should|may|can|could|do|does|will|would)\b"
_CLAUSES = re.compile(rf",\s+(?={_ASKING})", re.IGNORECASE)
_BEGINS_TO_ASK = re.compile(_ASKING, re.IGNORECASE)
_REASON = re.compile(r"\b(?:because|since|due\s+to|as\s+long\s+as)\b", re.IGNORECASE)
_HINDERED = re.compile(
    r"\b(?:(?:im)?possible|allowed|permitted|(?:has|have|had)\s+to|must|blocked|frozen|refused|denied|forbidden)\b",
    re.IGNORECASE,
)


def last_sentence(said: str) -> str:
    return _SENTENCE.split(said.strip())[-1]


def asks_for_more(said: str) -> bool:
    """True if one of its questions is another than whether anything else is wanted."""
    asked: list[str] = []
    for one in _QUESTION.findall(said[:_READ]):
        clauses = [part.strip() for part in _CLAUSES.split(one)]
        asked += [part for part in clauses if _BEGINS_TO_ASK.match(part)] or clauses[-1:]
    return not all(map(says_nothing_is_left, asked or [last_sentence(said)]))


def gives_a_reason(said: str) -> bool:
    """True if words that nothing is left say also why nothing can be done, and so are a refusal."""
    reasons = _REASON.split(said[:_READ])[1:]
    return _HINDERED.search(said[:_READ]) is not None or not all(map(says_nothing_is_left, reasons))
