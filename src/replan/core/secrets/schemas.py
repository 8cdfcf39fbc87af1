"""What a schema calls secret: behind references, in combinations, objects and lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from replan.core.masked import MASK
from replan.core.memo import ByIdentity
from replan.core.pointers import referred
from replan.core.types import JsonObject, ToolSpec
from replan.core.walk import objects_in

_SAME_VALUE = ("allOf", "anyOf", "oneOf", "if", "then", "else", "not")
"""Keywords whose schemas are of the value itself (JSON Schema, core 10.2), with `dependentSchemas`."""
_MOST_NODES = 2_000


def _pointed(root: Any, reference: str) -> Any:
    """What a reference within the schema means; None if nothing."""
    base, _, fragment = reference.partition("#")
    if base and (root := _named_parts(root).get(base)) is None:
        return None
    if fragment and not fragment.startswith("/"):
        return _named_parts(root).get("#" + fragment)
    return referred(root, "#" + fragment)


def _parts(schema: Any) -> Iterator[JsonObject]:
    """Every object in a schema."""
    waiting, seen = [schema], set[int]()
    while waiting:
        at = waiting.pop()
        if not isinstance(at, dict | list) or id(at) in seen:
            continue
        seen.add(id(at))
        waiting += at if isinstance(at, list) else at.values()
        if isinstance(at, dict):
            yield at


def _find_named(schema: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in _parts(schema):
        for word, sign in (("$id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
            if isinstance(name := part.get(word), str):
                found.setdefault(sign + (name.rstrip("#") if word == "$id" else name), part)
    return found


_named_parts = ByIdentity[dict[str, Any]](_find_named)
"""The parts of a schema that references can name, by `$id`, `#` and `$anchor`."""


class SecretParts:
    """Everything that a schema says of one value: its own words, and those of the schemas that it refers to or combines."""

    __slots__ = ("_holds", "_nodes", "_root", "secret")

    def __init__(self, nodes: Iterable[Any], root: Any) -> None:
        self._root = root
        self._nodes: list[JsonObject] = []
        self._holds: bool | None = None
        waiting, seen = list(nodes), set[int]()
        while waiting and len(seen) < _MOST_NODES:
            node = waiting.pop()
            if not isinstance(node, dict) or id(node) in seen:
                continue
            seen.add(id(node))
            self._nodes.append(node)
            for word in _SAME_VALUE:
                inner = node.get(word)
                waiting += inner if isinstance(inner, list) else [inner]
            depending = node.get("dependentSchemas")
            waiting += depending.values() if isinstance(depending, dict) else []
            for word in ("$ref", "$dynamicRef"):
                if isinstance(reference := node.get(word), str):
                    waiting.append(_pointed(root, reference))
        self.secret = any(node.get("format") == "password" for node in self._nodes)

    def field(self, name: str) -> SecretParts:
        found: list[Any] = []
        for node in self._nodes:
            properties, patterns = node.get("properties"), node.get("patternProperties")
            mine = [properties[name]] if isinstance(properties, dict) and name in properties else []
            # Which pattern fits is not asked: a mask too many does less harm than one too few.
            mine += patterns.values() if isinstance(patterns, dict) and not mine else []
            found += mine or [node.get("additionalProperties"), node.get("unevaluatedProperties")]
        return SecretParts(found, self._root)

    def has_field(self, name: str) -> bool:
        """True if a property of this name is declared."""
        declared = (node.get("properties") for node in self._nodes)
        return any(isinstance(properties, dict) and name in properties for properties in declared)

    def names(self) -> SecretParts:
        """What is said of the names of the value's properties."""
        return SecretParts([node.get("propertyNames") for node in self._nodes], self._root)

    def item(self, at: int) -> SecretParts:
        found: list[Any] = []
        for node in self._nodes:
            first, items = node.get("prefixItems"), node.get("items")
            rows = first if isinstance(first, list) else items if isinstance(items, list) else []
            if at < len(rows):
                found.append(rows[at])
            else:
                found += [items, node.get("additionalItems"), node.get("unevaluatedItems")]
            found.append(node.get("contains"))
        return SecretParts(found, self._root)

    def holds(self) -> bool:
        """True if anything in the value may be a secret."""
        if self._holds is None:
            self._holds = self.secret or any(holds_secret(node, self._root) for node in self._nodes)
        return self._holds


def holds_secret(part: Any, root: Any) -> bool:
    """True if a part of a schema, or what it refers to in the whole, says `format: password` anywhere."""
    waiting, seen = [part], set[int]()
    while waiting:
        for at in _parts(waiting.pop()):
            if id(at) in seen:
                continue
            seen.add(id(at))
            if at.get("format") == "password":
                return True
            named = (at.get("$ref"), at.get("$dynamicRef"))
            waiting += [_pointed(root, reference) for reference in named if isinstance(reference, str)]
    return False


