"""What of a call's parameters may be seen: no secret, and nothing large."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from replan.core.by_identity import ByIdentity
from replan.core.types import JsonObject, ToolSpec

MASK = "***"
_SHORT = 4
"""A secret of fewer characters is hidden only where it is quoted."""


def shown(tool: ToolSpec, parameters: JsonObject, limit: int) -> JsonObject:
    """The parameters as they go into the log: secrets masked, what is over `limit` bytes in few words."""
    seen = parameters
    if tool.secrets or _has_passwords(tool.parameters):
        seen = {
            name: MASK if name in tool.secrets else _masked(value, _property(tool.parameters, name))
            for name, value in parameters.items()
        }
    if _may_be_large(seen):
        seen = {name: _short(value, limit) for name, value in seen.items()}
    return seen


def secrets_of(tool: ToolSpec, parameters: JsonObject) -> set[str]:
    """The secret texts among the parameters: by the tool's word, or by `format: password` in its schema."""
    found: set[str] = set()

    def visit(value: Any, schema: Any, secret: bool) -> None:
        secret = secret or _is_password(schema)
        if isinstance(value, dict):
            for name, item in value.items():
                visit(item, _property(schema, name), secret)
        elif isinstance(value, list):
            for item in value:
                visit(item, _items(schema), secret)
        elif secret and value is not None and not isinstance(value, bool) and str(value):
            found.add(str(value))

    for name, value in parameters.items():
        visit(value, _property(tool.parameters, name), name in tool.secrets)
    return found


def hidden(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets that it quotes."""
    for secret in sorted(secrets, key=len, reverse=True):
        forms = [repr(secret), *(json.dumps(secret, ensure_ascii=only) for only in (True, False))]
        for quoted in forms:
            text = text.replace(quoted, MASK)
        if len(secret) >= _SHORT:
            for bare in (secret, *(quoted[1:-1] for quoted in forms), quote(secret, safe="")):
                text = text.replace(bare, MASK)
    return text


_has_passwords = ByIdentity[bool](lambda schema: '"password"' in json.dumps(schema, default=str))
"""True if anything in the schema may be a password."""


def _is_password(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("format") == "password"


def _property(schema: Any, name: str) -> Any:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties.get(name) if isinstance(properties, dict) else None


def _items(schema: Any) -> Any:
    return schema.get("items") if isinstance(schema, dict) else None


def _masked(value: Any, schema: Any) -> Any:
    """A copy of the value without what its schema calls a password."""
    if _is_password(schema):
        return MASK
    if isinstance(value, dict):
        return {name: _masked(item, _property(schema, name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, _items(schema)) for item in value]
    return value


def _may_be_large(parameters: JsonObject) -> bool:
    return any(
        isinstance(v, dict | list) or (isinstance(v, str) and len(v) > 1_000) for v in parameters.values()
    )


def _short(value: Any, limit: int) -> Any:
    if not isinstance(value, dict | list | str):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= limit:
        return value
    return f"{text[:200]}… ({len(text)} characters)"
