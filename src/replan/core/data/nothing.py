"""Values that hold nothing: an envelope around nothing is nothing, and so is the word "none" where a text is wanted."""

from __future__ import annotations

from typing import Any

_FILLERS = frozenset(
    {"", "-", "--", "none", "null", "nil", "n/a", "na", "no", "false", "nothing", "not applicable"}
)


def is_filler(text: str) -> bool:
    """True for what is written where a field has to be filled and there is nothing to say."""
    return text.strip(" \t\r\n.\"'").casefold() in _FILLERS


def is_nothing(value: Any) -> bool:
    """True if no text, no number but 0 and no `true` stands anywhere in the value."""
    nodes = [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            nodes.extend(node.values())
        elif isinstance(node, list | tuple):
            nodes.extend(node)
        elif isinstance(node, str):
            if node.strip():
                return False
        elif node:
            return False
    return True
