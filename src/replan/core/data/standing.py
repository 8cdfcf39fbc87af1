"""How a value stands in a model's answer: as the answer, inside a thought, or in words that may take it back."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from replan.core.data.lead_ins import Tag, is_wrapper, more_than_introduces, strange_tags, without_tags
from replan.core.data.read_json import END_OF_THOUGHTS, Placed, Unreadable, placed

_BEGIN_OF_THOUGHTS = re.compile(
    r"<(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis)\s?>"
    r"|\[THINK\]|◁think▷|<\|START_THINKING\|>",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w")
_GOES_ON = re.compile(r"[^\S\n]*+[\"'`”’»*_~\]]*+[^\S\n]*+(?:[,;?)…，；？）]|[^\W\d_A-Z])")
"""How a line goes on behind a value that is a part of its sentence."""
_QUOTES = "\"'`”’»"
_OPENING = frozenset("\"'`“‘«")
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
        label = _strange_label(text, text.find("```") + 3) if text.lstrip().startswith("```") else ""
        return [Standing(one.value, label or _comments(text), bool(label)) for one in found]
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
    markup = _Markup(rest)
    return [
        _standing(one, rest, text, around[place], markup, unfinished=_is_unfinished(one, marks))
        for one, place in zip(said, thought_in, strict=True)
    ]


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


def _is_unfinished(one: Placed, marks: list[_Mark]) -> bool:
    """True if it stands in a thought that does not end: it may have been cut off while thinking."""
    before = bisect_left(marks, (one.start, 0, False))
    return 0 < before == len(marks) and not marks[-1].ends


_UNFINISHED = "(in a thought that does not end)"


def _has_words(rest: str, at: int) -> bool:
    first = _WORD.search(rest, at)
    if first is None:
        return False
    begin = max(at, first.start() - 64)  # it may stand in a tag
    return _WORD.search(without_tags(rest[begin : begin + _LOOKED_AT])[0]) is not None


def _around(parts: list[str]) -> str:
    """What is said, as far as it does more than introduce an answer or close it."""
    whole = "\n".join(parts)
    # piece by piece: nothing interrupts one search through all of it
    pieces = (whole[at : at + _LOOKED_AT] for at in range(0, len(whole), _LOOKED_AT))
    said = "".join(_BLANKS.sub(lambda run: run[0][:2], piece) for piece in pieces)
    if len(said) > 2 * _LOOKED_AT:
        said = f"{said[:_LOOKED_AT]}\n{said[-_LOOKED_AT:]}"
    words, strange = without_tags(said)
    return more_than_introduces(words) or (words.strip() if strange else "")


_LINE = 4_000
"""Characters of a line that are looked at."""


def _standing(
    one: Placed, rest: str, text: str, words: str, markup: _Markup, *, unfinished: bool
) -> Standing:
    if by := markup.takes_back(one):
        return Standing(one.value, words or by, True)
    if unfinished:
        words = "\n".join(filter(None, (words, _UNFINISHED)))
    words = "\n".join(filter(None, (words, _comments(text[one.start : one.end]))))
    return Standing(one.value, words, bool(words) and _in_a_line(one, rest))


def _comments(text: str) -> str:
    """The comments within what is written as a value, as far as they do more than introduce."""
    if "//" not in text and "/*" not in text:
        return ""
    said = [found[0].strip("/* \t") for found in _TEXT_OR_COMMENT.finditer(text) if found[0][0] == "/"]
    return more_than_introduces("\n".join(said)[:_LOOKED_AT])


class _Markup:
    """What stands around values without being words: tags, comments, what is struck out, labels of fences and lines."""

    def __init__(self, rest: str) -> None:
        self._rest = rest
        self._tags = list(islice(strange_tags(rest), _MOST_TAGS))
        self._struck = [
            span for opener, closer, whole in _STRUCK for span in _spans(rest, opener, closer, whole=whole)
        ]

    def takes_back(self, one: Placed) -> str:
        """By what the value is marked as something else than the answer; empty if it is not."""
        if any(start < one.start < end for start, end in self._struck):
            return "it is struck out, or a comment"
        if _line_before(one, self._rest).strip() in (">", "//"):
            return "it is quoted, or a comment"
        return self._tagged(one) or self._labelled(one)

    def _tagged(self, one: Placed) -> str:
        open_: dict[str, Tag] = {}
        for tag in self._tags:
            if tag.start > one.start:
                break
            if tag.closes:
                open_.pop(tag.name, None)
            else:
                open_[tag.name] = tag
        for tag in open_.values():
            closed = any(
                later.closes and later.name == tag.name and later.start >= one.end for later in self._tags
            )
            if closed or tag.barred or self._begins_a_line(tag.start):
                return tag.name
        return ""

    def _begins_a_line(self, at: int) -> bool:
        return not self._rest[self._rest.rfind("\n", 0, at) + 1 : at].strip()

    def _labelled(self, one: Placed) -> str:
        """By the label of its fence, or of the line above it."""
        above = self._rest[max(0, one.start - _LABEL) : one.start].rstrip()
        fence = _FENCE.search(above)
        if fence is not None:
            if label := _strange_label(f"{fence[1]}\n", 0):
                return label
            above = above[: fence.start()].rstrip()
        line = above[above.rfind("\n") + 1 :].strip(" \t*_#:`>-")
        return line if _CALLS_IT_ANOTHER.fullmatch(line) else ""


def _spans(text: str, opener: str, closer: str, *, whole: bool) -> Iterator[tuple[int, int]]:
    """What stands between these marks; `whole`: to the end of the text where it is not closed."""
    at = _at(text, opener, 0)
    while at >= 0:
        end = _at(text, closer, at + len(opener))
        if end < 0:
            if whole:
                yield at, len(text)
            return
        yield at, end
        at = _at(text, opener, end + len(closer))


def _at(text: str, mark: str, at: int) -> int:
    """Where the mark stands; of `~~` only where it is no fence."""
    at = text.find(mark, at)
    while mark == "~~" and at >= 0 and text[at + 2 : at + 3] == "~":
        while text[at : at + 1] == "~":
            at += 1
        at = text.find(mark, at)
    return at


def _strange_label(text: str, at: int) -> str:
    """The label of a fence that names what is in it something else than an answer."""
    found = _LABEL_OF_FENCE.match(text, at)
    label = found[1] if found else ""
    known = not label or label.casefold() in _LANGUAGES or is_wrapper(label)
    return "" if known else label


_TEXT_OR_COMMENT = re.compile(
    r""""(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?""", re.DOTALL
)
_STRUCK = (("<!--", "-->", True), ("/*", "*/", False), ("~~", "~~", False))
_MOST_TAGS = 200
_LABEL = 300
_LABEL_OF_FENCE = re.compile(r"[ \t]*([A-Za-z][\w.-]{0,60})")
_FENCE = re.compile(r"(?:^|\n)[ \t]*(?:```|~~~)[ \t]*([^\n`]*)$")
_LANGUAGES = frozenset((
    "json", "jsonc", "json5", "jsonl", "hjson", "javascript", "js", "ts", "typescript", "python", "py", "python3", "yaml", "yml", "text", "txt",
    "plaintext", "plain", "code", "tool_code", "md", "markdown", "bash", "sh", "shell", "console", "xml", "html", "toml", "c", "java", "go", "rust",
))  # fmt: skip
_CALLS_IT_ANOTHER = re.compile(
    r"(?:here (?:is|was) |this (?:is|was) )?(?:(?:the|my|your|an?|of) )*(?:old|older|earlier|previous|former|prior|original|rejected|discarded|abandoned"
    r"|superseded|bad|wrong|invalid|example|sample)(?: \w+){0,2}? (?:plan|answer|evaluation|judge?ment|verdict|object|json|output|response|version)s?"
    r"(?: (?:said|says|was|is|were|reads))?"
    r"|(?:the )?(?:tool|function)(?:['’]s)? (?:output|response|result|answer)s?(?: (?:said|says|was|is|were|reads))?"
    r"|rejected|discarded|abandoned|superseded|old|previous|example",
    re.IGNORECASE,
)
"""A line above a value that says that it is another thing than the answer."""


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


def _opens_a_quote(before: str) -> bool:
    """True if the line before a value ends in a quotation mark that words stand before."""
    said = before.rstrip()
    return bool(said) and said[-1] in _OPENING and _WORD.search(said.rpartition("\n")[2][:-1]) is not None


def _in_a_line(one: Placed, rest: str) -> bool:
    """True if the value is a part of a sentence, or of what is quoted."""
    before = _line_before(one, rest)
    after = rest[one.end : one.end + _LINE].partition("\n")[0]
    if _opens_a_quote(before) and after.lstrip()[:1] in tuple(_QUOTES):
        return True
    after = without_tags(after)[0]
    return _GOES_ON.match(after) is not None or (
        _WORD.search(after) is not None and _WORD.search(without_tags(before)[0]) is not None
    )


def _line_before(one: Placed, rest: str) -> str:
    return rest[max(rest.rfind("\n", 0, one.start) + 1, one.start - _LINE) : one.start]
