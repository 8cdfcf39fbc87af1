"""Requests made up from the document of the interface: such as it allows, and such as somebody gets wrong."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import quote

import jsonschema_rs
from hypothesis import strategies as st

Schema = dict[str, Any]
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


class Call(NamedTuple):
    """A call of the document."""

    name: str
    method: str
    path: str
    operation: Schema


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    query: dict[str, Any]
    headers: dict[str, str]
    body: Any
    """None: it has none."""


class Document:
    """The document, and what fits it."""

    def __init__(self, document: Schema) -> None:
        self._document = document
        self.calls = [
            Call(operation["operationId"], method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]

    def checked(self, call: Call, status: int, media: str, value: Any) -> None:
        """That the document has such an answer, and that it is of that form."""
        responses = call.operation["responses"]
        assert str(status) in responses, f"{call.name} answers {status}, which the document does not have"
        if status == 204:
            return
        content = responses[str(status)]["content"]
        assert media in content, f"{call.name} answers {status} as {media}"
        if (schema := content[media].get("schema")) and "json" in media:
            self.fits(schema, value)

    def fits(self, schema: Schema, value: Any) -> None:
        jsonschema_rs.validator_for({**schema, "components": self._document["components"]}).validate(value)

    def values(self, schema: Schema, depth: int = 0) -> st.SearchStrategy[Any]:
        """Such as the schema allows; with some that it does not."""
        return st.one_of(
            self._fitting(schema, depth), self._fitting(schema, depth), self._fitting(schema, depth), JUNK
        )

    def _fitting(self, schema: Schema, depth: int) -> st.SearchStrategy[Any]:
        if "$ref" in schema:
            found = self._document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            return self._fitting(found, depth)
        if "anyOf" in schema:
            return st.one_of(*(self._fitting(one, depth) for one in schema["anyOf"]))
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        if "const" in schema:
            return st.just(schema["const"])
        match schema.get("type"):
            case "string":
                longest = min(schema.get("maxLength", 30), 30)
                return st.text(min_size=schema.get("minLength", 0), max_size=longest)
            case "integer":
                return st.integers(schema.get("minimum", -5), min(schema.get("maximum", 2**40), 2**40))
            case "number":
                return st.floats(schema.get("minimum", 0), schema.get("maximum", 1e9), allow_nan=False)
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
            case "array":
                return st.lists(self.values(schema.get("items", {}), depth + 1), max_size=3)
            case "object" if "properties" in schema:
                needed = schema.get("required", ())
                parts = {name: self.values(one, depth + 1) for name, one in schema["properties"].items()}
                return st.fixed_dictionaries(
                    {name: parts[name] for name in needed},
                    optional={name: one for name, one in parts.items() if name not in needed}
                    if depth < 3
                    else {},
                )
            case "object":
                return st.dictionaries(st.text(max_size=8), JUNK, max_size=3)
        return JUNK

    def requests(self, call: Call, known: dict[str, list[str]]) -> st.SearchStrategy[Asked]:
        """`known`: parts of addresses that are there, by name."""
        places = re.findall(r"\{(\w+)\}", call.path)
        parts = {
            name: st.one_of(st.sampled_from(known.get(name, ["none"])), st.text(min_size=1, max_size=12))
            for name in places
        }
        query = {
            one["name"]: self.values(one["schema"])
            for one in call.operation.get("parameters", ())
            if one["in"] == "query"
        }
        headers = {
            one["name"]: st.text("abc09-!", max_size=8)
            for one in call.operation.get("parameters", ())
            if one["in"] == "header"
        }
        if call.name == "events":
            headers["accept"] = st.just("application/json")
        body = call.operation.get("requestBody")
        schema = body["content"]["application/json"]["schema"] if body else None
        return st.builds(
            lambda parts, query, headers, body: Asked(
                call.method,
                call.path.format(**{name: quote(value, safe="") for name, value in parts.items()}),
                {name: value for name, value in query.items() if not isinstance(value, dict)},
                headers,
                body,
            ),
            st.fixed_dictionaries(parts),
            st.fixed_dictionaries({}, optional=query),
            st.fixed_dictionaries({}, optional=headers) if call.name != "events" else st.fixed_dictionaries(headers),
            st.none() if schema is None else self.values(schema),
        )  # fmt: skip
