"""A quick yes for plain schemas: most values of most tools fit, and need no full validation to be told so.

`fits` says True only where a full validation would find nothing; False is no verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replan.core.by_identity import ByIdentity
from replan.core.types import JsonObject

Check = Callable[[Any], bool]

_IGNORED = frozenset({"title", "description", "default", "examples", "format", "deprecated", "$comment"})
_UNDERSTOOD = _IGNORED | {"type", "properties", "required", "additionalProperties", "items", "anyOf"}
_KINDS: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}
_DEPTH = 32


def fits(schema: JsonObject, value: Any) -> bool:
    """True if the value surely fits the schema."""
    return _check_of(schema)(value)


def _no(value: Any) -> bool:
    return False


def _any(value: Any) -> bool:
    return True


def _compiled(schema: Any, depth: int = 0) -> Check | None:
    """The check of a schema; None if it has a word that is not understood here."""
    if schema is True or schema == {}:
        return _any
    if not isinstance(schema, dict) or not schema.keys() <= _UNDERSTOOD or depth > _DEPTH:
        return None
    checks: list[Check] = []
    named = schema.get("type")
    if named is not None:
        names = named if isinstance(named, list) else [named]
        if not all(isinstance(name, str) and name in _KINDS for name in names):
            return None
        kinds = frozenset[type]().union(*(_KINDS[name] for name in names))
        checks.append(lambda value: type(value) in kinds)
    for word, build in (("anyOf", _branches), ("items", _items)):
        if word in schema:
            check = build(schema[word], depth + 1)
            if check is None:
                return None
            checks.append(check)
    if schema.keys() & {"properties", "required", "additionalProperties"}:
        check = _members(schema, depth + 1)
        if check is None:
            return None
        checks.append(check)
    if len(checks) == 1:
        return checks[0]
    return lambda value: all(check(value) for check in checks)


def _branches(schemas: Any, depth: int) -> Check | None:
    if not isinstance(schemas, list) or not schemas:
        return None
    checks = [check for schema in schemas if (check := _compiled(schema, depth)) is not None]
    if len(checks) < len(schemas):
        return None
    return lambda value: any(check(value) for check in checks)


_check_of = ByIdentity[Check](lambda schema: _compiled(schema) or _no)


def _items(schema: Any, depth: int) -> Check | None:
    each = _compiled(schema, depth)
    if each is None:
        return None
    return lambda value: not isinstance(value, list) or all(map(each, value))


def _members(schema: JsonObject, depth: int) -> Check | None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return None
    if not all(isinstance(name, str) for name in required):
        return None
    rest = _compiled(schema.get("additionalProperties", True), depth) or (
        _no if schema.get("additionalProperties") is False else None
    )
    if rest is None:
        return None
    checks: dict[str, Check] = {}
    for name, one in properties.items():
        check = _compiled(one, depth)
        if check is None:
            return None
        checks[name] = check
    wanted, other = frozenset(required), rest

    def check_members(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        if not wanted <= value.keys():
            return False
        return all(checks.get(name, other)(item) for name, item in value.items())

    return check_members