def _secret_fields(schema: JsonObject) -> tuple[str, ...]:
    """The properties of an object schema that are secrets, or lists of some."""
    parts = SecretParts([schema], schema)
    names: dict[str, None] = {}
    for node in parts._nodes:
        properties = node.get("properties")
        for name in properties if isinstance(properties, dict) else ():
            field = parts.field(name)
            if field.secret or field.item(0).secret:
                names[name] = None
    return tuple(names)


def _named_anywhere(schema: JsonObject) -> frozenset[str]:
    """The names of all properties that are secrets, at any depth, also in what is only referred to."""
    found = set[str]()
    for at in objects_in(schema):
        properties = at.get("properties")
        for name, part in properties.items() if isinstance(properties, dict) else ():
            field = SecretParts([part], schema)
            if field.secret or field.item(0).secret:
                found.add(name)
    return frozenset(found)


_any_password = ByIdentity[bool](lambda schema: '"password"' in json.dumps(schema, default=str))
"""The quick answer for most schemas: no such word in it."""


_fields_of = ByIdentity[tuple[str, ...]](
    lambda schema: _secret_fields(schema) if _any_password(schema) else ()
)
_names_of = ByIdentity[frozenset[str]](
    lambda schema: _named_anywhere(schema) if _any_password(schema) else frozenset()
)


def with_secret_fields(tool: ToolSpec) -> ToolSpec:
    """The tool with every parameter named secret that its schema calls so, whatever source it is from."""
    names = tuple(dict.fromkeys((*tool.secrets, *_fields_of(tool.parameters))))
    return tool if names == tool.secrets else tool.model_copy(update={"secrets": names})


def takes_secrets(tool: ToolSpec) -> bool:
    """True if a parameter of the tool, or a part of one, may be a secret, whatever it is called."""
    return bool(tool.secrets) or _any_password(tool.parameters)


def secrets_written_in(tool: ToolSpec) -> Iterator[Any]:
    """Secrets that stand in the tool's own schema, as the default of a password does."""
    if not _any_password(tool.parameters):
        return
    for part in _parts(tool.parameters):
        if any(word in part for word in ("default", "const", "enum")) and (
            SecretParts([part], tool.parameters).secret
        ):
            allowed = part.get("enum")
            for value in (
                part.get("default"),
                part.get("const"),
                *(allowed if isinstance(allowed, list) else ()),
            ):
                if isinstance(value, str | int | float):
                    yield value


def secret_names(tool: ToolSpec) -> frozenset[str]:
    """The names under which a tool's secrets stand, at any depth."""
    return _names_of(tool.parameters).union(tool.secrets)


def masked_parameters(tool: ToolSpec, parameters: JsonObject) -> JsonObject:
    """The parameters of a call without its secrets, by what the tool declares."""
    if not takes_secrets(tool):
        return parameters
    schema = SecretParts([tool.parameters], tool.parameters)
    return {
        name: _masked_by(schema.field(name), value, name in tool.secrets)
        for name, value in parameters.items()
    }


def _masked_by(parts: SecretParts, value: Any, secret: bool) -> Any:
    if secret or parts.secret:
        return MASK
    if isinstance(value, dict) and parts.holds():
        if parts.names().secret:
            return MASK
        return {name: _masked_by(parts.field(name), item, False) for name, item in value.items()}
    if isinstance(value, list) and parts.holds():
        return [_masked_by(parts.item(at), item, False) for at, item in enumerate(value)]
    return value


def secrets_in(tool: ToolSpec, parameters: JsonObject) -> Iterator[tuple[str, Any]]:
    """The secret values among the parameters, each with the name that it stands under."""
    if not takes_secrets(tool):
        return
    schema = SecretParts([tool.parameters], tool.parameters)
    for name, value in parameters.items():
        parts = schema.field(name)
        inside = name in tool.secrets and (parts.secret or not parts.holds())
        yield from _leaves(name, value, inside, parts)


def may_say_secret(schema: JsonObject) -> bool:
    """False where the schema surely calls nothing secret."""
    return _any_password(schema)


def secrets_of_schema(schema: JsonObject | None, value: Any) -> Iterator[tuple[str, Any]]:
    """The same of any value, by its schema."""
    if schema is not None and _any_password(schema):
        yield from _leaves("", value, False, SecretParts([schema], schema))


def _leaves(name: str, value: Any, secret: bool, parts: SecretParts | None) -> Iterator[tuple[str, Any]]:
    """The values that are no objects and no lists; with `parts` those only that it calls secret."""
    if parts is not None and not secret:
        if not parts.holds():
            return
        secret = parts.secret
    inner = None if secret else parts
    if isinstance(value, dict):
        if inner is not None and inner.names().secret:
            yield from ((name, key) for key in value)
        for key, item in value.items():
            yield from _leaves(key, item, secret, inner.field(key) if inner is not None else None)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _leaves(name, item, secret, inner.item(at) if inner is not None else None)
    elif secret and value is not None and not isinstance(value, bool):
        yield name, value
