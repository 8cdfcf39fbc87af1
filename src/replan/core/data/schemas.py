"""What a schema says: of a tool's parameters, and of a path into a value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from replan.core.data.schema.parts import LISTED, NAMED, TooDeep, parts
from replan.core.data.validation import SHOWN, faults, place
from replan.core.pointers import referred
from replan.core.types import JsonObject, ToolSpec

__all__ = [
    "PathUnknown",
    "can_fit",
    "faults",
    "fields_at",
    "parameter_problems",
    "parameter_schemas",
    "place",
    "problems",
    "schema_at",
    "types_of",
    "words_of",
]


def problems(schema: JsonObject, value: Any, *, formats: bool = False) -> list[str]:
    """In what the value does not match, each with its place; the first that are worth telling. `formats`: as for `faults`."""
    return [str(fault) for fault in faults(schema, value, formats=formats)[:SHOWN]]


def parameter_problems(tool: ToolSpec, parameters: JsonObject) -> list[str]:
    """Why the tool cannot be called with these; empty if it can."""
    return problems(tool.parameters, parameters)


# ── what a schema says of a path ──────────────────────────────────────────────

_ALL = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


class PathUnknown(Exception):
    """The schema does not have the path. `available`: the fields it has there.

    `is_open`: it says nothing of other fields, so that the value may well have it.
    """

    def __init__(self, name: str, available: tuple[str, ...], *, is_open: bool = False) -> None:
        super().__init__(name)
        self.name = name
        self.available = available
        self.is_open = is_open

    def say(self, of: str) -> str:
        """The fault in words; `of`: what the schema describes."""
        shown = ", ".join(self.available[:20]) + (", …" if len(self.available) > 20 else "")
        return f"{of} has no {self.name}" + (f"; it has: {shown}" if shown else "")


def schema_at(schema: JsonObject | None, path: Sequence[str | int]) -> JsonObject | None:
    """The schema of what a plain path selects; None where it cannot be told. `PathUnknown` if ruled out."""
    root = schema
    at = schema
    for part in path:
        if at is None or root is None:
            return None
        at = _deref(at, root)
        if at is None or any(word in at for word in ("anyOf", "oneOf", "allOf", "not", "if")):
            return None
        _check_kind(at, part)
        at = _item(at, part) if isinstance(part, int) else _property(at, part)
    return _deref(at, root) if at is not None and root is not None else at


def fields_at(schema: JsonObject | None, path: Sequence[str | int]) -> tuple[str, ...]:
    """The fields that a schema names of what a plain path selects, in any of its forms; none where it names none."""
    try:
        at = schema_at(schema, path)
    except PathUnknown:
        return ()
    if schema is None or at is None:
        return ()
    found: dict[str, None] = {}
    waiting, seen = [at], set[int]()
    while waiting:
        one = _deref(waiting.pop(), schema)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        properties = one.get("properties")
        found.update(dict.fromkeys(properties if isinstance(properties, dict) else ()))
        waiting += _branches(one)
    return tuple(found)


def _check_kind(at: JsonObject, part: str | int) -> None:
    """`PathUnknown` where there can be no such part. A text may hold JSON, which is read into."""
    kinds = types_of(at)
    if kinds is not None and not kinds & {"string", "array" if isinstance(part, int) else "object"}:
        what = f"item [{part}]" if isinstance(part, int) else repr(part)
        raise PathUnknown(f"{what}, being {words_of(kinds)}", ())


def _property(at: JsonObject, name: str) -> JsonObject | None:
    properties = at.get("properties")
    if isinstance(properties, dict) and name in properties:
        found = properties[name]
        return found if isinstance(found, dict) else None
    if at.get("patternProperties") or at.get("additionalProperties"):
        more = at.get("additionalProperties")
        return more if isinstance(more, dict) and not at.get("patternProperties") else None
    if isinstance(properties, dict) and properties:
        is_open = not any(at.get(word) is False for word in ("additionalProperties", "unevaluatedProperties"))
        raise PathUnknown(repr(name), tuple(properties), is_open=is_open)
    return None


def closed(schema: JsonObject) -> JsonObject:
    """The same schema, with no other fields than it names, at any depth, where it says nothing of them.

    Where several schemas describe one object together, it is closed as a whole, and none of them by itself.
    """
    try:
        return _closed(schema, _described_together(schema), alone=True)
    except TooDeep:
        return schema


_TOGETHER = ("allOf", "anyOf", "oneOf", "$ref", "if", "then", "else", "dependentSchemas")


def _closed(schema: JsonObject, together: Collection[int], *, alone: bool) -> JsonObject:
    """`together`: definitions, by identity, that describe an object with other schemas. So does this one unless `alone`."""
    alone = alone and id(schema) not in together
    describes = isinstance(schema.get("properties"), dict)
    beside = any(word in schema for word in _TOGETHER)
    made: JsonObject = {}
    if describes and alone:
        made["unevaluatedProperties" if beside else "additionalProperties"] = False
    for name, part in schema.items():
        if isinstance(part, dict):
            if name in NAMED:
                within = alone if name == "dependentSchemas" else True
                part = {
                    key: _closed(one, together, alone=within and name != "dependentSchemas")
                    if isinstance(one, dict)
                    else one
                    for key, one in part.items()
                }
            elif name in ("items", "additionalProperties"):
                part = _closed(part, together, alone=True)
            elif name in ("then", "else"):
                part = _closed(part, together, alone=False)
        elif isinstance(part, list) and name in LISTED:
            own = name == "prefixItems" or (alone and not describes and name != "allOf")
            part = [_closed(one, together, alone=own) if isinstance(one, dict) else one for one in part]
        made[name] = part
    return made


def _described_together(schema: JsonObject) -> set[int]:
    """The definitions that are referred to where an object is described by several schemas, by identity."""
    found: set[int] = set()
    waiting = [
        branch
        for _, part in parts(schema)
        if "allOf" in part or "properties" in part
        for branch in _branches(part)
    ]
    while waiting:
        branch = waiting.pop()
        if "$ref" not in branch:
            waiting += _branches(branch)
        elif (target := _deref(branch, schema)) is not None and id(target) not in found:
            found.add(id(target))
            waiting += _branches(target)
    return found


def _branches(schema: JsonObject) -> list[JsonObject]:
    """The schemas that describe the same value as this one."""
    listed = [one for name in ("allOf", "anyOf", "oneOf") for one in schema.get(name) or ()]
    single = [schema[name] for name in ("then", "else") if name in schema]
    own = [{"$ref": schema["$ref"]}] if "$ref" in schema else []
    return [one for one in (*listed, *single, *own) if isinstance(one, dict)]


def _item(at: JsonObject, index: int) -> JsonObject | None:
    fixed = at.get("prefixItems")
    if isinstance(fixed, list) and 0 <= index < len(fixed):
        found = fixed[index]
        return found if isinstance(found, dict) else None
    items = at.get("items")
    return items if isinstance(items, dict) and not fixed else None


def _deref(at: JsonObject, root: JsonObject) -> JsonObject | None:
    for _ in range(32):
        target = at.get("$ref")
        if not isinstance(target, str):
            return at
        found = referred(root, target)
        if not isinstance(found, dict):
            return None
        at = found
    return None


def types_of(schema: JsonObject | None) -> frozenset[str] | None:
    """The JSON types that a schema allows; None where it does not tell."""
    if schema is None or "$ref" in schema:
        return None
    if "const" in schema:
        return _types_of_values([schema["const"]])
    if isinstance(schema.get("enum"), list):
        return _types_of_values(schema["enum"])
    named = schema.get("type")
    if isinstance(named, str):
        found = {named}
    elif isinstance(named, list):
        found = {name for name in named if isinstance(name, str)}
    else:
        branches = schema.get("anyOf") or schema.get("oneOf")
        if not isinstance(branches, list):
            return None
        found = set()
        for branch in branches:
            told = types_of(branch) if isinstance(branch, dict) else None
            if told is None:
                return None
            found |= told
    if schema.get("nullable") is True:
        found.add("null")
    return frozenset(found) & _ALL or None


def values_of(schema: JsonObject | None) -> list[Any] | None:
    """The values that a schema allows, where it names them; None where it does not."""
    if schema is None or "$ref" in schema:
        return None
    if "const" in schema:
        return [schema["const"]]
    if isinstance(named := schema.get("enum"), list):
        return [*named, None] if schema.get("nullable") is True else named
    if schema.get("type") == "null":
        return [None]
    branches = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(branches, list):
        return None
    found: list[Any] = []
    for branch in branches:
        told = values_of(branch) if isinstance(branch, dict) else None
        if told is None:
            return None
        found += told
    return found


def share_no_text(produced: JsonObject | None, wanted: JsonObject | None) -> bool:
    """True only if both name the texts (or null) that they allow, and none of the one is one of the other."""
    one, other = values_of(produced), values_of(wanted)
    if not one or not other or not all(value is None or isinstance(value, str) for value in (*one, *other)):
        return False
    return not set(one) & set(other)


def _types_of_values(values: Sequence[Any]) -> frozenset[str]:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return frozenset("null" if value is None else names.get(type(value), "object") for value in values)


def words_of(types: frozenset[str] | None) -> str:
    """The types as people say them: `a number or null`."""
    names = {"boolean": "a truth value", "integer": "a whole number", "number": "a number", "string": "a text",
             "array": "a list", "object": "an object", "null": "null"}  # fmt: skip
    return " or ".join(names[name] for name in sorted(types or ()))


def can_fit(produced: frozenset[str] | None, wanted: frozenset[str] | None) -> bool:
    """False only if no value of the produced types can be of a wanted type. A number may be a whole one."""
    if produced is None or wanted is None:
        return True
    numbers = {"integer", "number"}
    return bool(produced & wanted) or bool(produced & numbers and wanted & numbers)


def parameter_schemas(
    schema: JsonObject, value: Any
) -> Iterator[tuple[list[str | int], str, JsonObject | None]]:
    """Every text inside a value with its place and, where the schema tells, its schema."""
    stack: list[tuple[list[str | int], Any]] = [([], value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, str):
            try:
                found = schema_at(schema, path)
            except PathUnknown:
                found = None
            yield path, item, found
        elif isinstance(item, dict):
            stack.extend(([*path, str(key)], child) for key, child in item.items())
        elif isinstance(item, list):
            stack.extend(([*path, index], child) for index, child in enumerate(item))
