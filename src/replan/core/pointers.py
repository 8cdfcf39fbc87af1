"""JSON pointers (RFC 6901), and the references of schemas that are written with them."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote


class LeadsNowhere(Exception):
    """A pointer that selects nothing. `key`: the part of it that is not there."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def unescaped(token: str) -> str:
    """The key that a part of a pointer stands for."""
    return token.replace("~1", "/").replace("~0", "~")


def pointed(at: Any, pointer: str) -> Any:
    """What a pointer (`""`, `/a/0/b~1c`) selects in a JSON value. Raises `LeadsNowhere`."""
    for token in pointer.split("/")[1:]:
        key = unescaped(token)
        if isinstance(at, dict) and key in at:
            at = at[key]
        elif isinstance(at, list) and key.isdecimal() and int(key) < len(at):
            at = at[int(key)]
        else:
            raise LeadsNowhere(key)
    return at


def referred(root: Any, reference: str) -> Any:
    """What a `$ref` within the schema (`#`, `#/$defs/a`) leads to; None where it leads out, nowhere, or to an anchor."""
    start, _, pointer = reference.partition("#")
    pointer = unquote(pointer)
    if start or not reference or (pointer and not pointer.startswith("/")):
        return None
    try:
        return pointed(root, pointer)
    except LeadsNowhere:
        return None
