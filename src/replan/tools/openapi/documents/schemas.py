"""Schemas of a document as JSON Schema 2020-12 that is closed in itself, for requests or for answers.

What a `$ref` leads to stays a definition under `$defs`, so that a recursive schema stays finite, and a definition
that many tools share is one object in memory. Past a limit, definitions that are furthest away say only of what
type they are: the schema says less, and nothing wrong.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from replan.core.data.schema.parts import parts
from replan.core.pointers import unescaped
from replan.core.types import JsonObject
from replan.tools.openapi.documents.dialect import plain_keywords, plain_text, with_null
from replan.tools.openapi.documents.document import Document, Node, Unusable

CUT = "not shown in full"
"""The `title` of a definition that was cut."""
Use = Literal["request", "answer"]

_DEEPEST = 50
_MOST_AT_ONCE = 10_000
"""Schemas in one that is not divided by references: a few aliases of YAML can stand for millions."""
_MOST_PARTS = 20
_SINGLE = ("items", "not", "contains", "propertyNames", "if", "then", "else", "additionalProperties",
           "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_READ_ONLY = "(Read-only: give it only to name what exists.)"
_HIDDEN = {"request": "readOnly", "answer": "writeOnly"}
_NULLABLE_BESIDE = {"type", "$ref", "allOf", "anyOf", "oneOf"}


class _Definition(NamedTuple):
    schema: JsonObject
    size: int
    leads_to: tuple[str, ...]


class _Hidden(NamedTuple):
    """Which properties of an object are not for this use, over all parts of it."""

    gone: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    """Read-only ones that stay, as the object requires them (to name what exists) or all do; none has to be given."""
    declared: frozenset[str] = frozenset()
    """Those that another part declares for use after all."""


class Schemas:
    """The schemas of a document, for one use.

    Requests have no `readOnly` properties but those that an object requires (`open`: all, and none is required);
    answers no `writeOnly` ones. What a part of an object declares without that word counts as it is there. A schema in a request that cannot be read
    raises `Unusable`; in an answer it is left open.
    """

    def __init__(self, document: Document, use: Use, *, most: int, open: bool = False) -> None:  # noqa: A002
        self._document = document
        self._use = use
        self._open = open
        self._most = most
        self._longest = 400 if use == "request" else 120
        self._names: dict[tuple[str, str], str] = {}
        self._targets: dict[str, Node] = {}
        self._made: dict[str, _Definition] = {}
        self._left = 0

    def convert(self, value: Any, file: str = "") -> JsonObject:
        """The schema with references to definitions that `closed` puts beside it."""
        self._left = _MOST_AT_ONCE
        try:
            return self._convert(value, file, 0, _Hidden())
        except Unusable:
            if self._use == "request":
                raise
            return {}

    def closed(self, schema: JsonObject) -> JsonObject:
        """The schema with every definition that it needs, nearest first, as far as the limit goes."""
        defs: JsonObject = {}
        room = self._most - _size(schema)
        waiting = deque(_references(schema))
        while waiting:
            name = waiting.popleft()
            if name in defs:
                continue
            made = self._definition(name)
            if made.size > room:
                kept = {key: made.schema[key] for key in ("type", "description") if key in made.schema}
                defs[name] = {**kept, "title": CUT}
                continue
            room -= made.size
            defs[name] = made.schema
            waiting.extend(made.leads_to)
        return {**schema, "$defs": defs} if defs else schema

    def resolved(self, schema: JsonObject) -> JsonObject:
        """What the schema is, if it is a reference and nothing else; only its nearest level."""
        for _ in range(_DEEPEST):
            reference = schema.get("$ref")
            if not isinstance(reference, str) or set(schema) - {"$ref", "description"}:
                return schema
            schema = self._definition(reference.rpartition("/")[2]).schema
        return schema

    def _definition(self, name: str) -> _Definition:
        if name not in self._made:
            node = self._targets[name]
            self._left = _MOST_AT_ONCE
            try:
                schema = self._convert(node.value, node.file, 0, _Hidden())
            except Unusable:
                if self._use == "request":
                    raise
                schema = {}
            self._made[name] = _Definition(schema, _size(schema), tuple(dict.fromkeys(_references(schema))))
        return self._made[name]

    def _convert(self, value: Any, file: str, depth: int, hidden: _Hidden) -> JsonObject:
        if value is True or value is None:
            return {}
        if value is False:
            return {"not": {}}
        if not isinstance(value, dict):
            raise Unusable(f"a schema is an object, not {type(value).__name__}")
        if depth > _DEEPEST:
            raise Unusable(f"a schema is nested more than {_DEEPEST} levels deep")
        self._left -= 1
        if self._left < 0:
            raise Unusable(f"a schema is made of more than {_MOST_AT_ONCE:,} others")
        if isinstance(value.get("$ref"), str):
            return self._reference(value, file, depth)
        found = plain_keywords(value, is_30=self._document.is_30, longest=self._longest)
        hidden, kept = self._hidden(value, file, hidden)
        for key in _SINGLE:
            if isinstance(value.get(key), dict | bool):
                part = value[key]
                found[key] = part if isinstance(part, bool) else self._convert(part, file, depth + 1, hidden)
        for key in _NAMED:
            if isinstance(value.get(key), dict):
                found[key] = self._named(key, value[key], file, depth, hidden)
        for key in _LISTED:
            if isinstance(value.get(key), list) and value[key]:
                found[key] = [self._convert(part, file, depth + 1, hidden) for part in value[key]]
        for field in sorted(hidden.optional & kept.keys()):
            part, where = kept[field]
            shown = found.setdefault("properties", {})
            shown[field] = _noted(self._convert(part, where, depth + 1, _Hidden()))
        if self._use == "request" and (name := _discriminated_by(value)):
            found["required"] = [*(each for each in found.get("required", ()) if each != name), name]
        if required := [
            name
            for name in found.get("required", ())
            if name not in (hidden.gone | hidden.optional) and not _is_forbidden(name, found)
        ]:
            found["required"] = required
        else:
            found.pop("required", None)
        return self._nullable(value, _simplified(found))

    def _named(self, key: str, parts: JsonObject, file: str, depth: int, hidden: _Hidden) -> JsonObject:
        named = {}
        for name, part in parts.items():
            if key == "properties" and name in hidden.gone:
                continue
            # What is hidden here has nothing to do with the properties of a property.
            named[name] = self._convert(part, file, depth + 1, _Hidden())
        return named

    def _reference(self, value: JsonObject, file: str, depth: int) -> JsonObject:
        node = self._document.target(value["$ref"], file)
        if isinstance(node.value, dict) and isinstance(node.value.get("$ref"), str):
            node = self._document.follow(node.value, node.file)._replace(pointer=node.pointer)
        if isinstance(node.value, dict) and _is_leaf(node.value):
            found = self._convert(node.value, node.file, depth + 1, _Hidden())
        else:
            found = {"$ref": f"#/$defs/{self._name(node)}"}
        beside = {key: each for key, each in value.items() if key != "$ref"}
        if self._document.is_30:  # ignored by the specification, and nevertheless meant
            if isinstance(beside.get("description"), str):
                found = {
                    **found,
                    **plain_keywords({"description": beside["description"]}, is_30=True, longest=200),
                }
            return self._nullable(value, found)
        more = self._convert(beside, file, depth + 1, _Hidden()) if beside else {}
        if "$ref" in found or not set(more) & set(found) - {"description"}:
            return {**found, **more}
        return {"allOf": [found, more]}

    def _nullable(self, value: JsonObject, found: JsonObject) -> JsonObject:
        """3.0: `nullable` counts beside a type only. It is believed beside a reference or a composition as well, where
        generators write it for want of another way; in answers wherever it stands."""
        if not self._document.is_30 or value.get("nullable") is not True:
            return found
        if self._use == "answer":
            return with_null(found)
        if not value.keys() & _NULLABLE_BESIDE or (
            isinstance(value.get("enum"), list) and None not in value["enum"]
        ):
            return found
        return with_null(found)

    def _hidden(
        self, value: JsonObject, file: str, above: _Hidden
    ) -> tuple[_Hidden, dict[str, tuple[Any, str]]]:
        """What is hidden of the object and of its parts, and the read-only properties with their files."""
        marked: dict[str, tuple[Any, str]] = {}
        declared: set[str] = set()
        required: set[str] = set()
        for part, where in self._parts_of(value, file, 0, set()):
            properties = part.get("properties")
            for name, each in properties.items() if isinstance(properties, dict) else ():
                if self._is_hidden(each, where):
                    marked.setdefault(name, (each, where))
                else:
                    declared.add(name)
            if isinstance(part.get("required"), list):
                required.update(map(plain_text, part["required"]))
        after_all = above.declared | (marked.keys() & declared)
        own = marked.keys() - after_all
        stay = own if self._open else own & required
        optional = frozenset(above.optional | (stay if self._use == "request" else set())) - after_all
        gone = frozenset(above.gone | own) - optional - after_all
        return _Hidden(gone, optional, frozenset(after_all)), marked

    def _parts_of(
        self, value: JsonObject, file: str, depth: int, seen: set[int]
    ) -> Iterator[tuple[JsonObject, str]]:
        """The object's schema and those that its `allOf` puts together, each once."""
        if id(value) in seen:
            return
        seen.add(id(value))
        yield value, file
        parts = value.get("allOf")
        for part in parts[:_MOST_PARTS] if isinstance(parts, list) and depth < 5 else ():
            try:
                node = self._document.follow(part, file)
            except Unusable:
                continue
            if isinstance(node.value, dict):
                yield from self._parts_of(node.value, node.file, depth + 1, seen)

    def _is_hidden(self, part: Any, file: str, depth: int = 0, seen: set[int] | None = None) -> bool:
        """True if the property, what it refers to, or a part of its `allOf` says so."""
        seen = set() if seen is None else seen
        try:
            node = self._document.follow(part, file)
        except Unusable:
            return False
        if not isinstance(node.value, dict):
            return False
        word = _HIDDEN[self._use]
        if id(node.value) in seen:
            return False
        seen.add(id(node.value))
        if node.value.get(word) is True or (isinstance(part, dict) and part.get(word) is True):
            return True
        parts = node.value.get("allOf")
        return (
            depth < 4
            and isinstance(parts, list)
            and any(self._is_hidden(each, node.file, depth + 1, seen) for each in parts[:_MOST_PARTS])
        )

    def _name(self, node: Node) -> str:
        key = (node.file, node.pointer)
        if key not in self._names:
            last = unescaped(node.pointer.rpartition("/")[2])
            base = re.sub(r"[^A-Za-z0-9._-]+", "_", last).strip("_") or "schema"
            name, number = base, 1
            while name in self._targets:
                number += 1
                name = f"{base}_{number}"
            self._names[key] = name
            self._targets[name] = node
        return self._names[key]


