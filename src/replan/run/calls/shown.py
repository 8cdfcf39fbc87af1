"""What of a call's parameters goes into the log: no secret, and nothing large."""

from __future__ import annotations

import json
from typing import Any

from replan.core.secrets import KnownSecrets, masked_parameters
from replan.core.types import JsonObject, ToolSpec

_HEAD, _ENOUGH = 200, 10_000


def shown(tool: ToolSpec, parameters: JsonObject, limit: int, known: KnownSecrets) -> JsonObject:
    """The parameters as they go into the log: secrets masked, what is over `limit` bytes in few words."""
    known.learn(tool, parameters)
    seen = masked_parameters(tool, parameters)
    if _may_be_large(seen):
        seen = {name: _short(value, limit, known) for name, value in seen.items()}
    return seen


def _may_be_large(parameters: JsonObject) -> bool:
    return any(
        isinstance(v, dict | list) or (isinstance(v, str) and len(v) > 1_000) for v in parameters.values()
    )


def _short(value: Any, limit: int, known: KnownSecrets) -> Any:
    if not isinstance(value, dict | list | str):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= limit:
        return value
    head = known.hide(text[:_ENOUGH])[:_HEAD]  # in this order: half a secret would not be found
    return f"{head}… ({len(text)} characters)"
