"""Which parameters hold passwords, by the word of a schema."""

from __future__ import annotations

from typing import Any

from replan.core.types import JsonObject


def password_names(schema: JsonObject) -> tuple[str, ...]:
    """The properties of an object schema that have `format: password` somewhere in them, also behind references."""
    properties, definitions = schema.get("properties"), schema.get("$defs")
    known = definitions if isinstance(definitions, dict) else {}
    return tuple(
        name
        for name, part in (properties.items() if isinstance(properties, dict) else ())
        if holds_password(part, known)
    )


def holds_password(part: Any, definitions: JsonObject) -> bool:
    """True if anything in it, or in a definition that it refers to, is a password."""
    waiting, seen = [part], set()
    while waiting:
        at = waiting.pop()
        if isinstance(at, list):
            waiting += at
        elif isinstance(at, dict):
            if at.get("format") == "password":
                return True
            reference = at.get("$ref")
            name = reference.rpartition("/")[2] if isinstance(reference, str) else None
            if name in definitions and name not in seen:
                seen.add(name)
                waiting.append(definitions[name])
            waiting += at.values()
    return False
