"""The signature of an error: what is left of it when everything is folded that differs from case to case.

Two failures with one signature are one failure seen twice (specification §9). Ids, numbers, times, paths and
values are folded; the names of parameters and fields are what tells one error from another, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from replan.core.ids import digest
from replan.core.types import Fault, JsonObject, ToolSpec
from replan.core.walk import objects_in, texts_in

_MOST = 2_000
"""Characters of a message that count."""
_SHORT = 3
"""Values of fewer characters are folded only where they are quoted: they occur in words."""

_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,40}://[^\s\"'<>)\]]+", re.IGNORECASE)
_UUID = re.compile(r"[-+]?\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", re.IGNORECASE)
_TIME = re.compile(
    r"\b\d{4}-\d\d?-\d\d?(?:[t ]\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?\s*(?:z|[+-]\d\d:?\d\d)?)?|\b\d\d?:\d\d(?::\d\d)?(?:\.\d+)?\b",
    re.IGNORECASE,
)
_PATH = re.compile(r"(?<![\w.])(?:~|\.{1,2})?(?:/[\w.@%+~-]+){2,}/?|\b[a-z]:\\[^\s\"']+", re.IGNORECASE)
_QUOTED = re.compile(
    r"\"([^\"\n]{0,400})\"|'([^'\n]{0,400})'|`([^`\n]{0,400})`|‘([^’\n]{0,400})’|“([^”\n]{0,400})”|«([^»\n]{0,400})»"
)
_ID = re.compile(r"\b(?=[\w-]*\d)(?=[\w-]*[a-z])[a-z0-9]+(?:[_-][a-z0-9]+)*\b", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?\b\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?%?", re.IGNORECASE)
_FOLDED = re.compile(r"(?:<\w+>[\s,;]*){2,}")


def normalized(message: str, names: Collection[str] = (), values: Iterable[str] = ()) -> str:
    """The message with all that differs from case to case folded.

    `names`: parameters and fields, which stay. `values`: what the call was made with, which goes.
    """
    known = {name.casefold() for name in names}
    text = message[:_MOST]
    text = _URL.sub("<url>", text)
    low = text.casefold()
    quoted_values = {
        value for value in values if _SHORT < len(value) <= len(text) and value.casefold() in low
    }
    for value in sorted(quoted_values, key=len, reverse=True):
        if value.casefold() not in known:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "<value>", text, flags=re.IGNORECASE)

    def quoted(found: re.Match[str]) -> str:
        inner = next((part for part in found.groups() if part is not None), "")
        return inner if inner.casefold() in known else "<value>"

    def word(found: re.Match[str]) -> str:
        return found.group() if found.group().casefold() in known else "<id>"

    text = _QUOTED.sub(quoted, text)
    text = _UUID.sub(lambda found: "<n>" if found.group().lstrip("+-").isdecimal() else "<id>", text)
    text = _TIME.sub("<time>", text)
    text = _PATH.sub("<path>", text)
    text = _ID.sub(word, text)
    text = _NUMBER.sub("<n>", text)
    return _FOLDED.sub("<value> ", " ".join(text.casefold().split())).strip()


def signature(
    tool_id: str, fault: Fault, tool: ToolSpec | None = None, parameters: JsonObject | None = None
) -> str:
    """The signature of a fault: tool, the code's category, and the normalized message, in 128 bits."""
    names = set(names_in(tool.parameters)) | set(names_in(tool.output_schema)) if tool is not None else set()
    names |= set(parameters or ())
    text = normalized(fault.message, names, texts_in(parameters))
    return digest(f"{tool_id}\x00{fault.category}\x00{text}")


def names_in(schema: Any) -> Iterator[str]:
    """Every name of a parameter or field in a JSON Schema."""
    for one in objects_in(schema):
        if isinstance(properties := one.get("properties"), dict):
            yield from properties
