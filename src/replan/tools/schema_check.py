"""Whether a schema that a source gives can be used: valid, closed in itself, and of bounded depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replan.core.data.schema.parts import LISTED, MAX_DEPTH, NAMED, SINGLE, TooDeep, parts
from replan.core.data.validation import schema_problem
from replan.core.pointers import LeadsNowhere, pointed
from replan.core.types import JsonObject

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
        for path, part in parts(schema):
            if found := _problem_here(part, path, schema):
                return found
            plain = plain and _is_plain(part)
        return None if plain else schema_problem(schema, "#") or None
    except TooDeep as error:
        return f"it is nested more than {MAX_DEPTH} levels deep, at {error}"
    except RecursionError:
        return "it refers to itself without end"


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
    **dict.fromkeys(NAMED - {"dependencies"}, _is_named_schemas),
    **dict.fromkeys(LISTED, _is_schemas),
    **dict.fromkeys(SINGLE - {"additionalItems"}, _is_schema),
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


def _problem_here(part: JsonObject, path: str, root: JsonObject) -> str | None:
    reference = part.get("$ref")
    if isinstance(reference, str) and (found := _problem_of_reference(reference, root)):
        return f"{path}: $ref {reference!r} {found}"
    return None


def _problem_of_reference(reference: str, root: JsonObject) -> str | None:
    if not reference.startswith("#"):
        return "leads out of the schema; nothing is fetched: put what it means under $defs"
    if not reference.startswith("#/"):
        if reference == "#" or any(part.get("$anchor") == reference[1:] for _, part in parts(root)):
            return None
        return "has no such $anchor"
    try:
        at = pointed(root, reference[1:])
    except LeadsNowhere:
        return "leads nowhere"
    return None if isinstance(at, dict | bool) else "leads to what is not a schema"
