"""Bytes in JSON: as a `data:` URL (RFC 2397), which a parameter of type `bytes` reads back."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w-]+=[^;,\s]+)*;base64,", re.ASCII)


def data_url(data: bytes, media_type: str = "application/octet-stream") -> str:
    """The bytes as a base64 `data:` URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def from_data_url(text: str) -> tuple[str, bytes] | None:
    """Media type and bytes of a base64 `data:` URL; None for any other text."""
    found = _DATA_URL.match(text)
    if found is None:
        return None
    try:
        return found[1] or "text/plain", base64.b64decode(text[found.end() :], validate=True)
    except ValueError:  # no base64, or no ASCII
        return None


def as_bytes(value: Any) -> bytes:
    """A value as a file has it: text as text, all else as JSON; a `data:` URL, also as the `data` of an object that only describes it, is decoded."""
    held = value.get("data") if isinstance(value, dict) else value
    if isinstance(held, str) and (found := from_data_url(held)) is not None:
        return found[1]
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")
