"""How a value stands in a model's answer: as the answer, inside a thought, or in words that may take it back."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from replan.core.data.lead_ins import more_than_introduces, without_tags
from replan.core.data.read_json import END_OF_THOUGHTS, Placed, Unreadable, placed

_BEGIN_OF_THOUGHTS = re.compile(
    r"<(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis)\s?>"
    r"|\[THINK\]|◁think▷|<\|START_THINKING\|>",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w")
_GOES_ON = re.compile(r"[^\S\n]*[\"'`”’»*_~)\]]*[^\S\n]*(?:[,;?)…，；？）]|[^\W\d_A-Z])")
"""How a line goes on behind a value that is a part of its sentence."""
_BLANKS = re.compile(r"[^\S\n]{2,}|\n{2,}")
_LOOKED_AT = 50_000
"""Characters at each end of what is said; whether more of them are words makes no difference."""


class Standing(NamedTuple):
    """A value of an answer, and how it stands there."""

    value: Any
    words: str = ""
    """What is said around it and does more than introduce or close it."""
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
    places = sorted(place for one in found for place in one.places)
    marks = _marks(text, places)
    rest = _without([*places, *((mark.start, mark.end) for mark in marks)], text)
    said = [one for one in found if not _only_thought(one, rest, marks)]
    if not said:
        raise Unreadable("the answer holds no JSON object but in a thought", begun=False)
    parts, thoughts = _said(rest, marks)
    parts += [rest[slice(*place)] for place in thoughts if place[0] >= places[-1][1]]  # second thoughts
    thought_in = [
        next((place for place in thoughts if place[0] <= one.start < place[1]), None) for one in said
    ]
    around = {
        place: _around(parts if place is None else [rest[slice(*place)], *parts])
        for place in dict.fromkeys(thought_in)
    }
    return [_standing(one, rest, around[place]) for one, place in zip(said, thought_in, strict=True)]


def _without(places: Iterable[tuple[int, int]], text: str) -> str:
    """The text with blanks in these places."""
    parts, at = [], 0
    for start, end in sorted(places):
        if start >= at:
            parts += [text[at:start], " " * (end - start)]
            at = end
    return "".join([*parts, text[at:]])


def _marks(text: str, values: Sequence[tuple[int, int]]) -> list[_Mark]:
    """Where thoughts begin and end, in order; what stands within a value is no such mark."""
    begins = [_Mark(one.start(), one.end(), False) for one in _BEGIN_OF_THOUGHTS.finditer(text)]
    ends = [_Mark(one.start(), one.end(), True) for one in END_OF_THOUGHTS.finditer(text)]

    def is_outside(mark: _Mark) -> bool:
        before = bisect_right(values, (mark.start, len(text))) - 1
        return before < 0 or values[before][1] <= mark.start

    return sorted(filter(is_outside, begins + ends))


def _only_thought(one: Placed, rest: str, marks: list[_Mark]) -> bool:
    next_ = bisect_left(marks, (one.end, 0, False))
    if next_ < len(marks):
        return marks[next_].ends and _has_words(rest, marks[-1].end)
    last = next_ - 1
    return last >= 0 and not marks[last].ends and _has_words(rest, one.end)


def _has_words(rest: str, at: int) -> bool:
    first = _WORD.search(rest, at)
    if first is None:
        return False
    begin = max(at, first.start() - 64)  # it may stand in a tag
    return _WORD.search(without_tags(rest[begin : begin + _LOOKED_AT])[0]) is not None


class _Around(NamedTuple):
    words: str
    strange: tuple[str, ...]
    """Tags that call what is in them something else."""


def _around(parts: list[str]) -> _Around | None:
    """What is said, as far as it does more than introduce an answer or close it."""
    said = _BLANKS.sub(lambda run: run[0][:2], "\n".join(parts))
    if len(said) > 2 * _LOOKED_AT:
        said = f"{said[:_LOOKED_AT]}\n{said[-_LOOKED_AT:]}"
    words, strange = without_tags(said)
    told = more_than_introduces(words)
    return _Around(told, tuple(dict.fromkeys(strange))[:_MOST_STRANGE]) if told else None


_MOST_STRANGE = 20
_LINE = 4_000
"""Characters of a line that are looked at."""


def _standing(one: Placed, rest: str, around: _Around | None) -> Standing:
    if around is None:
        return Standing(one.value)
    quoted = _in_a_line(one, rest) or any(
        rest.rfind(f"<{name}", 0, one.start) >= 0 and rest.find(f"</{name}", one.end) >= 0
        for name in around.strange
    )
    return Standing(one.value, around.words, quoted)


def _said(rest: str, marks: list[_Mark]) -> tuple[list[str], list[tuple[int, int]]]:
    """What is said and not only thought; and where the thoughts are."""
    said: list[str] = []
    thoughts: list[tuple[int, int]] = []
    at, thinks = 0, False
    for mark in marks:
        if mark.ends:
            # a beginning may be lost: then all since the last thought is one
            thoughts.append((at, mark.start))
            thinks = False
        elif thinks:
            continue
        else:
            said.append(rest[at : mark.start])
            thinks = True
        at = mark.end
    return [*said, rest[at:]], thoughts


def _in_a_line(one: Placed, rest: str) -> bool:
    """True if the value is a part of a sentence, or of what is quoted."""
    before = rest[max(rest.rfind("\n", 0, one.start) + 1, one.start - _LINE) : one.start]
    after = rest[one.end : one.end + _LINE].partition("\n")[0]
    if before.strip() == ">":
        return True
    after = without_tags(after)[0]
    return _GOES_ON.match(after) is not None or (
        _WORD.search(after) is not None and _WORD.search(without_tags(before)[0]) is not None
    )
