"""JSON pointers (RFC 6901)."""

from __future__ import annotations

from typing import Any


class LeadsNowhere(Exception):
    """A pointer that selects nothing. `key`: the part of it that is not there."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def pointed(at: Any, pointer: str) -> Any:
    """What a pointer (`""`, `/a/0/b~1c`) selects in a JSON value. Raises `LeadsNowhere`."""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and key in at:
            at = at[key]
        elif isinstance(at, list) and key.isdigit() and int(key) < len(at):
            at = at[int(key)]
        else:
            raise LeadsNowhere(key)
    return at
