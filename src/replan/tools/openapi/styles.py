"""Parameter values as text, in every style of OpenAPI 3.1 (Parameter Object, "Style Examples"; RFC 6570).

Values inside of a list or object that are lists or objects themselves have no meaning in those styles, but for
`deepObject`, where brackets are nested and lists numbered, as servers commonly read them; elsewhere they are written as JSON.
"""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import quote, unquote

Place = Literal["path", "query", "header", "cookie"]

STYLES: dict[str, frozenset[str]] = {
    "path": frozenset(("simple", "label", "matrix")),
    "query": frozenset(("form", "spaceDelimited", "pipeDelimited", "deepObject")),
    "header": frozenset(("simple",)),
    "cookie": frozenset(("form",)),
}
DEFAULT_STYLE = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_RESERVED = ":/?@!$'()*,;"
"""What `allowReserved` leaves as it is; the others of RFC 3986 would end or split the query."""


def pairs(name: str, value: Any, style: str, explode: bool, reserved: bool = False) -> list[tuple[str, str]]:
    """A query or cookie parameter as encoded names and values."""
    key = _encoded(name)
    if style == "deepObject" and isinstance(value, dict | list):
        return _deep(key, value, reserved)
    if isinstance(value, dict):
        if explode:
            return [(_encoded(part), _encoded(text_of(each), reserved)) for part, each in value.items()]
        value = [each for pair in value.items() for each in pair]
    elif not isinstance(value, list):
        return [(key, _encoded(text_of(value), reserved))]
    elif explode:
        return [(key, _encoded(text_of(each), reserved)) for each in value]
    between = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(style, ",")
    return [(key, between.join(_item(each, reserved, between) for each in value))]


def path_segment(name: str, value: Any, style: str, explode: bool) -> str:
    """A path parameter as the encoded text that replaces `{name}`."""
    key = _encoded(name)
    if style == "matrix":
        return _matrix(key, value, explode)
    before, between = (".", ".") if style == "label" else ("", ",")
    return before + _joined(value, explode, between if explode else ",", encode=True)


def header_value(value: Any, explode: bool) -> str:
    """A header parameter as text; headers are not percent-encoded."""
    return _joined(value, explode, ",", encode=False)


def text_of(value: Any) -> str:
    """A value in one piece: numbers and truth values as JSON writes them, null as nothing."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _matrix(key: str, value: Any, explode: bool) -> str:
    if isinstance(value, dict) and explode:
        return "".join(_assigned(_encoded(part), each) for part, each in value.items())
    if isinstance(value, list) and explode:
        return "".join(_assigned(key, each) for each in value)
    text = _joined(value, False, ",", encode=True)
    return f";{key}={text}" if text else f";{key}"


def _assigned(key: str, value: Any) -> str:
    text = _encoded(text_of(value))
    return f";{key}={text}" if text else f";{key}"


def _joined(value: Any, explode: bool, between: str, *, encode: bool) -> str:
    def write(each: Any) -> str:
        return _encoded(text_of(each)) if encode else text_of(each)

    if isinstance(value, dict):
        if explode:
            return between.join(f"{write(part)}={write(each)}" for part, each in value.items())
        return between.join(write(each) for pair in value.items() for each in pair)
    if isinstance(value, list):
        return between.join(write(each) for each in value)
    return write(value)


def _deep(key: str, value: Any, reserved: bool) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        parts = [(f"{key}%5B{_encoded(part)}%5D", each) for part, each in value.items()]
    elif isinstance(value, list):
        parts = [(f"{key}%5B{index}%5D", each) for index, each in enumerate(value)]
    else:
        return [(key, _encoded(text_of(value), reserved))]
    return [pair for name, each in parts for pair in _deep(name, each, reserved)]


def _item(value: Any, reserved: bool, between: str) -> str:
    """One item of a list. `ValueError` if it holds what separates items, as nothing could tell them apart."""
    text = _encoded(text_of(value), reserved)
    text = text.replace(",", "%2C") if between == "," else text
    if between != "," and between in text:
        raise ValueError(f"an item may not contain {unquote(between)!r}, which separates the items")
    return text


def _encoded(text: str, reserved: bool = False) -> str:
    return quote(text, safe=_RESERVED if reserved else "")
