"""The parameters of an operation and its body as one flat object, and back."""

from __future__ import annotations

from typing import Any

from replan.core.references.kept import TAKES_FILE
from replan.core.types import JsonObject
from replan.tools.openapi.bodies import BYTES_HINT, FORM, MULTIPART, Body
from replan.tools.openapi.documents.schemas import Schemas
from replan.tools.openapi.parameters import Parameter

ABSENT = object()
"""No body."""
_FLAT = frozenset(("type", "properties", "required", "description", "examples", "default", "deprecated"))


class Signature:
    """What a tool takes. `schema`: an object, closed in itself.

    A parameter is called as in the document; one whose name stands in two places bears its place in front
    (`query_id`), but for the first (path, query, header, cookie). The properties of an object body stand beside
    them, unless one of their names is taken, or the body's schema says more than which properties there are:
    then the body is one parameter, `body`.
    """

    def __init__(self, schemas: Schemas, parameters: list[Parameter], body: Body | None) -> None:
        self._named: dict[str, Parameter] = {}
        for each in parameters:
            name = each.name if each.name not in self._named else f"{each.place}_{each.name}"
            while name in self._named:
                name = f"{name}_"
            self._named[name] = each
        self._body = body
        self._flat: frozenset[str] | None = None
        self._body_name = "body" if "body" not in self._named else "request_body"
        properties: JsonObject = {name: each.schema for name, each in self._named.items()}
        required = [name for name, each in self._named.items() if each.required]
        if body is not None:
            flat = _flattened(schemas, body)
            fields = flat.get("properties", {}) if flat is not None else {}
            if flat is not None and not set(fields) & set(properties):
                self._flat = frozenset(fields)
                properties |= {name: _field(schemas, body, name, part) for name, part in fields.items()}
                required += flat.get("required", [])
            else:
                properties[self._body_name] = (
                    {"type": "object", **body.schema} if body.media_type in (FORM, MULTIPART) else body.schema
                )
                required += [self._body_name] if body.required else []
        schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        self.schema = schemas.closed(schema)

    def split(self, given: JsonObject) -> tuple[list[tuple[Parameter, Any]], Any]:
        """The values of the parameters, without those that are null, and the body or `ABSENT`."""
        values = [
            (each, given[name]) for name, each in self._named.items() if given.get(name, None) is not None
        ]
        if self._body is None:
            return values, ABSENT
        if self._flat is None:
            return values, given.get(self._body_name, ABSENT)
        fields = {name: value for name, value in given.items() if name in self._flat}
        return values, fields if fields or self._body.required else ABSENT

    @property
    def body(self) -> Body | None:
        return self._body


def _flattened(schemas: Schemas, body: Body) -> JsonObject | None:
    """The body's schema as one of plain properties; None where that would not say the same."""
    if not body.is_object:
        return None
    found = _merged(schemas, body.schema, 0, {})
    if found is None or not found.get("properties"):
        return None
    if not body.required and found.get("required"):
        return None  # it may be left out as a whole only
    names = found["properties"]
    return found if all(name in names for name in found.get("required", ())) else None


def _merged(
    schemas: Schemas, schema: JsonObject, depth: int, known: dict[int, JsonObject | None]
) -> JsonObject | None:
    """`known`: what the definitions that were met before come to, by their identity."""
    schema = schemas.resolved(schema)
    if id(schema) not in known:
        known[id(schema)] = None  # if it leads back to itself
        known[id(schema)] = _put_together(schemas, schema, depth, known)
    return known[id(schema)]


def _put_together(
    schemas: Schemas, schema: JsonObject, depth: int, known: dict[int, JsonObject | None]
) -> JsonObject | None:
    if depth > 8 or schema.get("type", "object") != "object":
        return None
    rest = set(schema) - _FLAT - {"allOf"}
    if rest - {"additionalProperties"} or (
        schema.get("additionalProperties", False) is not False or ("allOf" in schema and rest)
    ):
        return None
    properties = dict(schema.get("properties", {}))
    required = list(schema.get("required", ()))
    for part in schema.get("allOf", ()):
        inner = _merged(schemas, part, depth + 1, known)
        if inner is None or "additionalProperties" in inner:
            return None
        for name, value in inner.get("properties", {}).items():
            if properties.get(name, value) != value:
                return None
            properties[name] = value
        required += inner.get("required", [])
    found: JsonObject = {"properties": properties, "required": list(dict.fromkeys(required))}
    if "additionalProperties" in schema:
        found["additionalProperties"] = False
    return found


def _field(schemas: Schemas, body: Body, name: str, schema: JsonObject) -> JsonObject:
    if name not in body.files:
        return schema
    said = schema.get("description")
    return {**schema, TAKES_FILE: True, "description": f"{said} {BYTES_HINT}" if said else BYTES_HINT}
