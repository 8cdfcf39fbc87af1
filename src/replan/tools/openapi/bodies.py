"""Request bodies: which media type is sent, and how a value is written in it."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any, NamedTuple
from urllib.parse import quote

from replan.core.references.binary import from_data_url
from replan.core.references.kept import TAKES_FILE
from replan.core.types import Artifact, JsonObject
from replan.tools.openapi.documents.document import Document, Node, Unusable
from replan.tools.openapi.documents.operations import Operation
from replan.tools.openapi.documents.schemas import Schemas
from replan.tools.openapi.styles import pairs, text_of
from replan.tools.openapi.uploads import Known, Upload, file_of, joined

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
BYTES_HINT = (
    "Bytes: a reference to them in the output of a step, a data: URL (data:image/png;base64,…), or plain text"
)
_BYTES = "application/octet-stream"
_TEXTUAL = re.compile(r"text/|application/(.+\+)?(xml|yaml|x-yaml|javascript|graphql|sql|jsonl|x-ndjson)")
_NAMED = re.compile(r"data:[^,]*?;name=([^;,]+)")


class Body(NamedTuple):
    """The body of an operation: one media type, its schema, and how properties are encoded (forms)."""

    media_type: str
    schema: JsonObject
    required: bool
    encoding: dict[str, JsonObject]
    files: frozenset[str] = frozenset()
    """Properties of a multipart body that are files."""
    declared: str = ""
    """The media type as the document writes it, with its parameters."""

    @property
    def is_json(self) -> bool:
        return is_json(self.media_type)

    @property
    def is_object(self) -> bool:
        return self.is_json or self.media_type in (FORM, MULTIPART)


def is_json(media_type: str) -> bool:
    return media_type in ("application/json", "*/*", "application/*") or media_type.endswith("+json")


def bare(media_type: str) -> str:
    """The media type without its parameters, in small letters."""
    return media_type.partition(";")[0].strip().lower()


def body_of(document: Document, operation: Operation, schemas: Schemas) -> Body | None:
    """What the operation takes as its body; None where it takes none. Raises `Unusable`."""
    given = operation.value.get("requestBody")
    if given is None:
        return None
    node = document.follow(given, operation.file)
    if not isinstance(node.value, dict) or not isinstance(node.value.get("content"), dict):
        raise Unusable("its requestBody has no content")
    content = node.value["content"]
    required = node.value.get("required") is True
    if not content:
        return None
    found = [_body(document, node, schemas, name, required) for name in _ranked(content)]
    for body in found:
        if body.media_type not in (FORM, MULTIPART) or _is_object(schemas, body.schema):
            return body
    if found:
        raise Unusable(f"its body is a form ({found[0].media_type}), and its schema is not an object")
    raise Unusable(f"its body is {', '.join(map(bare, content))}; JSON, forms, text and bytes can be sent")


def _is_object(schemas: Schemas, schema: JsonObject) -> bool:
    kind = schemas.resolved(schema).get("type", "object")
    return "object" in (kind if isinstance(kind, list) else [kind])


def _body(document: Document, node: Node, schemas: Schemas, declared: str, required: bool) -> Body:
    media_type = bare(declared)
    medium = document.follow(node.value["content"][declared], node.file)
    inner = medium.value if isinstance(medium.value, dict) else {}
    if is_json(media_type) or media_type in (FORM, MULTIPART):
        schema = schemas.convert(inner.get("schema"), medium.file)
    elif _TEXTUAL.match(media_type):
        schema = _of_text(schemas.convert(inner.get("schema"), medium.file), schemas, media_type)
    else:
        hint = f"{BYTES_HINT}, sent as {media_type}"
        schema = {"type": "string", TAKES_FILE: True, "description": hint}
    given = inner.get("encoding")
    encoding = (
        {name: each for name, each in given.items() if isinstance(each, dict)}
        if isinstance(given, dict)
        else {}
    )
    body = Body(media_type, schema, required, encoding, declared=declared.strip())
    return body._replace(files=_files(body, schemas)) if media_type == MULTIPART else body


_PLAIN_TYPES = {"string", "boolean", "integer", "number"}


def _of_text(schema: JsonObject, schemas: Schemas, media_type: str) -> JsonObject:
    """What is written as text: by its schema where that is of one plain value, else any text."""
    found = schemas.resolved(schema)
    kinds = found.get("type")
    hint = f"Sent as {media_type}"
    if kinds and set(kinds if isinstance(kinds, list) else [kinds]) <= _PLAIN_TYPES:
        said = found.get("description")
        return {**found, "description": f"{said} {hint}" if said else hint}
    return {"type": "string", "description": f"Text, sent as {media_type}"}


def _ranked(content: JsonObject) -> list[str]:
    """The media types that can be sent, the one that says most first: JSON, forms, text, anything.

    Of those that differ in their parameters only, the one without comes first.
    """
    written = sorted(content, key=lambda name: ";" in name)
    names = list(dict.fromkeys(map(bare, written)))
    ranked = (
        [name for name in names if name == "application/json"],
        [name for name in names if name == "application/merge-patch+json"],
        [name for name in names if name.endswith("+json")],
        [name for name in names if name == FORM],
        [name for name in names if name == MULTIPART],
        [name for name in names if name in ("*/*", "application/*")],
        [name for name in names if _TEXTUAL.match(name)],
        [name for name in names if "/" in name and not name.startswith("multipart/")],
    )
    first = {bare(name): name for name in reversed(written)}
    return list(dict.fromkeys(first[name] for names in ranked for name in names))


def _files(body: Body, schemas: Schemas) -> frozenset[str]:
    properties = schemas.resolved(body.schema).get("properties", {})
    return frozenset(name for name, part in properties.items() if _is_file(schemas.resolved(part), schemas))


def _is_file(schema: JsonObject, schemas: Schemas) -> bool:
    items = schema.get("items")
    if schema.get("type") == "array" and isinstance(items, dict):
        return _is_file(schemas.resolved(items), schemas)
    if schema.get("format") == "binary":
        return True
    return "contentMediaType" in schema and "contentEncoding" not in schema


def encode(body: Body, value: Any, known: Known | None = None) -> tuple[bytes | Upload, str]:
    """The body and its Content-Type. `known`: the files of the task. `ValueError` for a value that the media type cannot hold."""
    if body.is_json:
        return _json(value), body.declared if "*" not in body.media_type else "application/json"
    if body.media_type == FORM:
        return _form(body, value), body.declared
    if body.media_type == MULTIPART:
        return _multipart(body, value, known)
    if _TEXTUAL.match(body.media_type):
        if isinstance(value, dict | list) or value is None:
            raise ValueError(f"a body of {body.media_type} is a text")
        charset = _CHARSET.search(body.declared)
        try:
            data = text_of(value).encode(charset[1] if charset else "utf-8")
        except (LookupError, UnicodeEncodeError) as error:
            raise ValueError(
                f"the body cannot be written in the charset of {body.declared!r}: {error}"
            ) from None
        return data, body.declared if charset else f"{body.declared}; charset=utf-8"
    if not isinstance(value, str):
        raise ValueError(f"a body of {body.media_type} is a text, or bytes as a data: URL")
    if (file := file_of(value, known)) is not None:
        return Upload((file,)), (file.media_type or _BYTES) if "*" in body.media_type else body.declared
    kind, data = from_data_url(value) or ("text/plain", value.encode())
    return data, kind if "*" in body.media_type else body.declared


_CHARSET = re.compile(r";\s*charset=\"?([\w.:-]+)", re.IGNORECASE)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _form(body: Body, value: Any) -> bytes:
    if not isinstance(value, dict):
        raise ValueError("a form is an object")
    parts: list[str] = []
    for name, each in value.items():
        if each is None:
            continue
        said = body.encoding.get(name) or {}
        if any(key in said for key in ("style", "explode", "allowReserved")):
            style = str(said.get("style", "form"))
            explode = said.get("explode", style in ("form", "deepObject")) is True
            found = pairs(name, each, style, explode)
        elif isinstance(each, dict) or "json" in str(said.get("contentType", "")):
            found = [(quote(name, safe=""), quote(_json(each), safe=""))]
        else:
            found = pairs(name, each, "form", True)
        parts += [f"{key}={text}" for key, text in found]
    return "&".join(parts).encode()


def _multipart(body: Body, value: Any, known: Known | None) -> tuple[bytes | Upload, str]:
    """RFC 7578; names as browsers write them (WHATWG HTML, "Multipart form data")."""
    if not isinstance(value, dict):
        raise ValueError("a multipart form is an object")
    boundary = f"replan-{uuid.uuid4().hex}"
    out: list[bytes | Artifact] = []
    for name, each in value.items():
        said = str((body.encoding.get(name) or {}).get("contentType", "")).partition(",")[0].strip()
        for item in each if isinstance(each, list) and "json" not in said else [each]:
            if item is None:
                continue
            is_file = name in body.files
            data: bytes | Artifact
            if is_file and (file := file_of(item, known)) is not None:
                kind = said if said and "*" not in said else file.media_type or _BYTES
                filename, data = name, file
            else:
                filename, kind, data = _part(item, said, is_file=is_file, name=name)
            head = f'Content-Disposition: form-data; name="{_quoted(name)}"'
            if filename is not None:
                head += f'; filename="{_quoted(filename)}"'
            typed = f"\r\nContent-Type: {kind}" if kind else ""
            out += [f"--{boundary}\r\n{head}{typed}\r\n\r\n".encode(), data, b"\r\n"]
    out.append(f"--{boundary}--\r\n".encode())
    return joined(out), f"{MULTIPART}; boundary={boundary}"


def _part(item: Any, said: str, *, is_file: bool, name: str) -> tuple[str | None, str, bytes]:
    """File name, media type ("" to leave it out) and bytes of one part."""
    if isinstance(item, dict | list):
        return None, said or "application/json", _json(item)
    text = text_of(item)
    found = from_data_url(text) if isinstance(item, str) else None
    if found is not None and (is_file or (said and not said.startswith("text/"))):
        named = _NAMED.match(text)
        kind = said if said and "*" not in said else found[0]
        return named[1] if named else name, kind, found[1]
    if is_file:
        return name, said if said and "*" not in said else "application/octet-stream", text.encode()
    return None, said if "*" not in said else "", text.encode()


def _quoted(name: str) -> str:
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
