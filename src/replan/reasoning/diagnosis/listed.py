"""Which values an error says are known, in place of one that was refused: a small model copies the refused one again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

from replan.core.types import JsonObject

_BEFORE = (
    re.compile(r":\s"),
    re.compile(r"\b(?:are|be|of|use|either)\s(?=\S+\s?(?:\([^()]*\))?(?:,|\s(?:or|and)\s))"),
)
"""What a list begins after: a colon, else a word that introduces one."""
_BETWEEN = re.compile(r"\s*(?:[,;|]\s*(?:and\s|or\s)?|\s(?:and|or)\s)\s*")
_BLANKS = re.compile(r"[^\S\n]+")
_BESIDE = re.compile(r"\s*\([^()]*\)\s*$")
"""`HAM (Hamburg)` is HAM."""
_LONGEST = 40
_MOST = 50
_LOOKED_AT = 2_000
"""Characters of a message, from the refused value on."""
_MOST_BEGINNINGS = 50


def known_values(message: str, parameters: Mapping[str, object]) -> dict[str, list[str]]:
    """By the parameter whose value the message refuses: the values that it lists, without that one.

    Only for texts that the message quotes, and only where a plain list of two or more follows.
    """
    found: dict[str, list[str]] = {}
    message = _BLANKS.sub(" ", message)
    for name, value in parameters.items():
        if isinstance(value, str) and (at := _quoted(value, message)) >= 0:
            values = [each for each in _list_in(message[at : at + _LOOKED_AT]) if each != value]
            if len(values) >= 2:
                found[name] = values[:_MOST]
    return found


def _quoted(value: str, message: str) -> int:
    """Where the message goes on after the value in quotes; -1 if it does not quote it."""
    for quote in "'\"`":
        at = message.find(f"{quote}{value}{quote}")
        if at >= 0:
            return at + len(value) + 2
    return -1


def _list_in(text: str) -> list[str]:
    """The first list in the text; empty if there is none."""
    beginnings = (found for before in _BEFORE for found in before.finditer(text))
    for start in islice(beginnings, _MOST_BEGINNINGS):
        told = re.split(r"\n|[.;](?:\s|$)", text[start.end() :], maxsplit=1)[0].strip().strip("[]{}")
        items = [_BESIDE.sub("", item).strip().strip("'\"`") for item in _BETWEEN.split(told)]
        if len(items) >= 2 and all(0 < len(item) <= _LONGEST for item in items):
            return list(dict.fromkeys(items))
    return []


def narrowed(schema: JsonObject, known: Mapping[str, list[str]]) -> JsonObject:
    """The schema of parameters, with the known values as choices for texts that have none of their own."""
    properties = {
        name: {"enum": known[name]}
        if name in known and child.get("type") == "string" and "enum" not in child
        else child
        for name, child in schema["properties"].items()
    }
    return {**schema, "properties": properties}
