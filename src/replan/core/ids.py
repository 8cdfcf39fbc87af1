"""How ids and keys are made and what they look like."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from operator import itemgetter
from typing import Any

from replan.core.data.canonical import one_form
from replan.core.data.strict_json import storable
from replan.core.references.refs import ID, RESERVED
from replan.core.types import JsonObject

TENANT = "[a-z0-9][a-z0-9_-]{0,63}"
"""What the name of a tenant looks like."""
_MOST_SESSION = 200
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def step_id_problem(text: str) -> str:
    """Why the text cannot be a step or action id; empty if it can."""
    if text in RESERVED:
        return f"{text!r} is a word of the reference language and cannot be an id"
    if not ID.fullmatch(text):
        return f"{text!r} is no id: letters, digits, _ and -, not starting with a digit or -"
    return ""


def task_id_problem(text: str) -> str:
    """Why the text cannot be a task id; empty if it can."""
    if _TASK_ID.fullmatch(text):
        return ""
    return f"{text!r} is not a valid task id: 1 to 128 of letters, digits, . _ : and -, starting with a letter or digit"


def is_session(text: str) -> bool:
    """Whether tasks can be found by it: every store can hold it, and an index of it."""
    return 0 < len(text) <= _MOST_SESSION and "\0" not in text and storable(text) == text


_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str).encode


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces."""
    if (flat := _flat(value)) is not None:
        return flat
    try:
        return _ENCODE(value)
    except TypeError:  # keys of several types
        return _ENCODE(_texted(value))


def _flat(value: Any) -> str | None:
    """The same of an object of plain values, as most parameters are, without what the encoder prepares each time."""
    if type(value) is not dict:
        return None
    parts: list[str] = []
    for name, item in value.items() if len(value) < 2 else _in_order(value):
        if type(name) is not str:
            return None
        if type(item) is str:
            text = _quoted(item)
        elif type(item) is int:
            text = repr(item)
        elif item is None or type(item) is bool:
            text = _WORDS[item]
        else:
            return None
        parts.append(f"{_quoted(name)}:{text}")
    return f"{{{','.join(parts)}}}"


def _in_order(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    try:
        return sorted(value.items(), key=_name)
    except TypeError:  # keys of several types
        return list(value.items())


_name = itemgetter(0)
_quoted = json.encoder.encode_basestring
_WORDS = {None: "null", True: "true", False: "false"}


def _texted(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _texted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_texted(item) for item in value]
    return value


def digest(text: str) -> str:
    """128 bits of SHA-256 as hex: enough never to meet itself."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def digest_of(data: bytes) -> str:
    """The same of a text that is in UTF-8 already."""
    return hashlib.sha256(data).hexdigest()[:32]


def call_content(
    tool_id: str, parameters: Any, schema: JsonObject | None = None, *, older: bool = False
) -> str:
    """The one text of what a call asks for. 5, 5.0 and 5e0 are one number, as in JSON Schema, and signs that Unicode has in two
    ways (é, and e with an accent) are one sign.

    `schema`: of the tool's parameters; with it, what is left out is its default (`core.data.canonical`). `older`: as logs may
    have it that were written before.
    """
    if schema is not None:
        parameters = one_form(schema, parameters, older=older)
    text = _flat(parameters) or canonical(parameters)
    if ".0" in text or "e+" in text:
        text = canonical(_whole_numbers(parameters))
    if not (older or text.isascii()):
        text = unicodedata.normalize("NFC", text)
    return f"{tool_id}\x00{text}"


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(item) for item in value]
    return value


def call_base(task_id: str, tool_id: str, parameters: Any, schema: JsonObject | None = None) -> str:
    """What identifies a call by content: task, tool and canonical parameters."""
    return digest(f"{task_id}\x00{call_content(tool_id, parameters, schema)}")


def call_key(base: str, occurrence: int) -> str:
    """The idempotency key: the content, and which of the like calls that a plan means."""
    return f"{base}.{occurrence}"


def split_key(key: str) -> tuple[str, int]:
    """The base and the occurrence of a call key; a key of another form is a base of its own."""
    if key[-2:] == ".1" and len(key) > 2:  # as most are
        return key[:-2], 1
    base, _, occurrence = key.rpartition(".")
    return (base, int(occurrence)) if base and occurrence.isdecimal() else (key, 1)


def base_of(call_key: str) -> str:
    """What was called with what, whichever of the like calls it was."""
    return split_key(call_key)[0]
