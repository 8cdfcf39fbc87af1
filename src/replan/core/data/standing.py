"""How a value stands in a model's answer: as the answer, inside a thought, or in words that may take it back."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, NamedTuple

from replan.core.data.lead_ins import introduces, without_tags
from replan.core.data.read_json import END_OF_THOUGHTS, Placed, Unreadable, placed

_BEGIN_OF_THOUGHTS = re.compile(
    r"<(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis)\s?>"
    r"|\[THINK\]|◁think▷|<\|START_THINKING\|>",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w")
_GOES_ON = re.compile(r"[^\S\n]*(?:[,;?)…，；？）]|[^\W\d_A-Z])")
"""How a line goes on behind a value that is a part of its sentence."""
_LOOKED_AT = 4_000
"""Characters at each end of what is said; whether more of them are words makes no difference."""


class Standing(NamedTuple):
    """A value of an answer, and how it stands there."""

    value: Any
    words: str = ""
    """All that is said around it, unless it only introduces or closes it."""
    quoted: bool = False
    """It stands within a sentence, or in a tag that calls it something else."""


class _Mark(NamedTuple):
    start: int
    end: int
    ends: bool
    """It ends thoughts; else it begins some."""


def answers_in(text: str) -> list[Standing]:
    """Every value that may be the answer; `Unreadable` if there is none.

    What stands in a thought is none where other words follow: the model has thought of it, and said something else.
    """
    found = placed(text)
    if found[0].start == 0 and found[0].end == len(text):
        return [Standing(one.value) for one in found]
    rest = _without([place for one in found for place in one.places], text)
    marks = _marks(rest)
    rest = _without([(mark.start, mark.end) for mark in marks], rest)
    said = [one for one in found if not _only_thought(one, rest, marks)]
    if not said:
        raise Unreadable("the answer holds no JSON object but in a thought", begun=False)
    return [_standing(one, rest, marks) for one in said]


def _without(places: Iterable[tuple[int, int]], text: str) -> str:
    """The text with blanks in these places."""
    parts, at = [], 0
    for start, end in sorted(places):
        if start >= at:
            parts += [text[at:start], " " * (end - start)]
            at = end
    return "".join([*parts, text[at:]])


def _marks(rest: str) -> list[_Mark]:
    """Where thoughts begin and end, in order."""
    begins = [_Mark(one.start(), one.end(), False) for one in _BEGIN_OF_THOUGHTS.finditer(rest)]
    ends = [_Mark(one.start(), one.end(), True) for one in END_OF_THOUGHTS.finditer(rest)]
    return sorted(begins + ends)


def _only_thought(one: Placed, rest: str, marks: list[_Mark]) -> bool:
    next_ = bisect_left(marks, (one.end, 0, False))
    if next_ < len(marks):
        return marks[next_].ends and _has_words(rest[marks[-1].end :])
    last = next_ - 1
    return last >= 0 and not marks[last].ends and _has_words(rest[one.end :])


def _has_words(text: str) -> bool:
    return _WORD.search(without_tags(text[:_LOOKED_AT])[0]) is not None


def _standing(one: Placed, rest: str, marks: list[_Mark]) -> Standing:
    words, strange = without_tags("\n".join(map(_ends_of, _said(one, rest, marks))))
    if introduces(words):
        return Standing(one.value)
    quoted = _in_a_line(one, rest) or any(
        rest.rfind(f"<{name}", 0, one.start) >= 0 and rest.find(f"</{name}", one.end) >= 0 for name in strange
    )
    return Standing(one.value, words, quoted)


def _said(one: Placed, rest: str, marks: list[_Mark]) -> list[str]:
    """What is said and not only thought, and the thought that the value itself stands in."""
    parts: list[str] = []
    at, thinks = 0, False
    for mark in marks:
        if mark.ends:
            # a beginning may be lost: then all since the last thought is one
            if at <= one.start < mark.start:
                parts.append(rest[at : mark.start])
            thinks = False
        elif not thinks:
            parts.append(rest[at : mark.start])
            thinks = True
        else:
            continue
        at = mark.end
    return [*parts, rest[at:]]


def _ends_of(part: str) -> str:
    return part if len(part) <= 2 * _LOOKED_AT else f"{part[:_LOOKED_AT]}\n{part[-_LOOKED_AT:]}"


def _in_a_line(one: Placed, rest: str) -> bool:
    """True if the value is a part of a sentence, or of what is quoted."""
    before = rest[max(rest.rfind("\n", 0, one.start) + 1, one.start - _LOOKED_AT) : one.start]
    after = rest[one.end : one.end + _LOOKED_AT].partition("\n")[0]
    if before.strip() == ">":
        return True
    after = without_tags(after)[0]
    return _GOES_ON.match(after) is not None or (
        _WORD.search(after) is not None and _WORD.search(without_tags(before)[0]) is not None
    )
