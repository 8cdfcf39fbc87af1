"""JSON Schema at the boundary: parameters against a tool's schema, and what a schema says of a path.

Draft 2020-12 unless the schema names another; `$ref` within the document only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from replan.core.by_identity import MOST, ByIdentity
from replan.core.patterns import longest
from replan.core.quick_schemas import fits
from replan.core.types import JsonObject, ToolSpec


@lru_cache(maxsize=MOST)
def _validator(text: str) -> Any:
    from jsonschema import validators
    from referencing import Registry

    schema = json.loads(text)
    kind = _bounded(validators.validator_for(schema, default=validators.Draft202012Validator))
    return kind(schema, registry=Registry())  # the default one fetches `$ref` from the network


@lru_cache(maxsize=16)
def _bounded(kind: Any) -> Any:
    """The validator without the patterns that might not come to an end with a text: they say nothing of it."""
    from jsonschema import validators

    def pattern(validator: Any, given: Any, value: Any, schema: Any) -> Iterator[Any]:
        if not isinstance(value, str) or len(value) <= longest(given):
            yield from kind.VALIDATORS["pattern"](validator, given, value, schema)

    def of_keys(word: str) -> Any:
        def check(validator: Any, given: Any, value: Any, schema: Any) -> Iterator[Any]:
            named = schema.get("patternProperties", {})
            most = max(map(len, value), default=0) if isinstance(value, dict) else 0
            if all(most <= longest(each) for each in named):
                yield from kind.VALIDATORS[word](validator, given, value, schema)

        return check

    words = [word for word in ("patternProperties", "additionalProperties") if word in kind.VALIDATORS]
    return validators.extend(kind, {"pattern": pattern, **{word: of_keys(word) for word in words}})  # type: ignore[no-untyped-call]


validator_of: ByIdentity[Any] = ByIdentity(
    lambda schema: _validator(json.dumps(schema, sort_keys=True, default=str))
)
"""The compiled validator of a schema; the same one for the same schema."""


def schema_problem(schema: Any) -> str:
    """Why this is no usable JSON Schema; empty if it is."""
    from jsonschema import exceptions, validators

    if not isinstance(schema, dict):
        return f"a JSON Schema is an object, not {type(schema).__name__}"
    try:
        validators.validator_for(schema, default=validators.Draft202012Validator).check_schema(schema)
    except exceptions.SchemaError as error:
        where = "/".join(str(part) for part in error.absolute_path)
        return f"no valid JSON Schema at /{where}: {error.message}"
    except RecursionError:
        return "a JSON Schema that is nested too deep"
    return ""


def problems(schema: JsonObject, value: Any) -> list[str]:
    """Everything in which the value does not match, each with its place."""
    return [describe(error) for error in sorted_errors(schema, value)]


def sorted_errors(schema: JsonObject, value: Any) -> list[Any]:
    """The validator's errors by place; one error of the whole if the schema itself cannot be applied."""
    if fits(schema, value):
        return []
    try:
        return sorted(
            validator_of(schema).iter_errors(value), key=lambda error: [str(p) for p in error.absolute_path]
        )
    except Exception as error:  # noqa: BLE001 - a `$ref` to nowhere, an unknown type, a bad pattern: each raises its own
        from jsonschema import ValidationError

        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        return [
            ValidationError(f"the schema cannot be applied ({reason})", validator="schema", instance=value)
        ]


def describe(error: Any) -> str:
    """A schema error with its place, in words; the value is cut."""
    where = place(error.absolute_path)
    message = error.message if len(error.message) <= 300 else error.message[:300] + "…"
    return f"{where}: {message}" if where else message


def place(path: Sequence[Any]) -> str:
    """A path as `a.b[0]`."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else (f".{part}" if out else str(part))
    return out


def parameter_problems(tool: ToolSpec, parameters: JsonObject) -> list[str]:
    """Why the tool cannot be called with these; empty if it can."""
    return problems(tool.parameters, parameters)


# ── what a schema says of a path ──────────────────────────────────────────────

_ALL = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


class PathUnknown(Exception):
    """The schema rules the path out. `available`: the fields it has there."""

    def __init__(self, name: str, available: tuple[str, ...]) -> None:
        super().__init__(name)
        self.name = name
        self.available = available

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
        raise PathUnknown(repr(name), tuple(properties))
    return None


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
        if not target.startswith("#"):
            return None
        found: Any = root
        for part in target[1:].strip("/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if key:
                found = found.get(key) if isinstance(found, dict) else None
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
