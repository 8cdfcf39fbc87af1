"""One schema object of OpenAPI 3.0 or 3.1 as JSON Schema 2020-12, without what is inside of it.

A keyword that JSON Schema could not take (a type `any`, a minimum that is a text) is left out: the schema then
says less, and nothing wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replan.core.types import JsonObject
from replan.tools.schema_check import is_count, is_number

TYPES = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
_SHORT = 100
"""Characters of an example that are kept."""
_MOST_VALUES = 10_000
"""A constant, or a list of choices, of more values is left out."""


def plain_keywords(node: JsonObject, *, is_30: bool, longest: int) -> JsonObject:
    """The keywords that hold no schemas, made valid. `longest`: characters of a description."""
    found: JsonObject = {}
    if kind := _type(node.get("type")):
        found["type"] = kind
    for key, fits in _FITTING.items():
        if key in node and not is_more_than(_MOST_VALUES, node[key]) and fits(node[key]):
            found[key] = node[key]
    if isinstance(node.get("description"), str) and node["description"].strip():
        found["description"] = shortened(node["description"], longest)
    if isinstance(node.get("pattern"), str):
        found["pattern"] = node["pattern"]
    if isinstance(node.get("required"), list):
        names = [name for name in dict.fromkeys(map(plain_text, node["required"])) if name]
        if names:
            found["required"] = names
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.capitalize()}"
        if node.get(exclusive) is True and bound in found:  # 3.0: a truth value beside the bound
            found[exclusive] = found.pop(bound)
        elif is_number(node.get(exclusive)):
            found[exclusive] = node[exclusive]
    if "example" in node and _is_short(node["example"]):
        found["examples"] = [node["example"]]
    elif not is_30 and isinstance(node.get("examples"), list):
        shown = [each for each in node["examples"] if _is_short(each)][:3]
        if shown:
            found["examples"] = shown
    return found


def is_more_than(most: int, value: Any) -> bool:
    """True if the value is made of more than so many: a few aliases of YAML can stand for millions."""
    waiting = [value]
    for _ in range(most):
        if not waiting:
            return False
        one = waiting.pop()
        if isinstance(one, dict | list):
            if len(one) > most:
                return True
            waiting += one.values() if isinstance(one, dict) else one
    return bool(waiting)


def plain_text(value: Any) -> str:
    """What a document says where a text belongs: also a number or a truth value, which YAML makes of some words."""
    return str(value) if isinstance(value, str | int | float) else ""


def with_null(schema: JsonObject) -> JsonObject:
    """The schema, or null."""
    kind = schema.get("type")
    if kind is None or "const" in schema:
        if not set(schema) - {"description", "examples", "default", "deprecated", "title"}:
            return schema  # anything, so null too
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = kind if isinstance(kind, list) else [kind]
    changed = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if isinstance(changed.get("enum"), list) and None not in changed["enum"]:
        changed = {**changed, "enum": [*changed["enum"], None]}
    if any(word in changed for word in ("allOf", "anyOf", "oneOf", "not")):
        return {"anyOf": [schema, {"type": "null"}]}
    return changed


def shortened(text: str, longest: int) -> str:
    """The text on one line, cut after a word with "…" where it is longer."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    cut = text[: longest - 1]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut[longest // 2 :] else cut}…"


def _type(value: Any) -> Any:
    if isinstance(value, str):
        return "string" if value == "file" else value if value in TYPES else None
    if isinstance(value, list):
        kinds = [each for each in dict.fromkeys(map(plain_text, value)) if each in TYPES]
        return (kinds[0] if len(kinds) == 1 else kinds) if len(kinds) == len(value) else None
    return None


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float | bool) and len(str(value)) <= _SHORT


_FITTING: dict[str, Callable[[Any], bool]] = {
    "enum": lambda value: isinstance(value, list) and bool(value),
    "const": lambda value: True,
    "default": lambda value: value is None or _is_short(value) or value in ([], {}),
    "format": lambda value: isinstance(value, str),
    "contentEncoding": lambda value: isinstance(value, str),
    "contentMediaType": lambda value: isinstance(value, str),
    "multipleOf": lambda value: is_number(value) and value > 0,
    "minimum": is_number,
    "maximum": is_number,
    **dict.fromkeys(
        (
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minContains",
            "maxContains",
        ),
        is_count,
    ),
    "uniqueItems": _is_truth,
    "deprecated": _is_truth,
    "dependentRequired": lambda value: (
        isinstance(value, dict)
        and all(
            isinstance(names, list) and len(set(map(plain_text, names))) == len(names)
            for names in value.values()
        )
    ),
}
