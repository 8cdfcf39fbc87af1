"""What identifies a call, without giving away what is secret in it.

Keys of calls are in the log and go to tool services. A plain hash of a call with a short secret would let anybody find it
by trying values; such a call is named by a keyed hash, with the key of the seals (`core.calls.seals`), which is the same after
a restart.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from itertools import combinations

from replan.core.data.canonical import has_older_form, one_form
from replan.core.ids import call_base, call_content, digest
from replan.core.secrets import secrets_in
from replan.core.types import JsonObject, ToolSpec

MOST_NEW = 5
"""Parameters with defaults of which each may be new: with more of them, only the words of a call are compared."""


def bases(key: bytes, task_id: str, tool: ToolSpec, parameters: JsonObject) -> list[str]:
    """How the call is named by its content: the right form first, then those that the log may have.

    An older release named it so, or the tool called nothing secret then, or does no more.
    """
    content = f"{task_id}\x00{call_content(tool.id, parameters, tool.parameters)}"
    found = [digest(content)]
    older = []
    if has_older_form(tool.parameters) or not content.isascii():
        older = [
            f"{task_id}\x00{call_content(tool.id, parameters, schema, older=True)}"
            for schema in (tool.parameters, None)
        ]
    found += map(digest, older)
    if one_form(tool.parameters, parameters) is not parameters:
        found.append(call_base(task_id, tool.id, parameters))
    if key:
        found.insert(0 if _has_secrets(tool, parameters) else len(found), _keyed(key, content))
        found += [_keyed(key, one) for one in older]
    return list(dict.fromkeys(found)) if older else found


def names_before(task_id: str, tool: ToolSpec, parameters: JsonObject) -> Iterator[str]:
    """How the call may have been named when its tool had fewer parameters: without some that are as their default is."""
    formed = one_form(tool.parameters, parameters)
    schemas = tool.parameters.get("properties", {})
    defaults = {
        name: one["default"] for name, one in schemas.items() if isinstance(one, dict) and "default" in one
    }
    filled = [name for name in defaults if name in formed and formed[name] == defaults[name]]
    for count in range(1, len(filled) + 1 if len(filled) <= MOST_NEW else 1):
        for new in combinations(filled, count):
            content = {name: value for name, value in formed.items() if name not in new}
            yield call_base(task_id, tool.id, content)


def written(tool_id: str, parameters: JsonObject) -> str:
    """The words of the call, whatever its tool's schema says of what they leave out."""
    return digest(call_content(tool_id, parameters))


def reading_base(key: bytes, task_id: str, tool: ToolSpec, parameters: JsonObject, about: str) -> str:
    """The same of a reading that is made to find out about something."""
    text = f"{task_id}\x00{call_content(tool.id, [parameters, about])}"
    return _keyed(key, text) if key and _has_secrets(tool, parameters) else digest(text)


def _has_secrets(tool: ToolSpec, parameters: JsonObject) -> bool:
    return any(True for _ in secrets_in(tool, parameters))


def _keyed(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:32]
