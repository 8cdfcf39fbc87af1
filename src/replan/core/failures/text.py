"""What an error says: its texts as plain words, and status, code and wait where texts and bodies name them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from replan.core.failures.chinese import in_english

MAX_BODY = 16_384
"""Characters of a body that is read; a longer one is no error message."""
MAX_TEXT = 2_000
"""Characters of a message that are read: what an error is about stands at its start."""

_URL = re.compile(r"\b\w+://\S+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SENTENCE = re.compile(r"[.;:!?](?=\s|$)")


def words(text: str) -> str:
    """Lower-case words with single spaces; `.` between sentences; no addresses.

    CamelCase, snake_case and kebab-case are split.
    """
    text = _URL.sub(" ", in_english(text[:MAX_TEXT]).replace("\u2019", "'"))
    text = _SENTENCE.sub(" . ", _HUMP.sub(" ", text)).lower()
    text = text.replace("can't", "can not").replace("cannot", "can not").replace("n't", " not")
    return " ".join(re.findall(r"[^\W_]+|\.", text))


_STATUS = re.compile(
    r"\b(?:HTTP(?:/\d(?:\.\d)?)?(?:[ _-]?(?:status|error|code))*|status(?:[ _-]?code)?|(?:error|response) code)"
    r"[\s:=('\"]{1,4}(?:is |was |of )?([45]\d\d)\b",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    r"\b([45]\d\d)[\s:-]{1,3}(client error|server error|"
    + "|".join(re.escape(status.phrase) for status in HTTPStatus if status >= 400)
    + r")\b",
    re.IGNORECASE,
)


def stated_status(text: str) -> int | None:
    """The HTTP status that a text reports, if it does: by the word for it, or by its own phrase."""
    if found := _STATUS.search(text[:MAX_TEXT]):
        return None if _AS_A_VALUE.search(text[: found.start()]) else int(found[1])
    found = _PHRASE.search(text[:MAX_TEXT])
    if found is None:
        return None
    said = found[2].lower()
    own = (
        said in _OF_EITHER or said == HTTPStatus(int(found[1])).phrase.lower()
        if int(found[1]) in _KNOWN
        else said in _OF_EITHER
    )
    return int(found[1]) if own else None


_AS_A_VALUE = re.compile(r"(?:invalid|unsupported|illegal|not a valid) $", re.IGNORECASE)
_OF_EITHER = frozenset({"client error", "server error"})
_KNOWN = frozenset(map(int, HTTPStatus))


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}
_SPAN = r"(\d{1,6}(?:\.\d{1,6})?)\s?(milliseconds?|ms|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h)"
_WAIT = re.compile(rf"(?:retry|try again|wait)\b[^.\d]{{0,30}}?((?:{_SPAN}\s?)+)(?![a-z])", re.IGNORECASE)
_HEADER = re.compile(r"retry[-_ ]?after[\"']?\s?[:=]\s?[\"']?(\d{1,6}(?:\.\d{1,6})?)\b", re.IGNORECASE)
LONGEST_STATED_WAIT = 3_600.0


def stated_wait(text: str) -> float | None:
    """Seconds to wait that a text asks for; None where it asks for none, or for more than an hour."""
    text = in_english(text[:MAX_TEXT])
    if found := _WAIT.search(text):
        secs = 0.0
        for number, unit in re.findall(_SPAN, found[1], re.IGNORECASE):
            secs += float(number) * _UNITS["ms" if unit[:3].lower() in ("ms", "mil") else unit[0].lower()]
    elif found := _HEADER.search(text):
        secs = float(found[1])
    else:
        return None
    return secs if secs <= LONGEST_STATED_WAIT else None


class Said(NamedTuple):
    """What an error, or a field of an answer's body, says of itself."""

    text: str = ""
    code: str = ""
    status: int | None = None
    wait: float | None = None


_CODES = {"code", "errorcode", "type", "errortype", "reason", "status", "error"}
_TEXTS = {"message", "errormessage", "msg", "detail", "title", "description", "errordescription"}
_STATUSES = {"status", "statuscode", "httpstatuscode", "code"}


def read_body(body: Any) -> Iterator[Said]:
    """What the body of an answer says, by the usual names of its fields; HTML and long texts say nothing."""
    if isinstance(body, str):
        if len(body) > MAX_BODY or body.lstrip().startswith("<"):
            return
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            yield Said(body)
    for name, value in _leaves(body):
        if isinstance(value, str):
            if name in _TEXTS or (name == "error" and " " in value):
                yield Said(value)
            elif name in _CODES:
                yield Said(code=value)
        elif name in _STATUSES and 400 <= value <= 599:
            yield Said(status=int(value))
        elif name == "retryafter" and 0 <= value <= LONGEST_STATED_WAIT:
            yield Said(wait=float(value))


def together(told: Sequence[Said]) -> Said:
    """All of it as one: the first status and wait hold, or those that the text mentions."""
    text = "\n".join(each.text for each in told if each.text)
    status = next((each.status for each in told if each.status), None)
    wait = next((each.wait for each in told if each.wait is not None), None)
    return Said(
        text,
        " ".join(each.code for each in told if each.code),
        stated_status(text) if status is None else status,
        stated_wait(text) if wait is None else wait,
    )


def _leaves(body: Any) -> Iterator[tuple[str, str | int | float]]:
    """Names, without case and signs, with texts and numbers; from the outside in, and only so many."""
    level = [body] if isinstance(body, Mapping | list) else []
    for _ in range(4):
        pairs = [
            pair
            for each in level
            for pair in (each.items() if isinstance(each, Mapping) else enumerate(each))
        ]
        level = []
        for name, value in pairs[:100]:
            if isinstance(value, Mapping | list):
                level.append(value)
            elif isinstance(value, str | int | float) and not isinstance(value, bool):
                yield re.sub(r"[\W_]", "", str(name)).lower(), value
