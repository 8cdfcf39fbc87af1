"""Reading the JSON that a model meant: tolerant of what is around it and of how it is written, never of what it says.

Taken as they come: fences, prose around the answer, thoughts before it, a byte-order mark, trailing commas, comments,
single quotes, `True`/`False`/`None`, raw line breaks in texts, the same answer twice, JSON inside a JSON string, and
a last `}` that is missing. Not repaired, since it would be guessing: a cut text, number or list, two different
values of one key, unknown escapes.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

MAX_CHARS = 8_000_000
MAX_DEPTH = 200
MAX_BEGINNINGS = 2_000
"""Brackets at which an answer is looked for."""
MAX_VALUES = 100
"""Different values in one answer that are told apart."""

_SPACE = " \t\r\n\ufeff\u200b\u2060\u00a0"
END_OF_THOUGHTS = re.compile(
    r"</(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis)\s*>"
    r"|\[/THINK\]|◁/think▷|<\|END_THINKING\|>"
    r"|<\|message\|>|<channel\|>|assistantfinal(?=\s*[\[{`])",
    re.IGNORECASE,
)
"""Where thinking models stop thinking; the beginning is often swallowed by the server. The last three end the header of
a channel, of which the last one is the answer's."""
_SIGNS_OF_THOUGHTS = ("</", "[/", "\u25c1/", "<|", "|>")
"""One of these is in each of them but the last: looked for first, as that is quick."""
_FENCE = re.compile(r"\s*```\w*\s*")
_BRACKET = re.compile(r"[{\[]")
_BEGINNING = re.compile(rf"\{{(?=[{_SPACE}]*(?:[\"'}}/]|$))|\[(?=[{_SPACE}]*(?:[{{\[\"'\]/\-\dtTfFnN]|$))")
"""A bracket behind which a value may go on; any other is told by this alone, as there may be very many."""
_WORK = 8
"""So many times the length of a text is gone through in search of a value."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_]\w*")
_WORD_OR_NUMBER = re.compile(r"\w")
_BLANK = re.compile(rf"(?:[{_SPACE}]+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_ESCAPES = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip


class Unreadable(ValueError):
    """The text holds no JSON that could be read without guessing; the message says what is wrong and where.

    `begun`: JSON was meant, and is broken.
    """

    def __init__(self, message: str, *, begun: bool = True) -> None:
        super().__init__(message)
        self.begun = begun


class _Broken(Exception):
    """Parsing stopped at `at`. `begun`: enough was read to be sure that JSON was meant."""

    def __init__(self, why: str, at: int, *, begun: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.at = at
        self.begun = begun


def read_json(text: str) -> Any:
    """The one value that the text holds; `Unreadable` if there is none, or several different ones."""
    found = candidates(text)
    if len(found) > 1:
        found = [value for value in found if value not in ({}, [])] or found
    if len(found) > 1:
        raise Unreadable(f"the answer holds {len(found)} different JSON values; exactly one is wanted")
    return found[0]


def candidates(text: str) -> list[Any]:
    """Every different value that the text may mean, in order; at least one, else `Unreadable`."""
    return [one.value for one in placed(text)]


class Placed(NamedTuple):
    """A value, and where in the text it was last found; `before`: where else."""

    value: Any
    start: int
    end: int
    before: tuple[tuple[int, int], ...] = ()

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        return (*self.before, (self.start, self.end))


def placed(text: str) -> list[Placed]:
    """`candidates` with their places; what is the whole text, but for a fence, has all of it."""
    if len(text) > MAX_CHARS:
        raise Unreadable(
            f"the answer is too long: {len(text):,} characters, and at most {MAX_CHARS:,} are read"
        )
    bare = text.strip(_SPACE)
    if not bare:
        raise Unreadable("the answer is empty", begun=False)
    try:
        found = [Placed(_strict(bare), 0, len(text))]
    except _Broken as broken:  # JSON that means something that must not be guessed
        raise Unreadable(broken.why) from None
    except (ValueError, RecursionError):
        found = _written(text)
    opened = [one._replace(value=_opened(one.value)) for one in found]
    for one in opened:
        _check_text(one.value)
    return opened


def _written(text: str) -> list[Placed]:
    """What a text means that is more than JSON."""
    bare = text.strip(_SPACE)
    try:
        return [Placed(_strict(_unfenced(bare)), 0, len(text))]
    except (_Broken, ValueError, RecursionError):
        rest = _after_thoughts(bare)
    before = len(text) - len(text.lstrip(_SPACE)) + len(bare) - len(rest)
    return [
        Placed(
            one.value,
            before + one.start,
            before + one.end,
            tuple((before + start, before + end) for start, end in one.before),
        )
        for one in _search(rest)
    ]


def _unfenced(text: str) -> str:
    """The text without a fence around it."""
    begin = _FENCE.match(text)
    text = (text[begin.end() :] if begin else text).rstrip()
    return text[:-3].rstrip() if text.endswith("```") else text


def _after_thoughts(text: str) -> str:
    """What stands behind the thoughts; all of it where nothing does."""
    if not any(sign in text for sign in _SIGNS_OF_THOUGHTS) and "assistantfinal" not in text.casefold():
        return text
    *_, end = (0, *(mark.end() for mark in END_OF_THOUGHTS.finditer(text)))
    return text[end:] if _next_bracket(text, end) >= 0 else text


def _strict(text: str) -> Any:
    return json.loads(text, strict=False, object_pairs_hook=_object, parse_constant=_no, parse_float=_float)


def _opened(value: Any) -> Any:
    """What a text says if it is itself a JSON object or list, and nothing else."""
    if isinstance(value, str) and value.strip(_SPACE)[:1] in ("{", "["):
        try:
            return read_alone(value)
        except Unreadable:
            return value
    return value


def read_alone(text: str) -> Any:
    """The one value that the text is; `Unreadable` where anything else stands beside it."""
    found = placed(text)
    if len(found) > 1 or _WORD_OR_NUMBER.search(text[: found[0].start] + text[found[0].end :]):
        raise Unreadable("the text holds more than one JSON value")
    return found[0].value


def _search(text: str) -> list[Placed]:
    """The values that begin with a bracket, wherever they stand; else one bare text, if that is all there is."""
    found: dict[str, Placed] = {}
    at = _next_bracket(text, 0)
    first_problem: _Broken | None = None
    beginnings, work = 0, _WORK * (len(text) + 1_000)
    while at >= 0 and (beginning := _BEGINNING.search(text, at)):
        if first_problem is None and not found and beginning.start() > at:
            first_problem = _Broken("a value is wanted", at)
        at = beginning.start()
        if (beginnings := beginnings + 1) > MAX_BEGINNINGS or work < 0:
            raise Unreadable(
                f"the answer has more than {MAX_BEGINNINGS:,} places where JSON may begin; one object is wanted, alone"
            )
        try:
            value, end = _value(text, at, 0)
        except _Broken as broken:
            first_problem = first_problem or broken
            if broken.begun:
                # what stands further inside belongs to the broken value: it is not an answer of its own
                if any(one.value not in ({}, []) for one in found.values()):
                    break
                raise Unreadable(_where(broken, text)) from None
            work -= broken.at - at
            at += 1
            continue
        form = _form(value)
        known = found.get(form)
        found[form] = Placed(value, at, end) if known is None else Placed(known.value, at, end, known.places)
        if len(found) > MAX_VALUES:
            break
        at = end
    if found:
        return list(found.values())
    inner = _unfenced(text)
    if inner.strip(_SPACE)[:1] in ('"', "'"):
        try:
            value, end = _value(inner, _skip(inner, 0), 0)
        except _Broken:
            pass
        else:
            if _skip(inner, end) == len(inner):
                return [Placed(value, 0, len(text))]
    if first_problem is not None and first_problem.at >= len(text.rstrip(_SPACE)):
        raise Unreadable(_where(first_problem, text))
    raise Unreadable("the answer holds no JSON object", begun=False)


def _next_bracket(text: str, at: int) -> int:
    found = _BRACKET.search(text, at)
    return found.start() if found else -1


def _where(broken: _Broken, text: str) -> str:
    if broken.at >= len(text):
        return f"the answer is cut off: {broken.why}"
    line = text.count("\n", 0, broken.at) + 1
    column = broken.at - text.rfind("\n", 0, broken.at)
    near = text[max(0, broken.at - 20) : broken.at + 20]
    return f"the answer is no JSON: {broken.why} at line {line}, column {column}, near {near!r}"


# ── one value ─────────────────────────────────────────────────────────────────


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise _Broken(f"nested deeper than {MAX_DEPTH}", at, begun=True)
    if at >= len(text):
        raise _Broken("a value is missing", at)
    char = text[at]
    if char == "{":
        return _read_object(text, at, depth)
    if char == "[":
        return _read_list(text, at, depth)
    if char in "\"'":
        return _read_text(text, at)
    if number := _NUMBER.match(text, at):
        if number.end() == len(text):
            raise _Broken("the last number may be incomplete", len(text))
        return _number(number.group(), at), number.end()
    word = _WORD.match(text, at)
    if word and word.group() in _WORDS:
        return _WORDS[word.group()], word.end()
    raise _Broken("a value is wanted", at)


def _read_object(text: str, at: int, depth: int) -> tuple[Any, int]:
    pairs: list[tuple[str, Any]] = []
    begun = False
    try:
        at = _skip(text, at + 1)
        while True:
            if text[at : at + 1] == "}":
                return _object(pairs), at + 1
            if text[at : at + 1] not in ('"', "'"):
                raise _Broken('a key in double quotes or "}" is wanted', at)
            key, at = _read_text(text, at)
            at = _skip(text, at)
            if text[at : at + 1] != ":":
                raise _Broken('":" is wanted', at)
            begun = True
            value, at = _value(text, _skip(text, at + 1), depth + 1)
            pairs.append((key, value))
            at = _skip(text, at)
            if text[at : at + 1] == ",":
                at = _skip(text, at + 1)
            elif at >= len(text):
                # only the bracket is missing: a key that was lost is noticed by whoever needs it
                return _object(pairs), at
            elif text[at] != "}":
                raise _Broken('"," or "}" is wanted', at)
    except _Broken as broken:
        broken.begun = broken.begun or begun
        raise


def _read_list(text: str, at: int, depth: int) -> tuple[Any, int]:
    items: list[Any] = []
    try:
        at = _skip(text, at + 1)
        while True:
            if text[at : at + 1] == "]":
                return items, at + 1
            item, at = _value(text, at, depth + 1)
            items.append(item)
            at = _skip(text, at)
            if text[at : at + 1] == ",":
                at = _skip(text, at + 1)
            elif at >= len(text):
                raise _Broken("a list is not closed, so items may be lost", at)
            elif text[at] != "]":
                raise _Broken('"," or "]" is wanted', at)
    except _Broken as broken:
        broken.begun = broken.begun or bool(items)
        raise


def _read_text(text: str, at: int) -> tuple[str, int]:
    quote = text[at]
    out: list[str] = []
    at += 1
    stop = re.compile(rf"[\\{quote}]")
    while found := stop.search(text, at):
        out.append(text[at : found.start()])
        at = found.end()
        if found.group() == quote:
            return "".join(out), at
        char = text[at : at + 1]
        if char == "u":
            piece, at = _unicode(text, at + 1)
            out.append(piece)
        elif char in _ESCAPES:
            out.append(_ESCAPES[char])
            at += 1
        elif not char:
            break
        else:
            raise _Broken(f"\\{char} is no escape of JSON", at - 1, begun=True)
    raise _Broken("a text is not closed", len(text))


def _unicode(text: str, at: int) -> tuple[str, int]:
    digits = text[at : at + 4]
    if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
        raise _Broken("\\u needs four hexadecimal digits", min(at + len(digits), len(text)), begun=True)
    code = int(digits, 16)
    at += 4
    if 0xD800 <= code < 0xDC00:
        low = re.match(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", text[at : at + 6])
        if low:
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low.group(1), 16) - 0xDC00), at + 6
    return chr(code), at


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


# ── what is refused ───────────────────────────────────────────────────────────


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out and not _same(out[key], value):
            raise _Broken(f"the key {key!r} is given twice with different values", 0, begun=True)
        out[key] = value
    return out


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: unlike in Python, 1 is not true."""
    return left == right and _form(left) == _form(right)


def _form(value: Any) -> str:
    """The one text that all equal values have."""
    return json.dumps(value, sort_keys=True)


def _number(text: str, at: int) -> int | float:
    try:
        return _float(text) if any(char in text for char in ".eE") else int(text)
    except ValueError:
        raise _Broken("a number is too large", at, begun=True) from None


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _no(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _check_text(value: Any) -> None:
    """Half a character (a lone surrogate) cannot be stored or sent."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise Unreadable("the answer holds half a character (a lone surrogate escape like \\ud83d)") from None
    except RecursionError:
        raise Unreadable(f"the answer is nested deeper than {MAX_DEPTH}") from None
