"""Whether a schema that a source gives can be used: valid, closed in itself, and of bounded depth."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from replan.core.types import JsonObject
from replan.tools.pointers import LeadsNowhere, pointed

_MAX_DEPTH = 100
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_LISTED = frozenset(("anyOf", "allOf", "oneOf", "prefixItems"))
_SINGLE = frozenset(
    (
        "items",
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
_TYPES = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))


def problem_of(schema: object, *, of_parameters: bool) -> str | None:
    """What is wrong with a JSON Schema (2020-12 unless it names another), in words; None for a good one.

    A schema of parameters must describe an object. References must stay inside of the schema: nothing is fetched.
    """
    if not isinstance(schema, dict):
        return f"it is a {type(schema).__name__}, not an object"
    if of_parameters and schema.get("type", "object") != "object":
        return (
            f'its type is {schema["type"]!r}; parameters are an object: {{"type": "object", "properties": …}}'
        )
    plain = True
    try:
        for path, part in _parts(schema, "#", 0):
            if found := _problem_here(part, path, schema):
                return found
            plain = plain and _is_plain(part)
        return None if plain else _problem_by_metaschema(schema)
    except _TooDeep as error:
        return f"it is nested more than {_MAX_DEPTH} levels deep, at {error}"
    except RecursionError:
        return "it refers to itself without end"


def _problem_by_metaschema(schema: JsonObject) -> str | None:
    from jsonschema import SchemaError, validators

    try:
        validators.validator_for(schema, default=validators.Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        where = "/".join(["#", *map(str, error.absolute_path)])
        return f"{where}: {error.message[:300]}"
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_named_schemas(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and _is_schema(v) for k, v in value.items())


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return (
            bool(value)
            and all(isinstance(each, str) for each in value)
            and len(set(value)) == len(value)
            and (set(value) <= _TYPES)
        )
    return isinstance(value, str) and value in _TYPES


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


_PLAIN: dict[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "required": _is_names,
    "enum": lambda value: isinstance(value, list),
    "examples": lambda value: isinstance(value, list),
    "const": lambda value: True,
    "default": lambda value: True,
    "multipleOf": lambda value: is_number(value) and value > 0,
    **dict.fromkeys(_NAMED, _is_named_schemas),
    **dict.fromkeys(_LISTED, _is_schemas),
    **dict.fromkeys(_SINGLE, _is_schema),
    **dict.fromkeys(("title", "description", "format", "pattern"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), is_count
    ),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_truth),
    # Checked as a reference.
    "$ref": lambda value: isinstance(value, str) and value.isascii() and " " not in value,
}


def _is_plain(part: JsonObject) -> bool:
    """Whether a look at each keyword shows that this is valid.

    The metaschema would say the same a thousand times slower; it is asked about all else, and for the words.
    """
    return all(key in _PLAIN and _PLAIN[key](value) for key, value in part.items())


class _TooDeep(Exception):
    pass


def _parts(schema: Any, path: str, depth: int) -> Iterator[tuple[str, JsonObject]]:
    """Every schema within a schema, with its place; not what is data, a name or an extension."""
    if depth > _MAX_DEPTH:
        raise _TooDeep(path[:60] + "…")
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key, value in schema.items():
        if key in _SINGLE:
            yield from _parts(value, f"{path}/{key}", depth + 1)
        elif key in _NAMED and isinstance(value, dict):
            for name, part in value.items():
                yield from _parts(part, f"{path}/{key}/{name}", depth + 1)
        elif key in _LISTED and isinstance(value, list):
            for index, part in enumerate(value):
                yield from _parts(part, f"{path}/{key}/{index}", depth + 1)


def _problem_here(part: JsonObject, path: str, root: JsonObject) -> str | None:
    reference = part.get("$ref")
    if isinstance(reference, str) and (found := _problem_of_reference(reference, root)):
        return f"{path}: $ref {reference!r} {found}"
    patterns = [part.get("pattern"), *_names_of(part.get("patternProperties"))]
    for pattern in patterns:
        if isinstance(pattern, str):
            try:
                re.compile(pattern)
            except re.error as error:
                return f"{path}: the pattern {pattern!r} is no regular expression: {error}"
    return None


def _names_of(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else []


def _problem_of_reference(reference: str, root: JsonObject) -> str | None:
    if not reference.startswith("#"):
        return "leads out of the schema; nothing is fetched: put what it means under $defs"
    if not reference.startswith("#/"):
        if reference == "#" or any(part.get("$anchor") == reference[1:] for _, part in _parts(root, "#", 0)):
            return None
        return "has no such $anchor"
    try:
        at = pointed(root, reference[1:])
    except LeadsNowhere:
        return "leads nowhere"
    return None if isinstance(at, dict | bool) else "leads to what is no schema"
