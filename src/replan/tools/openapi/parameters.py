"""The parameters of an operation outside of its body: where they go, and how they are written."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from replan.core.types import JsonObject
from replan.tools.bounds import is_idempotency_key
from replan.tools.openapi.documents.dialect import shortened
from replan.tools.openapi.documents.document import Document, Unusable
from replan.tools.openapi.documents.operations import Operation
from replan.tools.openapi.documents.schemas import Schemas
from replan.tools.openapi.styles import DEFAULT_STYLE, STYLES, header_value, pairs, path_segment

_IGNORED_HEADERS = frozenset(
    ("accept", "content-type", "authorization",
     "accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te",
     "trailer", "transfer-encoding", "upgrade")
)  # fmt: skip
"""The first three are to be ignored as parameters (OpenAPI); the others say how, and to whom, a message is sent."""
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TEMPLATE = re.compile(r"\{([^{}/]+)\}")
_HEADER = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class Parameter(NamedTuple):
    """One parameter in path, query, header or cookie; its schema is that of its value."""

    name: str
    place: str
    required: bool
    schema: JsonObject
    style: str
    explode: bool
    reserved: bool = False
    as_json: bool = False
    """Written as JSON (`content: application/json`), whatever its style."""

    @property
    def is_idempotency_key(self) -> bool:
        return self.place == "header" and is_idempotency_key(self.name)


class Placed(NamedTuple):
    """Parameters as the parts of a request: an encoded path and query, headers, and a Cookie header."""

    path: str
    query: str
    headers: list[tuple[str, str]]
    cookie: str


def parameters_of(document: Document, operation: Operation, schemas: Schemas) -> list[Parameter]:
    """Those of the operation and of its path, the former before the latter of the same name. Raises `Unusable`."""
    found: dict[tuple[str, str], Parameter] = {}
    for holder in (operation.item, operation.value):
        given = holder.get("parameters") or []
        if not isinstance(given, list):
            raise Unusable("its parameters are not a list")
        for each in given:
            node = document.follow(each, operation.file)
            if not isinstance(node.value, dict):
                raise Unusable("one of its parameters is not an object")
            made = _parameter(document, node.value, node.file, schemas)
            if made is not None:
                found[(made.place, made.name.lower() if made.place == "header" else made.name)] = made
    _check_path(operation.path, [each.name for each in found.values() if each.place == "path"])
    order = ("path", "query", "header", "cookie")
    return sorted(found.values(), key=lambda each: order.index(each.place))


def _parameter(document: Document, value: JsonObject, file: str, schemas: Schemas) -> Parameter | None:
    name, place = value.get("name"), value.get("in")
    if not isinstance(name, str) or not name:
        raise Unusable("one of its parameters has no name")
    if not isinstance(place, str) or place not in STYLES:
        raise Unusable(
            f'the parameter {name!r} is in {place!r}; "path", "query", "header" or "cookie" would do'
        )
    if place == "header" and name.lower() in _IGNORED_HEADERS:
        return None
    required = value.get("required") is True or place == "path"
    if place == "header" and not _FIELD_NAME.fullmatch(name):
        if required:
            raise Unusable(f"the parameter {name!r} is not a name of a header")
        return None
    content = value.get("content")
    as_json = False
    if isinstance(content, dict) and content:
        media_type, medium = next(iter(content.items()))
        medium = document.follow(medium, file).value
        given = medium.get("schema") if isinstance(medium, dict) else None
        as_json = "json" in media_type.lower()
        schema = schemas.convert(given, file) if as_json else {"type": "string"}
    else:
        schema = schemas.convert(value.get("schema"), file)
    schema = _described(schema, value)
    style = value.get("style", DEFAULT_STYLE[place])
    if not isinstance(style, str) or style not in STYLES[place]:
        raise Unusable(f"the parameter {name!r} in the {place} has the style {style!r}, which is none for it")
    explode = value.get("explode")
    return Parameter(
        name=name,
        place=place,
        required=required,
        schema=schema,
        style=style,
        explode=explode if isinstance(explode, bool) else style in ("form", "deepObject"),
        reserved=value.get("allowReserved") is True,
        as_json=as_json,
    )


def _described(schema: JsonObject, value: JsonObject) -> JsonObject:
    text = value.get("description")
    more: JsonObject = {}
    if isinstance(text, str) and text.strip():
        more["description"] = shortened(text, 400)
    if value.get("deprecated") is True:
        more["deprecated"] = True
    example = value.get("example")
    if (
        isinstance(example, str | int | float | bool)
        and len(str(example)) <= 100
        and "examples" not in schema
    ):
        more["examples"] = [example]
    return {**schema, **more}


def _check_path(path: str, names: list[str]) -> None:
    wanted = _TEMPLATE.findall(path)
    if missing := [name for name in wanted if name not in names]:
        raise Unusable(f"its path has {{{missing[0]}}}, but it has no path parameter of that name")
    if extra := [name for name in names if name not in wanted]:
        raise Unusable(f"the path parameter {extra[0]!r} is not in its path {path}")


def place(path: str, given: list[tuple[Parameter, Any]]) -> Placed:
    """The values in their places. `ValueError` says which one cannot be sent, and why."""
    segments: dict[str, str] = {}
    query: list[str] = []
    headers: list[tuple[str, str]] = []
    cookies: list[str] = []
    for parameter, raw in given:
        value = _json(raw) if parameter.as_json else raw
        try:
            if parameter.place == "path":
                segments[parameter.name] = _segment(parameter, value)
            elif parameter.place == "header":
                headers.append((parameter.name, _header(header_value(value, parameter.explode))))
            else:
                found = pairs(parameter.name, value, parameter.style, parameter.explode, parameter.reserved)
                to = query if parameter.place == "query" else cookies
                to += [f"{key}={text}" for key, text in found]
        except ValueError as error:
            raise ValueError(f"{parameter.name}: {error}") from None
    for missing in (name for name in _TEMPLATE.findall(path) if name not in segments):
        raise ValueError(f"{missing}: it is a part of the path and may not be null")
    filled = _TEMPLATE.sub(lambda found: segments[found[1]], path)
    for segment in filled.split("/"):
        if segment in (".", ".."):
            raise ValueError(f"a path may not have {segment!r} as a segment: it would lead elsewhere")
    return Placed(filled, "&".join(query), headers, "; ".join(cookies))


def _segment(parameter: Parameter, value: Any) -> str:
    text = path_segment(parameter.name, value, parameter.style, parameter.explode)
    if not text:
        raise ValueError("it is a part of the path and may not be empty")
    return text


def _header(text: str) -> str:
    text = text.strip(" \t")
    if not _HEADER.fullmatch(text):
        raise ValueError("a header may not contain line breaks or control characters")
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
