"""What identifies a call, without giving away what is secret in it.

Keys of calls are in the log and go to tool services. A plain hash of a call with a short secret would let anybody find it
by trying values; such a call is named by a keyed hash, with the key of the seals (`core.calls.seals`), which is the same after
a restart.
"""

from __future__ import annotations

import hmac

from replan.core.data.canonical import has_older_form, one_form
from replan.core.ids import call_base, call_content, digest
from replan.core.secrets import secrets_in
from replan.core.types import JsonObject, ToolSpec


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


def reading_base(key: bytes, task_id: str, tool: ToolSpec, parameters: JsonObject, about: str) -> str:
    """The same of a reading that is made to find out about something."""
    text = f"{task_id}\x00{call_content(tool.id, [parameters, about])}"
    return _keyed(key, text) if key and _has_secrets(tool, parameters) else digest(text)


def _has_secrets(tool: ToolSpec, parameters: JsonObject) -> bool:
    return any(True for _ in secrets_in(tool, parameters))


def _keyed(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:32]
