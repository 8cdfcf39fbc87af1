"""Which parameters hold passwords, by the word of a schema."""

from __future__ import annotations

import contextlib
from typing import Any

from replan.core.types import JsonObject
from replan.tools.pointers import LeadsNowhere, pointed


def password_names(schema: JsonObject) -> tuple[str, ...]:
    """The properties of an object schema that have `format: password` somewhere in them, also behind references."""
    properties = schema.get("properties")
    return tuple(
        name
        for name, part in (properties.items() if isinstance(properties, dict) else ())
        if holds_password(part, schema)
    )


def holds_password(part: Any, schema: JsonObject) -> bool:
    """True if anything in a part of the schema, or in what it refers to there, is a password."""
    waiting, seen = [part], set()
    while waiting:
        at = waiting.pop()
        if isinstance(at, list):
            waiting += at
        elif isinstance(at, dict):
            if at.get("format") == "password":
                return True
            reference = at.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/") and reference not in seen:
                seen.add(reference)
                with contextlib.suppress(LeadsNowhere):
                    waiting.append(pointed(schema, reference[1:]))
            waiting += at.values()
    return False
