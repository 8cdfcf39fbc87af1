"""The one form of a call's parameters, so that calls which mean the same are one call.

What is left out is filled with the schema's default, a moment is written in UTC, a number that may be a text is a number,
and what a format allows to be written in several ways is written in one. The form is for comparing only: what a tool is called with stays as it was given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from replan.core.data.schemas import problems
from replan.core.memo import ByIdentity
from replan.core.pointers import referred
from replan.core.types import JsonObject

_DEPTH = 12


def one_form(schema: JsonObject, parameters: Any, *, older: bool = False) -> Any:
    """The parameters in their one form; the very same object where nothing has to be changed.

    `older`: the form that logs may have which were written before some parts of a schema were known here.
    """
    if not isinstance(parameters, dict) or not has_forms(schema):
        return parameters
    try:
        formed = _formed(parameters, schema, _Root(schema, older), 0)
    except RecursionError:
        return parameters
    return parameters if formed == parameters else formed


class _Root(NamedTuple):
    """The schema that references lead into."""

    schema: JsonObject
    older: bool


UNORDERED = "x-unordered"
"""Of a list in a schema: its order says nothing, and neither does what stands in it twice. A function's `set` is one."""
_WORDS = ('"default"', '"format"', '"number"', f'"{UNORDERED}"')
has_forms = ByIdentity[bool](lambda schema: any(word in json.dumps(schema, default=str) for word in _WORDS))
"""False where the schema says nothing that the form could depend on."""


_NEW_WORDS = (
    '"prefixItems"', '"patternProperties"', '"if"', '"dependentSchemas"', '"time"', f'"{UNORDERED}"',
)  # fmt: skip
has_older_form = ByIdentity[bool](
    lambda schema: any(word in json.dumps(schema, default=str) for word in _NEW_WORDS)
)
"""True where calls by this schema may have had another form in older logs."""


def _formed(value: Any, schema: Any, root: _Root, depth: int) -> Any:
    if depth > _DEPTH or not isinstance(schema, dict):
        return value
    schema = _followed(schema, value, root)
    if isinstance(value, dict):
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        out = dict(value)
        for name, child in properties.items():
            if name not in out and isinstance(child, dict) and "default" in child:
                out[name] = child["default"]
        return {
            name: _formed(item, _of_name(name, schema, properties, root), root, depth + 1)
            for name, item in out.items()
        }
    if isinstance(value, list):
        first = schema.get("prefixItems")
        first = first if isinstance(first, list) and not root.older else []
        rest = schema.get("items")
        items = [
            _formed(item, first[at] if at < len(first) else rest, root, depth + 1)
            for at, item in enumerate(value)
        ]
        return _sorted(items) if schema.get(UNORDERED) is True and not root.older else items
    if isinstance(value, str):
        return _text(value, schema, root)
    return value


def _of_name(name: str, schema: JsonObject, properties: JsonObject, root: _Root) -> Any:
    """What describes the property of this name."""
    if name in properties:
        return properties[name]
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict) and not root.older:
        for pattern, part in patterns.items():
            if not problems({"propertyNames": {"pattern": pattern}}, {name: None}):
                return part
    return schema.get("additionalProperties")


def _sorted(items: list[Any]) -> list[Any]:
    by_text = {json.dumps(item, sort_keys=True, default=str): item for item in items}
    return [by_text[text] for text in sorted(by_text)]


def _followed(schema: JsonObject, value: Any, root: _Root, depth: int = 0) -> JsonObject:
    """All that describes the value: what stands behind references, in `allOf`, in the one branch of its kind, and under
    conditions that it fulfils as it is given."""
    if depth > _DEPTH:
        return schema
    if isinstance(target := schema.get("$ref"), str):
        found = referred(root.schema, target)
        if not isinstance(found, dict):
            return schema
        schema = {**found, **{name: part for name, part in schema.items() if name != "$ref"}}
        return _followed(schema, value, root, depth + 1)
    if isinstance(value, str) and _is_number_too(schema):
        return schema
    parts = [part for part in schema.get("allOf") or () if isinstance(part, dict)]
    for word in ("anyOf", "oneOf"):
        branches = schema.get(word) or ()
        fitting = [part for part in branches if isinstance(part, dict) and _may_describe(part, value)]
        if len(fitting) == 1:
            parts += fitting
    if not root.older:
        parts += _under_conditions(schema, value, root)
    if not parts:
        return schema
    whole = {name: part for name, part in schema.items() if name not in _OF_PARTS}
    for part in parts:
        whole = _together(whole, _followed(part, value, root, depth + 1))
    return whole


_OF_PARTS = ("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas")


def _under_conditions(schema: JsonObject, value: Any, root: _Root) -> list[JsonObject]:
    """The parts of the schema that hold for this value: `then` or `else`, and those of properties that it has."""
    found: list[Any] = []
    if isinstance(condition := schema.get("if"), dict):
        within: JsonObject = {
            name: root.schema[name] for name in ("$defs", "definitions") if name in root.schema
        }
        holds = not problems({**within, **condition}, value)
        found.append(schema.get("then" if holds else "else"))
    dependent = schema.get("dependentSchemas")
    if isinstance(dependent, dict) and isinstance(value, dict):
        found += [part for name, part in dependent.items() if name in value]
    return [part for part in found if isinstance(part, dict)]


