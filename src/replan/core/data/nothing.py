"""Values that hold nothing: an envelope around nothing is nothing, and so is the word "none" where a text is wanted."""

from __future__ import annotations

import re
from typing import Any

from replan.core.walk import every

_FILLERS = frozenset(
    {"", "-", "--", "none", "null", "nil", "n/a", "na", "no", "false", "nothing", "not applicable"}
)


def is_filler(text: str) -> bool:
    """True for what is written where a field has to be filled and there is nothing to say."""
    return text.strip(" \t\r\n.\"'").casefold() in _FILLERS


_DONE = r"(?:done|complete[d]?|finished|planned|executed|carried\s+out|covered|taken\s+care\s+of)"
_NOTHING_IS_LEFT = re.compile(
    rf"\b(?:nothing|none)\b[^.;!?]{{0,30}}\b(?:left|remains?|remaining|(?:more|else|further)\s+to\s+(?:be\s+)?(?:do|plan|done|planned))\b"
    rf"|\bno\s+(?:(?:more|further|other|additional|new)\s+)(?:\w+\s+)?(?:steps?|calls?|actions?|parts?|work|planning)\b"
    rf"|\b(?:all|everything|every\s+\w+|each\s+\w+)\b[^.;!?]{{0,60}}\b{_DONE}\b|\balready\s+{_DONE}\b"
    r"|\banything\s+(?:else|more|further)\b",
    re.IGNORECASE,
)


_IS_DONE = re.compile(
    rf"(?:all\s+)?{_DONE}\W*|(?:none|not|nothing)\s+(?:is\s+)?(?:needed|required|necessary)\W*", re.IGNORECASE
)
_BUT = re.compile(
    r"\b(?:except|but|however|not|cannot|unless|until|only|fail\w*|missing|lack\w*)\b|n['’]t\b", re.IGNORECASE
)
"""What says something beside that: there is more to it."""


def says_nothing_is_left(text: str) -> bool:
    """True of words that may say so. Nothing may hang on it but that somebody looks whether it is so."""
    said = text[:2_000]
    if _IS_DONE.fullmatch(said.strip()):
        return True
    return _NOTHING_IS_LEFT.search(said) is not None and _BUT.search(said) is None


def is_nothing(value: Any) -> bool:
    """True if no text, no number but 0 and no `true` stands anywhere in the value."""
    return not any(
        one.strip() if isinstance(one, str) else one
        for one in every(value)
        if not isinstance(one, dict | list | tuple)
    )
