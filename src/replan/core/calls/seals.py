"""Seals of values that are not shown: who has the key can tell whether a value is the one that was agreed to.

An approval shows secrets masked and large values cut, so it is bound to their seals, too. The key is made once for each
database and kept in a table of its own, out of the log: any process that can drive the task can check a seal after a
restart, and nobody can find a secret by trying values against what the log says.
"""

from __future__ import annotations

import hmac

from replan.core.ids import canonical
from replan.core.types import JsonObject, ToolId


def seal(key: bytes, tool_id: ToolId, name: str, value: object) -> str:
    """The seal of one parameter's real value, whole."""
    text = f"{tool_id}\x00{name}\x00{canonical(value)}"
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:32]


def seals_of(key: bytes, tool_id: ToolId, parameters: JsonObject, seen: JsonObject) -> dict[str, str]:
    """The seals of those parameters that are not shown as they are."""
    return {
        name: seal(key, tool_id, name, value)
        for name, value in parameters.items()
        if name not in seen or seen[name] != value
    }
