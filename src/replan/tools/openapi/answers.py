"""What comes back: an answer as a value that JSON can hold, an error with its words."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any

from replan.core.data.pieces import PIECE
from replan.core.data.strict_json import NotStorable, storable, storable_value, whole_text
from replan.core.failures.faults import retry_after_secs
from replan.core.failures.transport import happened_after
from replan.core.references.binary import data_url
from replan.core.secrets import KnownSecrets
from replan.core.types import JsonObject
from replan.errors import ToolCallError
from replan.tools.large_json import parsed
from replan.tools.openapi.bodies import bare, is_json
from replan.tools.openapi.documents.document import Document, Node, Unusable
from replan.tools.openapi.documents.operations import Operation
from replan.tools.openapi.documents.schemas import Schemas

MAX_ERROR_BYTES = 65_536
"""So much of an error's body is read."""
_SHOWN = 4_000
"""So many characters of it are in the message."""
_TEXTUAL = re.compile(r"text/|application/(.+\+)?(xml|yaml|x-yaml|javascript|graphql|jsonl|x-ndjson|sql)\b")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_MARK = len("\\ud80")


class HttpFailure(ToolCallError):
    """An answer with a status of 400 or more. `body`: what it said, as JSON if it was that, for whoever diagnoses it."""

    body: Any = None


class Declared:
    """What the document says of an operation's successful answers."""

    def __init__(self, document: Document, operation: Operation, schemas: Schemas) -> None:
        found: list[JsonObject | None] = []
        self.media_types: list[str] = []
        self.written: list[str] = []
        """The same as the document writes them, with their parameters."""
        for node in _successes(document, operation):
            content = node.value.get("content") if isinstance(node.value, dict) else None
            kinds = (
                {bare(name): medium for name, medium in content.items()} if isinstance(content, dict) else {}
            )
            self.media_types += [name for name in kinds if name not in self.media_types]
            if isinstance(content, dict):
                self.written += [name.strip() for name in content if name.strip() not in self.written]
            if not kinds:
                found.append({"type": "null"})
                continue
            named = next((name for name in kinds if is_json(name)), None)
            if named is None or (len(kinds) > 1 and not all(map(is_json, kinds))):
                found.append(None)
                continue
            medium = kinds[named]
            found.append(
                schemas.convert(medium.get("schema") if isinstance(medium, dict) else None, node.file)
            )
        self.schema = _together(found)

    @property
    def only_json(self) -> bool:
        return bool(self.media_types) and all(is_json(name) and "*" not in name for name in self.media_types)


def _successes(document: Document, operation: Operation) -> list[Node]:
    responses = operation.value.get("responses")
    found = []
    for status, value in responses.items() if isinstance(responses, dict) else ():
        if re.fullmatch(r"2(\d\d|XX)", str(status), re.IGNORECASE):
            try:
                found.append(document.follow(value, operation.file))
            except Unusable:
                found.append(Node({"content": {"*/*": {}}}))
    return found


def _together(found: list[JsonObject | None]) -> JsonObject | None:
    """One schema of all; None where one of them says nothing."""
    distinct: list[JsonObject] = []
    for each in found:
        if not each:
            return None
        if each not in distinct:
            distinct.append(each)
    if not distinct or distinct == [{"type": "null"}]:
        return None
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def is_textual(media_type: str) -> bool:
    """It is read as text."""
    return _TEXTUAL.match(media_type) is not None


def value_of(data: bytes, content_type: str, *, only_json: bool, title: str) -> Any:
    """A successful answer: JSON as its value, text as text, other bytes as a `data:` URL, nothing as None.

    `ToolCallError` of kind `output` for what says that it is JSON and is not, also where the document declares
    nothing but JSON and a web page comes.
    """
    if not data:
        return None
    kind = bare(content_type)
    if is_json(kind) or (not kind and (only_json or data.lstrip()[:1] in (b"{", b"["))):
        return _json(data, title)
    if only_json and (kind.startswith("text/") or kind == "application/octet-stream"):
        try:
            return _json(data, title)  # many servers say text/plain of their JSON
        except ToolCallError:
            if kind == "text/html":
                text = f"{title} answered with a web page where JSON is declared: {_plain(_text(data) or '')[:300]}"
                raise ToolCallError(text, kind="output", happened="unknown") from None
    text_or_none = _text(data, content_type) if not kind or is_textual(kind) else None
    return text_or_none if text_or_none is not None else data_url(data, kind or "application/octet-stream")


