"""How a value stands in a model's answer: as the answer, inside a thought, or in words that go on after it."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any, Literal, NamedTuple

from replan.core.data.read_json import END_OF_THOUGHTS, Placed, Unreadable, placed

Prose = Literal["", "around", "after"]
"""`around`: words go on where the value ends, as around a quotation. `after`: more than a few stand below it."""

_BEGIN_OF_THOUGHTS = re.compile(
    r"<(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis)\s?>"
    r"|\[THINK\]|◁think▷|<\|START_THINKING\|>",
    re.IGNORECASE,
)
_NO_WORDS = re.compile(r"<[^<>\n]{0,60}>|//[^\n]*|/\*[^*]{0,400}\*/")
"""Tags and comments."""
_WORD = re.compile(r"\w+")
_FEW = 20
"""Words with which a model may close."""
_SHORT = 160
"""Characters of them, for what is written without spaces."""
_LOOKED_AT = 2_000
"""Characters behind a value; whether more of them are words makes no difference."""


class Standing(NamedTuple):
    """A value of an answer, and the words that it stands in."""

    value: Any
    prose: Prose = ""


def answers_in(text: str) -> list[Standing]:
    """Every value that may be the answer; `Unreadable` if there is none.

    What stands in a thought is none where other words follow: the model has thought of it, and said something else.
    """
    found = placed(text)
    if found[0].start == 0 and found[0].end == len(text):
        return [Standing(one.value) for one in found]
    marks = _marks(text)
    said = [one for one in found if not _only_thought(one, text, marks)]
    if not said:
        raise Unreadable("the answer holds no JSON object but in a thought", begun=False)
    starts = [*sorted(one.start for one in found), len(text)]
    return [
        Standing(one.value, _prose(text, one, next(at for at in starts if at >= one.end))) for one in said
    ]


def _marks(text: str) -> list[tuple[int, int, bool]]:
    """Where thoughts begin and end, in order: from, to, whether it is an end."""
    begins = [(one.start(), one.end(), False) for one in _BEGIN_OF_THOUGHTS.finditer(text)]
    ends = [(one.start(), one.end(), True) for one in END_OF_THOUGHTS.finditer(text)]
    return sorted(begins + ends)


def _only_thought(one: Placed, text: str, marks: list[tuple[int, int, bool]]) -> bool:
    next_ = bisect_left(marks, (one.end, 0, False))
    if next_ < len(marks):
        return marks[next_][2] and _has_words(text, marks[-1][1])
    last = bisect_left(marks, (one.start, 0, False)) - 1
    return last >= 0 and not marks[last][2] and _has_words(text, one.end)


def _has_words(text: str, at: int) -> bool:
    return bool(_WORD.search(_NO_WORDS.sub(" ", text[at : at + _LOOKED_AT])))


def _prose(text: str, one: Placed, until: int) -> Prose:
    rest = _NO_WORDS.sub(" ", text[one.end : min(until, one.end + _LOOKED_AT)])
    words = _WORD.findall(rest)
    line = rest.partition("\n")[0]
    quoted = text[text.rfind("\n", 0, one.start) + 1 : one.start].strip() == ">"
    if _WORD.search(line) or (quoted and words):
        return "around"
    return "after" if len(words) > _FEW or sum(map(len, words)) > _SHORT else ""