def _noted(schema: JsonObject) -> JsonObject:
    """A read-only property that may be given all the same, with a word on what for."""
    said = schema.get("description")
    return {**schema, "description": f"{said} {_READ_ONLY}" if said else _READ_ONLY}


def _is_leaf(value: JsonObject) -> bool:
    """A small schema without others in it: shown in its place rather than referred to."""
    if any(key in value for key in (*_SINGLE, *_NAMED, *_LISTED)):
        return False
    enum = value.get("enum")
    return not (isinstance(enum, list) and len(enum) > 20) and value.get("type") != "object"


def _discriminated_by(value: JsonObject) -> str | None:
    """The property that tells which of several schemas is meant: it has to be there (Discriminator Object)."""
    found = value.get("discriminator")
    name = found.get("propertyName") if isinstance(found, dict) else None
    return name if isinstance(name, str) and name and ("oneOf" in value or "anyOf" in value) else None


def _is_forbidden(name: str, schema: JsonObject) -> bool:
    """True for a property that could not be given at all; some documents require such, by a slip of the pen."""
    if schema.get("additionalProperties") is not False or "patternProperties" in schema:
        return False
    return name not in schema.get("properties", {}) and not any(word in schema for word in _LISTED)


def _simplified(schema: JsonObject) -> JsonObject:
    """An `allOf` of one, which documents use to say something beside a reference, as that one."""
    parts = schema.get("allOf")
    if not isinstance(parts, list) or len(parts) != 1:
        return schema
    rest = {key: value for key, value in schema.items() if key != "allOf"}
    if set(rest) <= {"description", "deprecated", "default", "examples"}:
        return {**parts[0], **rest}
    if "type" in rest and rest["type"] == parts[0].get("type") and set(rest) <= {"type", "description"}:
        return {**parts[0], **rest}
    return schema


def _size(schema: JsonObject) -> int:
    """How many schemas it is made of."""
    return sum(1 for _ in parts(schema))


def _references(schema: JsonObject) -> Iterator[str]:
    for _, part in parts(schema):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"].rpartition("/")[2]