def failure(
    status: int, headers: Any, data: bytes, *, title: str, secrets: KnownSecrets, now: float
) -> HttpFailure:
    """The error for an answer with a status of 400 or more (problem details, RFC 9457, in their words)."""
    kind = bare(headers.get("content-type", ""))
    body: Any = None
    if is_json(kind) or data.lstrip()[:1] in (b"{", b"["):
        try:
            body = storable_value(json.loads(data))
        except (ValueError, RecursionError):
            body = None
    text = _said(body) if body is not None else _text(data, headers.get("content-type", "")) or ""
    if body is None and ("html" in kind or text.lstrip()[:1] == "<"):
        text = _plain(text)
    shown, reason = secrets.hide(text.strip()), _reason(status)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}… ({len(data):,} bytes)"
    message = f"{title}: {status}{reason}" + (f": {shown}" if shown else "")
    wait = retry_after_secs(headers["retry-after"], now) if "retry-after" in headers else None
    error = HttpFailure(
        message, kind="http", status=status, happened=happened_after(status), retry_after=wait
    )
    error.body = secrets.masked(body)
    return error


def _json(data: bytes, title: str) -> Any:
    try:
        value = parsed(data)
    except ValueError as error:
        start = data[:200].decode("utf-8", "replace")
        text = f"{title} answered with what is not valid JSON ({error}); it begins: {start!r}"
        raise ToolCallError(text, kind="output", happened="unknown") from None
    pieces = range(0, len(data), PIECE)
    if not any(_SURROGATE.search(data, at, at + PIECE + _MARK) for at in pieces):
        return value
    try:
        return whole_text(value)
    except NotStorable as error:
        text = f"{title} answered with what cannot be kept as JSON: {error}"
        raise ToolCallError(text, kind="output", happened="unknown") from None


def _text(data: bytes, content_type: str = "") -> str | None:
    """The text, by the charset that is named, else UTF-8; None if it is no text in that."""
    named = re.search(r"charset=\"?([\w.:-]+)", content_type, re.IGNORECASE)
    try:
        return storable(data.decode(named[1] if named else "utf-8"))
    except (UnicodeError, LookupError):
        return None


def _said(body: Any) -> str:
    if isinstance(body, dict):
        first = [str(body[key]) for key in ("title", "detail") if isinstance(body.get(key), str)]
        rest = {
            key: each
            for key, each in body.items()
            if not (key in ("title", "detail") and isinstance(each, str))
            and not (key == "status" or (key == "type" and each == "about:blank"))
        }
        if first:
            return ": ".join(first) + (f" {json.dumps(rest, ensure_ascii=False)}" if rest else "")
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)


_CODE = re.compile(r"<(/?)(script|style)\b[^>]*>?", re.IGNORECASE)


def _plain(html: str) -> str:
    """The words of a web page, found in one pass: it comes from the server, and may be anything."""
    html = html[:MAX_ERROR_BYTES]
    shown: list[str] = []
    at, inside = 0, ""
    for tag in _CODE.finditer(html):
        closes, kind = bool(tag[1]), tag[2].lower()
        if not inside and not closes:
            shown.append(html[at : tag.start()])
            at, inside = tag.start(), kind
        elif closes and kind == inside:
            at, inside = tag.end(), ""
    text = " ".join([*shown, html[at:]])
    words: list[str] = []
    at = 0
    while (start := text.find("<", at)) >= 0 and (end := text.find(">", start)) >= 0:
        words.append(text[at:start])
        at = end + 1
    return " ".join(" ".join([*words, text[at:]]).split())


def _reason(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
