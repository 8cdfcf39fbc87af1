"""Which parameters hold passwords, by the word of a schema."""

from __future__ import annotations

import contextlib
from typing import Any

from replan.core.types import JsonObject
from replan.tools.pointers import LeadsNowhere, pointed

_SAME_OBJECT = ("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "not")
"""Keywords whose schemas are of the object itself (JSON Schema, core 10.2)."""


def password_names(schema: JsonObject) -> tuple[str, ...]:
    """The properties of an object schema that have `format: password` somewhere in them, also behind references."""
    found: dict[str, None] = {}
    waiting: list[Any] = [schema]
    seen: set[str] = set()
    while waiting:
        at = waiting.pop()
        if isinstance(at, list):
            waiting += at
        if not isinstance(at, dict):
            continue
        properties = at.get("properties")
        for name, part in properties.items() if isinstance(properties, dict) else ():
            if holds_password(part, schema):
                found[name] = None
        for word in _SAME_OBJECT:
            inner = at.get(word)
            waiting += inner.values() if word == "dependentSchemas" and isinstance(inner, dict) else [inner]
        waiting += _referred(at, schema, seen)
    return tuple(found)


def _referred(part: JsonObject, schema: JsonObject, seen: set[str]) -> list[Any]:
    """What the part refers to in the schema, the first time."""
    reference = part.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/") or reference in seen:
        return []
    seen.add(reference)
    with contextlib.suppress(LeadsNowhere):
        return [pointed(schema, reference[1:])]
    return []


def holds_password(part: Any, schema: JsonObject) -> bool:
    """True if anything in a part of the schema, or in what it refers to there, is a password."""
    waiting: list[Any] = [part]
    seen: set[str] = set()
    while waiting:
        at = waiting.pop()
        if isinstance(at, list):
            waiting += at
        elif isinstance(at, dict):
            if at.get("format") == "password":
                return True
            waiting += _referred(at, schema, seen)
            waiting += at.values()
    return False
