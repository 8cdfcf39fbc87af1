"""Where schemas stand within a JSON Schema: not what is data, a name or an extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from replan.core.types import JsonObject

MAX_DEPTH = 100
NAMED = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
)
LISTED = frozenset(("anyOf", "allOf", "oneOf", "prefixItems"))
SINGLE = frozenset(
    (
        "items",
        "additionalItems",
        "additionalProperties",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)


class TooDeep(Exception):
    """More than `MAX_DEPTH` levels."""


def parts(schema: Any, path: str = "#", depth: int = 0) -> Iterator[tuple[str, JsonObject]]:
    """Every schema within a schema, with its place."""
    if depth > MAX_DEPTH:
        raise TooDeep(path[:60] + "…")
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key, value in schema.items():
        if key in NAMED and isinstance(value, dict):
            for name, part in value.items():
                yield from parts(part, f"{path}/{key}/{name}", depth + 1)
        elif key in LISTED or key in SINGLE:
            if isinstance(value, list):  # of `items` too: so it was up to 2019-09
                for index, part in enumerate(value):
                    yield from parts(part, f"{path}/{key}/{index}", depth + 1)
            elif key in SINGLE:
                yield from parts(value, f"{path}/{key}", depth + 1)


def rewritten(schema: Any, change: Callable[[JsonObject], JsonObject], depth: int = 0) -> Any:
    """A copy with every schema in it changed, the inner ones first."""
    if depth > MAX_DEPTH:
        raise TooDeep
    if not isinstance(schema, dict):
        return schema
    made: JsonObject = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, dict):
            value = {name: rewritten(part, change, depth + 1) for name, part in value.items()}
        elif (key in LISTED or key in SINGLE) and isinstance(value, list):
            value = [rewritten(part, change, depth + 1) for part in value]
        elif key in SINGLE:
            value = rewritten(value, change, depth + 1)
        made[key] = value
    return change(made)
