"""The patterns of schemas, read as JSON Schema means them: in the dialect of ECMA-262, and matched in linear time.

What cannot be matched in linear time (looking around, back references), what would be too large, and what is no
pattern at all cannot be read: it is not enforced, and whoever lists the tool says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from replan.core.data.schema.parts import parts, rewritten
from replan.core.types import JsonObject
from replan.core.words import beginning, some

_MOST_BYTES = 4 * 2**20
"""Of the compiled patterns of one schema, together: what they cost grows with it, to compile and with each character."""
_LEAST_BYTES = 2**16
_OF_A_CLASS = re.compile(r"\\[wdsWDS]|\\[pP]\{[^}]*\}")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_OWN = re.compile(r"(?P<any>\[\^\])|(?P<none>\[\])|(?P<nul>\\0(?!\d))")
"""What only ECMA-262 writes so: any sign, no sign, and NUL."""
_MEANT = {"any": r"[\s\S]", "none": r"[^\s\S]", "nul": r"\x00"}


def readable(schema: JsonObject) -> tuple[JsonObject, tuple[str, ...], int]:
    """The schema with patterns that can be matched only, those that cannot, and the limit they are compiled with."""
    found = {pattern for _, part in parts(schema) for pattern in _of(part)}
    if not found:
        return schema, (), _MOST_BYTES
    limit = max(_LEAST_BYTES, _MOST_BYTES // len(found))
    unread = frozenset(pattern for pattern in found if not _is_readable(ecma(pattern), limit))
    return rewritten(schema, lambda part: _kept(part, unread)), tuple(sorted(unread)), limit


def unread_told(patterns: Iterable[str]) -> str:
    """What is said of patterns that cannot be read; empty if there are none."""
    found = dict.fromkeys(patterns)
    if not found:
        return ""
    shown = some([repr(beginning(each, 80)) for each in found], 3)
    is_none = "are no patterns" if len(found) > 1 else "is no pattern"
    return (
        f"{shown} {is_none} that can be matched in linear time (ECMA-262 without look-around, back "
        "references and very large repetitions)"
    )


def _of(part: JsonObject) -> list[str]:
    named = part.get("patternProperties")
    return [
        each
        for each in (part.get("pattern"), *(named if isinstance(named, dict) else ()))
        if isinstance(each, str)
    ]


def _kept(part: JsonObject, unread: frozenset[str]) -> JsonObject:
    if not _of(part):
        return part
    made = dict(part)
    pattern, named = made.get("pattern"), made.get("patternProperties")
    if pattern in unread:
        del made["pattern"]
    elif isinstance(pattern, str):
        made["pattern"] = ecma(pattern)
    if isinstance(named, dict):
        made["patternProperties"] = {ecma(name): each for name, each in named.items() if name not in unread}
        if unread & named.keys():  # what one of them allows would be forbidden
            made.pop("additionalProperties", None)
            made.pop("unevaluatedProperties", None)
    return made


@lru_cache(maxsize=4096)
def _is_readable(pattern: str, limit: int) -> bool:
    from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=RegexOptions(size_limit=limit))
    except (ValidationError, ValueError):
        return False
    return True


def ecma(pattern: str) -> str:
    r"""The pattern as other dialects write it: `-` escaped beside a class such as `\w` in brackets, `[^]`, `[]` and `\0` in full."""
    if ("[" not in pattern or "-" not in pattern) and _OWN.search(pattern) is None:
        return pattern
    made: list[str] = []
    inside, at, after_class = False, 0, False
    while at < len(pattern):
        own = _OWN.match(pattern, at)
        if own is not None and own.lastgroup is not None and (own.lastgroup == "nul" or not inside):
            made.append(_MEANT[own.lastgroup])
            at, after_class = own.end(), False
            continue
        found = _OF_A_CLASS.match(pattern, at) or _ESCAPED.match(pattern, at)
        text = found.group() if found else pattern[at]
        if inside and text == "-" and (after_class or _OF_A_CLASS.match(pattern, at + 1)):
            made.append(r"\-")
        else:
            made.append(text)
        inside = text != "]" if inside else text == "["
        after_class = bool(inside and found and _OF_A_CLASS.fullmatch(text))
        at += len(text)
    return "".join(made)