def _together(one: JsonObject, other: JsonObject) -> JsonObject:
    """What two schemas of one value say of its form: the properties of both; of anything else, what the first says."""
    whole = {**other, **one}
    mine, theirs = one.get("properties"), other.get("properties")
    if isinstance(mine, dict) and isinstance(theirs, dict):
        whole["properties"] = {
            name: {**theirs[name], **mine[name]}
            if isinstance(theirs.get(name), dict) and isinstance(mine.get(name), dict)
            else mine.get(name, theirs.get(name))
            for name in (*mine, *(name for name in theirs if name not in mine))
        }
    return whole


_KINDS: dict[type, str] = {dict: "object", list: "array", str: "string"}


def _may_describe(branch: JsonObject, value: Any) -> bool:
    kind = branch.get("type")
    return "$ref" in branch or "properties" in branch or kind is None or kind == _KINDS.get(type(value))


def _is_number_too(schema: JsonObject) -> bool:
    """True for what may be given as a number or as any text of one, as decimals are."""
    branches = [one for one in schema.get("anyOf", ()) if isinstance(one, dict)]
    kinds = {one.get("type") for one in branches}
    return {"number", "string"} <= kinds and not any(
        one.keys() & {"const", "enum", "format"} for one in branches
    )


def _text(text: str, schema: JsonObject, root: _Root) -> Any:
    if _is_number_too(schema):
        return _number(text)
    form = _FORMS.get(str(schema.get("format")))
    if root.older and form is _time:
        form = _time_as_written
    if form is None:
        return text
    try:
        return form(text.strip())
    except (ValueError, OverflowError):
        return text


def _number(text: str) -> Any:
    try:
        number = Decimal(text.strip()).normalize()
    except (InvalidOperation, ValueError):
        return text
    if not number.is_finite() or abs(number.adjusted()) > 300:
        return text
    exact = float(number)
    return exact if Decimal(repr(exact)) == number else str(number)


_MILLISECONDS_FROM = 2e10
"""From this size on, pydantic takes the number of a moment for milliseconds."""


def _moment(text: str) -> str:
    if re.fullmatch(r"-?\d{5,}(\.\d+)?", text):
        number = float(text)
        secs = number / 1000 if abs(number) > _MILLISECONDS_FROM else number
        found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=secs)
    else:
        found = datetime.fromisoformat(text.upper())
    return (found.astimezone(UTC) if found.tzinfo is not None else found).isoformat()


def _time(text: str) -> str:
    """A time of day with an offset in UTC; one without says nothing of where it is meant."""
    found = time.fromisoformat(text.upper())
    if found.tzinfo is not None:
        found = datetime.combine(_ANY_DAY, found).astimezone(UTC).timetz()
    return found.isoformat()


def _time_as_written(text: str) -> str:
    return time.fromisoformat(text.upper()).isoformat()


_ANY_DAY = date(2000, 1, 2)


def _day(text: str) -> str:
    if len(text) > len("2030-01-01"):
        found = datetime.fromisoformat(text.upper())
        return found.date().isoformat() if found.time() == time() else text
    return date.fromisoformat(text).isoformat()


_DURATION = re.compile(
    r"([+-]?)P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d+)?)S)?)?",
    re.IGNORECASE,
)


_UNITS = (31_536_000, 2_592_000, 604_800, 86_400, 3_600, 60, 1)


def _duration(text: str) -> str:
    """In seconds (ISO 8601); years of 365 and months of 30 days, as pydantic reads them."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return text
    sign, *parts = found.groups(default="0")
    secs = sum(Decimal(part.replace(",", ".")) * size for part, size in zip(parts, _UNITS, strict=True))
    return f"{'-' if sign == '-' and secs else ''}{Decimal(secs).normalize():f} s"


_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def _address(text: str) -> str:
    """Scheme and host in small letters, without the port that goes without saying (RFC 3986, 6.2)."""
    parts = urlsplit(text)
    if not parts.hostname or parts.scheme not in _PORTS:
        return text
    user, at, _ = parts.netloc.rpartition("@")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, _PORTS[parts.scheme]) else f":{parts.port}"
    return parts._replace(netloc=f"{user}{at}{host}{port}", path=parts.path or "/").geturl()


def _mail(text: str) -> str:
    name, at, host = text.rpartition("@")
    return f"{name}{at}{host.lower()}"


_FORMS: dict[str, Callable[[str], str]] = {
    "date-time": _moment,
    "date": _day,
    "time": _time,
    "duration": _duration,
    "uuid": lambda text: str(UUID(text)),
    "uri": _address,
    "url": _address,
    "email": _mail,
    "idn-email": _mail,
}
