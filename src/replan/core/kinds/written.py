"""What people have written, looked at key by key: everything that is wrong, each with its place."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection
from typing import NamedTuple

from replan.core.types import JsonObject
from replan.core.words import kind_of

MOST_NAME = 100
MOST_DESCRIPTION = 2_000
Place = tuple[str | int, ...]


class Fault(NamedTuple):
    """Something that is wrong, and where in the file."""

    at: Place
    text: str


class Faulty(ValueError):
    """It cannot be used."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("; ".join(fault.text for fault in faults))


def unknown_keys(given: JsonObject, known: Collection[str], what: str, place: Place = ()) -> list[Fault]:
    found = []
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), list(known), 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
            found.append(Fault((*place, key), f"{str(key)[:100]!r} is no key of {what}; {hint}"))
    return found


def name_in(given: JsonObject, key: str, faults: list[Fault]) -> str:
    """A short name in one line, in one spelling of Unicode."""
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        shown = (
            "it is not there" if key not in given else f"it is {kind_of(value)}" if value else "it is empty"
        )
        faults.append(Fault((key,) if key in given else (), f"`{key}` is a short name: {shown}"))
        return ""
    name = unicodedata.normalize("NFC", value.strip())
    if len(name) > MOST_NAME or not name.isprintable() or "/" in name:
        faults.append(
            Fault(
                (key,), f"`{key}` is a short name in one line, without /, of at most {MOST_NAME} characters"
            )
        )
    return name


def words_in(given: JsonObject, key: str, most: int, faults: list[Fault], *, needed: bool) -> str:
    value = given.get(key)
    if value is None or (isinstance(value, str) and not value.strip()):
        if needed:
            faults.append(Fault((), f"`{key}` is missing: say in a sentence what it is for"))
        return ""
    if not isinstance(value, str):
        faults.append(Fault((key,), f"`{key}` is a text, not {kind_of(value)}"))
        return ""
    if len(value) > most:
        faults.append(Fault((key,), too_long(key, len(value), most)))
    return value.strip()


def too_long(key: str, size: int, most: int) -> str:
    return f"`{key}` has {size:,} characters; at most {most:,} are allowed"


def names_in(given: JsonObject, key: str, faults: list[Fault]) -> tuple[str, ...]:
    value = given.get(key) or []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        faults.append(Fault((key,), f"`{key}` is a list of texts, not {kind_of(value)}"))
        return ()
    return tuple(value)
